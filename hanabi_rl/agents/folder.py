"""Trained policies on disk.

A policy folder holds `policy.json` (what it plays and where it comes from), `params/` (Orbax) and
`manifest.json` (what each parameter must be). It is only ever replaced as a whole.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo, Unit, init_params, played
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import OBSERVATION_VERSION
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured import StructuredConfig
from hanabi_rl.storage import trees
from hanabi_rl.storage.checkpoint import read_documents
from hanabi_rl.storage.files import committed_folder, read_json, replace_folder, to_json, write_json
from hanabi_rl.storage.records import from_dict

FORMAT_VERSION = 2  # 1 had one `step`, in three units


def save_policy(
    folder: Path,
    policy: NetworkPolicy,
    *,
    algorithm: str,
    steps: int,
    unit: Unit = "environment steps",
    score: float | None,
    greedy: bool = True,
) -> None:
    """Writes `policy` to `folder`, in the place of an older one if there is one; a kill at any
    moment leaves one of the two.

    Args:
        folder: the policy folder, e.g. `<run>/policy`.
        policy: whose parameters to write.
        algorithm: what trained it, e.g. `bc`.
        steps: how long it was trained, in `unit`.
        unit: what the steps are.
        score: the mean score of the evaluation that selected it, or None.
        greedy: whether that evaluation was greedy.
    """
    info = PolicyInfo(algorithm, int(steps), unit, None if score is None else float(score), greedy)
    policy = dataclasses.replace(policy, info=info)
    arrays, manifest = trees.to_host(policy.params)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    with trees.tree_checkpointer() as checkpointer:
        checkpointer.save((beside / "params").resolve(), trees.storable(arrays))
    description = describe(policy)
    write_json(
        beside / "manifest.json",
        {"leaves": manifest, "sha256": trees.manifest_digest(manifest, description)},
    )
    write_json(beside / "policy.json", description)
    replace_folder(beside, folder)


def describe(policy: NetworkPolicy) -> dict[str, Any]:
    """The content of `policy.json`."""
    return to_json(
        {
            "format_version": FORMAT_VERSION,
            **played(policy),
            **dataclasses.asdict(policy.info),
        }
    )


def checkpoint_policy(
    policy: NetworkPolicy, *, params_path: str, steps_per_number: int = 1
) -> dict[str, Any]:
    """What a `Checkpointer` stores so that `load_policy` can play from a checkpoint.

    Args:
        policy: of the network being trained; its `info` names the unit of its steps.
        params_path: where the actor's parameters are in the state, e.g. `learner/params/actor`.
        steps_per_number: how many of those steps one in a checkpoint's number stands for, e.g. the
            environment steps of an update.
    """
    return {
        "params_path": params_path,
        "steps_per_number": steps_per_number,
        "description": describe(policy),
    }


def read_folder(folder: Path) -> NetworkPolicy | None:
    """The trained policy in a policy folder, a run's folder (its `policy/`) or one
    `checkpoints/<step>`; None where there is none. Every parameter is verified with its SHA-256.

    Raises:
        ValueError: its files are damaged or of another format.
    """
    if (kept := _read_while_replaced(folder)) is not None:
        return kept
    return _read_checkpoint(folder) if (folder / "state").is_dir() else None


def _policy_folder(folder: Path) -> Path | None:
    for candidate in (committed_folder(folder), committed_folder(folder / "policy")):
        if (candidate / "policy.json").exists():
            return candidate
    return None


def _read_while_replaced(folder: Path) -> NetworkPolicy | None:
    """The policy in a policy folder or a run's folder, or None. A run in progress may replace it at
    any moment: what was replaced while it was read is read again.
    """
    while (policy_folder := _policy_folder(folder)) is not None:
        before = _version(policy_folder)
        try:
            return _read_policy(policy_folder)
        except (OSError, ValueError):
            if before == _version(policy_folder):
                raise
    return None


def _version(folder: Path) -> tuple[int, int] | None:
    """What tells the folder that is there now from those that replace it; None where there is
    none."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read_policy(folder: Path) -> NetworkPolicy:
    description = read_json(folder / "policy.json")
    rules, network, info = parse_description(description, where=folder / "policy.json")
    try:
        manifest = read_json(folder / "manifest.json")
        leaves, digest = manifest["leaves"], manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise trees.CorruptError(
            f"{folder / 'manifest.json'}: {type(error).__name__}: {error}"
        ) from error
    if digest != trees.manifest_digest(leaves, description):
        raise trees.CorruptError(
            f"{folder}: policy.json or manifest.json is not what was saved: the folder is damaged "
            "or was edited"
        )
    template = params_template(rules, network)
    trees.check_structure(leaves, template, where=str(folder))
    params = trees.like(template, trees.read_leaves(folder / "params", leaves, leaves))
    return NetworkPolicy(params=params, rules=rules, network=network, info=info)


