"""Policy folders as older runs wrote them: an Orbax checkpoint of the parameters, its manifest, and
a description."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from hanabi_rl.agents.policy import NetworkPolicy


def old_description(policy: NetworkPolicy, **where_from: Any) -> dict[str, Any]:
    """What `policy.json` said of a policy that is no structured one."""
    about = {
        "format_version": 2,
        "game": {"name": "hanabi", **dataclasses.asdict(policy.rules)},
        "observation_version": 1,
        "network": {"kind": "lstm", **dataclasses.asdict(policy.network)},
        "algorithm": "bc",
        "steps": 7,
        "unit": "minibatches",
        "score": 1.25,
        "greedy": True,
    } | where_from
    return {key: value for key, value in about.items() if value is not ...}


def write_old_folder(folder: Path, policy: NetworkPolicy, description: dict[str, Any]) -> None:
    """Writes `policy`, whose parameters are nested dicts of float32."""
    leaves = {}

    def visit(tree: Any, path: str) -> Any:
        if isinstance(tree, dict):
            return {key: visit(inside, f"{path}/{key}".lstrip("/")) for key, inside in tree.items()}
        leaf = np.asarray(tree)
        digest = hashlib.sha256(leaf.tobytes()).hexdigest()
        leaves[path] = {"dtype": "float32", "shape": list(leaf.shape), "sha256": digest}
        return leaf

    folder.mkdir(parents=True)
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save((folder / "params").resolve(), visit(policy.params, ""))
    (folder / "policy.json").write_text(json.dumps(description))
    sign_old_folder(folder, leaves)


def sign_old_folder(folder: Path, leaves: Any) -> None:
    """Writes the manifest of `leaves`, with a digest over it and what `policy.json` says now."""
    about = json.loads((folder / "policy.json").read_text())
    text = json.dumps([leaves, about], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({"leaves": leaves, "sha256": digest}))
