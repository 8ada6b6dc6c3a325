"""Trained policy in one file: of a run, of `hanabi-rl export`, or bundled with the package.

A `.safetensors` file of the actor's parameters, whose header has the policy's metadata, a model
card and the SHA-256 of everything. Runs write float32. Exported and bundled files have half
precision, which changes a logit by less than 1 part in 1000; the results on their cards are those
of the rounded parameters.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo, Unit, init_params, policy_spec
from hanabi_rl.games.registry import game_from_dict
from hanabi_rl.nn.config import AnyNetworkConfig, network_class
from hanabi_rl.storage import trees
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.files import to_json
from hanabi_rl.storage.program_cache import cached_shapes
from hanabi_rl.storage.renamed_fields import RENAMED_AGENTS, RENAMED_VALUES, with_new_names
from hanabi_rl.storage.tensors import plain, read_metadata, read_tensors, write_tensors
from hanabi_rl.storage.words import did_you_mean

SUFFIX = ".safetensors"
BUNDLED_DIR = Path(__file__).parent / "bundled"
"""Folder of the bundled agents: `agent:NAME` is its file NAME."""
FORMAT_VERSION = 3
"""Version of the header. Format 1 had one `step`, in three units; until format 2 the `features` of
a structured network were its `level`, and some keys of the card had other names."""


HALF_BITS = 11
"""Significant binary digits of a float16."""


def round_to_half(policy: NetworkPolicy, bits: int = HALF_BITS) -> NetworkPolicy:
    """Round parameters to float16 with `bits` significant binary digits; returns them as float32.

    Fewer bits compress better. Raises ValueError for a parameter that overflows half precision.
    """

    def to_half(x: Any) -> np.ndarray:
        half = np.asarray(x).astype(np.float16)
        # consecutive float16 have consecutive bit patterns, so rounding the integer, ties to even,
        # rounds the number
        unit = 1 << (HALF_BITS - bits)
        whole = np.rint(half.view(np.uint16).astype(np.float64) / unit) * unit
        return whole.astype(np.uint16).view(np.float16).astype(np.float32)

    with np.errstate(over="ignore"):  # checked below
        params = jax.tree.map(to_half, policy.params)
    for name, leaf in trees.leaf_paths(params).items():
        if not np.isfinite(leaf).all():
            raise ValueError(f"{name}: too large for half precision")
    return policy.replace(params=params)


def write_file(
    path: Path, policy: NetworkPolicy, card: Mapping[str, Any] | None = None, *, half: bool = False
) -> None:
    """Write `policy`, with float32 parameters, and its model `card` to a .safetensors file,
    atomically.

    With `half`, parameters are stored as float16, and reading returns `round_to_half(policy)`.

    Raises:
        ValueError: another suffix, parameters that do not fit the network (`IncompatibleError`), or
            as `round_to_half`.
    """
    if path.suffix != SUFFIX:
        raise ValueError(f"expected a file named *{SUFFIX}, got {path}")
    leaves = trees.leaf_paths((round_to_half(policy) if half else policy).params)
    params = {name: plain(x) for name, x in leaves.items()}
    template = params_template(policy.rules, policy.network)
    trees.check_leaves(params, template, where="the policy to write")
    if half:
        params = {name: x.astype(np.float16) for name, x in params.items()}
    header = {
        "policy": json.dumps(policy_metadata(policy)),
        "card": json.dumps(to_json(card or {})),
    }
    header["sha256"] = _digest(params, header)
    write_tensors(path, params, header)


def read_file(path: Path) -> NetworkPolicy:
    """Read the policy in `path`, with float32 parameters.

    Opens the file once, as it may be replaced at any time. Raises ValueError for a file that is
    damaged, of another format, or not a policy.
    """
    leaves, header = _read(path)
    if header.get("sha256") != _digest(leaves, header):
        raise trees.CorruptError(f"{path}: wrong SHA-256: the file is damaged or was edited")
    rules, network, info = parse_metadata(_parse(header, "policy", path), where=path)
    full = {
        name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in leaves.items()
    }
    template = params_template(rules, network)
    trees.check_leaves(full, template, where=str(path))
    return NetworkPolicy(
        params=trees.restore_structure(template, full), rules=rules, network=network, info=info
    )


def read_card(path: Path) -> dict[str, Any]:
    """Model card in `path`, empty if a run wrote the file. Raises ValueError as `read_file`."""
    header = _read(path, tensors=False)[1]
    card = _parse(header, "card", path)
    is_old = _parse(header, "policy", path).get("format_version") in (1, 2)
    return _card_from_format_2(card) if is_old else card


def read_rules(path: Path) -> Any:
    """Game of the policy in `path`. Raises ValueError as `read_file`."""
    header = _read(path, tensors=False)[1]
    return parse_metadata(_parse(header, "policy", path), where=path)[0]


def is_policy(path: Path) -> bool:
    """True if `write_file` wrote `path`, even if it is damaged."""
    try:
        _read(path, tensors=False)
    except ValueError:
        return False
    return True


def bundled_files() -> dict[str, Path]:
    """Bundled agents: name -> file."""
    return {path.stem: path for path in sorted(BUNDLED_DIR.glob(f"*{SUFFIX}"))}


def load_bundled(name: str) -> NetworkPolicy:
    """Load the agent `agent:NAME`; raises ValueError if it does not exist."""
    return read_file(bundled_path(name))


def bundled_path(name: str) -> Path:
    """Path of the agent `agent:NAME`; raises ValueError as `load_bundled`."""
    short = name.removeprefix("agent:")
    files = bundled_files()
    if short in RENAMED_AGENTS:
        raise ValueError(f"agent:{short} was renamed to agent:{RENAMED_AGENTS[short]}")
    if short not in files:
        raise ValueError(
            f"{name}: expected agent:NAME with one of {', '.join(files)}"
            f"{did_you_mean(short, files)}"
        )
    return files[short]


def _read(path: Path, tensors: bool = True) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Parameters (empty unless `tensors`) and header."""
    try:
        leaves, header = read_tensors(path) if tensors else ({}, read_metadata(path))
    except ValueError as error:
        raise trees.CorruptError(f"{path}: expected a policy file, got: {error}") from error
    if missing := {"policy", "card"} - set(header):
        raise ValueError(
            f"{path}: expected a file that a run or `hanabi-rl export` wrote, got one without "
            f"{', '.join(sorted(missing))} in its header"
        )
    return leaves, header


