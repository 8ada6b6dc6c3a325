"""A trained policy as one small file: what agents that ship are, and what can be handed on.

A `.safetensors` file of the actor's parameters in half precision, with the policy's description and
a model card in its header. Half precision changes a logit by less than one part in a thousand; the
figures of the card are those of the rounded parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from hanabi_rl.agents.folder import describe, params_template, parse_description
from hanabi_rl.agents.identity import digest
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.storage import trees
from hanabi_rl.storage.files import write_bytes
from hanabi_rl.storage.tensors import read_metadata, read_tensors

SUFFIX = ".safetensors"
SHIPPED = Path(__file__).parent / "shipped"
"""Agents that come with the package: `agent:NAME` is the file NAME in this folder."""


def rounded(policy: NetworkPolicy) -> NetworkPolicy:
    """`policy` as it will be read from a file: its float32 parameters rounded to float16."""
    return policy.replace(
        params=jax.tree.map(lambda x: x.astype(np.float16).astype(np.float32), policy.params)
    )


def write_file(path: Path, policy: NetworkPolicy, card: Mapping[str, Any]) -> None:
    """Writes `policy` to `path`.

    Args:
        path: ends with `.safetensors`.
        policy: whose parameters to write, float32 that fits into float16.
        card: what its reader should know (data, command, scores), JSON-ready.

    Raises:
        ValueError: another suffix, or a parameter that is no finite number in half precision.
    """
    if path.suffix != SUFFIX:
        raise ValueError(f"expected a file named *{SUFFIX}, got {path}")
    with np.errstate(over="ignore"):  # told apart below
        leaves = {
            name: np.asarray(leaf, np.float16)
            for name, leaf in trees.leaf_paths(policy.params).items()
        }
    for name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            raise ValueError(
                f"{path}: expected parameters that half precision can hold, not {name}"
            )
    header = {"policy": json.dumps(describe(policy)), "card": json.dumps(card)}
    header["sha256"] = _digest(leaves, header)
    write_bytes(path, save(leaves, metadata=header))


def read_file(path: Path) -> NetworkPolicy:
    """The policy in `path`, its parameters as float32.

    Raises:
        ValueError: it is damaged, of another format, or no policy at all.
    """
    header = _read_header(path)
    try:
        leaves = read_tensors(path)[0]
    except ValueError as error:
        raise trees.CorruptError(f"{path}: {error}") from error
    if header.get("sha256") != _digest(leaves, header):
        raise trees.CorruptError(f"{path}: not what was written: the file is damaged or was edited")
    rules, network, info = parse_description(_parse(header, "policy", path), where=path)
    template = params_template(rules, network)
    full = {name: leaf.astype(np.float32) for name, leaf in leaves.items()}
    trees.check_structure(trees.to_host(full)[1], template, where=str(path))
    return NetworkPolicy(params=trees.like(template, full), rules=rules, network=network, info=info)


def read_card(path: Path) -> dict[str, Any]:
    """The model card in `path`; no parameter is read.

    Raises:
        ValueError: as `read_file`.
    """
    return _parse(_read_header(path), "card", path)


def is_policy(path: Path) -> bool:
    """Whether `path` is a file that `write_file` wrote, damaged or not."""
    try:
        _read_header(path)
    except ValueError:
        return False
    return True


def shipped() -> dict[str, Path]:
    """The agents that come with the package: name -> file."""
    return {path.stem: path for path in sorted(SHIPPED.glob(f"*{SUFFIX}"))}


def load_shipped(name: str) -> NetworkPolicy:
    """The agent `agent:NAME`.

    Raises:
        ValueError: there is none of that name.
    """
    short = name.removeprefix("agent:")
    files = shipped()
    if short not in files:
        raise ValueError(f"{name}: expected agent: and one of {', '.join(files)}")
    return read_file(files[short])


def _read_header(path: Path) -> dict[str, str]:
    try:
        header = read_metadata(path)
    except ValueError as error:
        raise trees.CorruptError(f"{path}: expected a policy's file, got: {error}") from error
    if missing := {"policy", "card"} - set(header):
        raise ValueError(
            f"{path}: expected a file that `hanabi-rl export` wrote, got one without "
            f"{', '.join(sorted(missing))} in its header"
        )
    return header


def _parse(header: Mapping[str, str], key: str, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(header[key])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {key}: expected JSON, got: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path}: {key}: expected an object, got {type(record).__name__}")
    return record


def _digest(leaves: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
    return digest([header["policy"], header["card"]], dict(leaves))