def _read_checkpoint(folder: Path) -> NetworkPolicy:
    documents = read_documents(folder)
    if documents.policy is None:
        raise ValueError(
            f"{folder}: this checkpoint does not say which policy it holds; name a policy folder "
            "instead"
        )
    rules, network, info = parse_description(
        documents.policy["description"], where=folder / "policy"
    )
    prefix = documents.policy["params_path"] + "/"
    inside = {path: entry for path, entry in documents.leaves.items() if path.startswith(prefix)}
    template = params_template(rules, network)
    trees.check_structure(
        {path.removeprefix(prefix): entry for path, entry in inside.items()},
        template,
        where=f"{folder}/{prefix}",
    )
    stored = trees.read_leaves(folder / "state", documents.leaves, inside)
    params = trees.like(
        template, {path.removeprefix(prefix): leaf for path, leaf in stored.items()}
    )
    score = to_json(documents.metrics.get(documents.policy["score_metric"]))
    number = int(folder.resolve().name)
    if (per_number := documents.policy.get("steps_per_number")) is not None:
        info = dataclasses.replace(info, steps=number * per_number, score=score)
    else:  # format 1 counts what its checkpoints do
        unit: Unit = "minibatches" if info.algorithm == "bc" else "updates"
        info = dataclasses.replace(info, steps=number, unit=unit, score=score)
    return NetworkPolicy(params=params, rules=rules, network=network, info=info)


def parse_description(
    description: Mapping[str, Any], *, where: Path
) -> tuple[Rules, NetworkConfig | StructuredConfig, PolicyInfo]:
    """What `describe` wrote.

    Raises:
        ValueError: naming `where`, the key, what was expected and got.
    """

    def expect(name: str, expected: Any, got: Any) -> None:
        if got != expected:
            raise ValueError(f"{where}: expected {name} {expected!r}, got {got!r}")

    if not isinstance(description, Mapping):
        raise ValueError(f"{where}: expected an object, got {type(description).__name__}")
    if description.get("format_version") == 1:
        description = _from_format_1(description)
    expect("format_version", FORMAT_VERSION, description.get("format_version"))
    try:
        expect("observation_version", OBSERVATION_VERSION, description["observation_version"])
        game, network = dict(description["game"]), dict(description["network"])
        expect("game.name", "hanabi", game.pop("name"))
        kind = network.pop("kind")
        info = {field.name: description[field.name] for field in dataclasses.fields(PolicyInfo)}
    except KeyError as error:
        raise ValueError(f"{where}: expected a key {error.args[0]!r}, got none") from error
    except TypeError as error:
        raise ValueError(f"{where}: expected a game and a network, got: {error}") from error
    config: NetworkConfig | StructuredConfig
    if kind == "structured":
        config = from_dict(StructuredConfig, network, where=f"{where}: network")
    else:
        config = from_dict(NetworkConfig, network, where=f"{where}: network")
    expect("network.kind", config.kind, kind)
    return (
        from_dict(Rules, game, where=f"{where}: game"),
        config,
        from_dict(PolicyInfo, info, where=str(where)),
    )


def _from_format_1(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description of format 1 as one of today: its `step` was minibatches of BC, else environment
    steps."""
    changed = dict(description)
    steps = changed.pop("step", None)
    if steps is not None:
        unit: Unit = "minibatches" if changed.get("algorithm") == "bc" else "environment steps"
        changed |= {"steps": steps, "unit": unit}
    return changed | {"format_version": FORMAT_VERSION}


@functools.lru_cache(maxsize=64)
def params_template(rules: Rules, network: NetworkConfig | StructuredConfig) -> trees.PyTree:
    """The shapes and dtypes of the parameters of such a policy. Traced once, which takes half a
    second, however many agents of one kind are read."""
    return jax.eval_shape(lambda: init_params(rules, network, jax.random.key(0)))