def _parse(header: Mapping[str, str], key: str, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(header[key])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {key}: expected JSON, got: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path}: {key}: expected an object, got {type(record).__name__}")
    return record


def _digest(leaves: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
    return agent_hash([header["policy"], header["card"]], dict(leaves))


def policy_metadata(policy: NetworkPolicy) -> dict[str, Any]:
    """Metadata of a policy's file."""
    return to_json(
        {"format_version": FORMAT_VERSION, **policy_spec(policy), **dataclasses.asdict(policy.info)}
    )


def parse_metadata(
    description: Mapping[str, Any], *, where: Path
) -> tuple[Any, AnyNetworkConfig, PolicyInfo]:
    """Parse `policy_metadata`; raises ValueError with `where`, the key, and both values."""

    def expect(name: str, expected: Any, got: Any) -> None:
        if got != expected:
            raise ValueError(f"{where}: expected {name} {expected!r}, got {got!r}")

    if not isinstance(description, Mapping):
        raise ValueError(f"{where}: expected an object, got {type(description).__name__}")
    if description.get("format_version") == 1:
        description = _from_format_1(description)
    if description.get("format_version") == 2:
        description = _from_format_2(description)
    expect("format_version", FORMAT_VERSION, description.get("format_version"))
    try:
        game, network = dict(description["game"]), dict(description["network"])
        rules = game_from_dict(game, where=f"{where}: game")
        version = description["observation_version"]
        expect("observation_version", rules.observation_version, version)
        kind = network.pop("kind")
        info = {field.name: description[field.name] for field in dataclasses.fields(PolicyInfo)}
    except KeyError as error:
        raise ValueError(f"{where}: expected a key {error.args[0]!r}, got none") from error
    except TypeError as error:
        raise ValueError(f"{where}: expected a game and a network, got: {error}") from error
    try:
        cls = network_class(kind)
    except ValueError as error:
        raise ValueError(f"{where}: network.kind: {error}") from error
    config = from_dict(cls, network, where=f"{where}: network")
    expect("network.kind", config.kind, kind)
    return (
        rules,
        config,
        from_dict(PolicyInfo, info, where=str(where)),
    )


def _from_format_1(description: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metadata from format 1 to 2, with a unit for its `step`."""
    changed = dict(description)
    steps = changed.pop("step", None)
    if steps is not None:
        unit: Unit = "minibatches" if changed.get("algorithm") == "bc" else "environment steps"
        changed |= {"steps": steps, "unit": unit}
    return changed | {"format_version": 2}


def _from_format_2(description: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metadata from format 2 to 3: `network.level` became `network.features`."""
    changed = {**description, "format_version": FORMAT_VERSION}
    if isinstance(network := changed.get("network"), dict):
        changed["network"] = with_new_names(network)
    return changed


_CARD_KEYS = {
    "met": "training_partners",
    "tier": "features",
    "zero_share": "zero_rate",
    "perfect_share": "perfect_rate",
    "nats": "cross_entropy",
    "nats_ci95": "cross_entropy_ci95",
}
"""Keys of a card of format 2, at any depth -> current names."""


def _card_from_format_2(card: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a card of format 1 or 2 to format 3."""
    changed: dict[str, Any] = {
        _CARD_KEYS.get(key, key): _card_from_format_2(value) if isinstance(value, dict) else value
        for key, value in card.items()
    }
    if isinstance(features := changed.get("features"), str):
        changed["features"] = RENAMED_VALUES["features"].get(features, features)
    return changed


@functools.lru_cache(maxsize=64)
def params_template(rules: Any, network: AnyNetworkConfig) -> trees.PyTree:
    """Shapes and dtypes of the parameters. Cached, as tracing takes half a second."""
    return cached_shapes(_first_params, rules, network)


def _first_params(rules: Any, network: AnyNetworkConfig) -> trees.PyTree:
    return init_params(rules, network, jax.random.key(0))
