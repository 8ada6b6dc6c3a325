"""Policies in folders: what a run keeps, and what plays straight from its Orbax checkpoints.

A run keeps a policy as `<name>/policy.safetensors` (`agents/policy_file.py`). Its
`checkpoints/<step>` hold the whole training state, the actor's parameters among it.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo, Unit
from hanabi_rl.agents.policy_file import (
    params_template,
    parse_metadata,
    policy_metadata,
    read_file,
    write_file,
)
from hanabi_rl.storage import trees
from hanabi_rl.storage.checkpoint import read_documents
from hanabi_rl.storage.files import fsync_path, home_path, read_json, to_json
from hanabi_rl.storage.jax_settings import with_our_settings
from hanabi_rl.storage.renamed_fields import with_new_names

FILE = "policy.safetensors"
CLONE_FOLDER = "bc-policy"
"""The folder of the clone that a run began as, or met: the run is then complete in itself."""


@with_our_settings(prng=True)
def save_policy(
    folder: str | Path,
    policy: NetworkPolicy,
    *,
    algorithm: str,
    steps: int,
    unit: Unit = "environment steps",
    score: float | None,
    greedy: bool = True,
) -> None:
    """Writes `policy` into `folder`, in the place of an older one if there is one; a kill at any
    moment leaves one of the two, and no folder without a policy.

    Args:
        folder: the policy folder, e.g. `<run>/policy`.
        policy: whose parameters to write.
        algorithm: what trained it, e.g. `bc`.
        steps: how long it was trained, in `unit`.
        unit: what the steps are.
        score: the mean score of the evaluation that selected it, or None.
        greedy: whether that evaluation was greedy.

    Raises:
        ValueError: a bot or a wrapped agent, or parameters that are not the network's.
    """
    if not isinstance(policy, NetworkPolicy):
        raise ValueError(
            f"expected a trained policy, a NetworkPolicy, got {type(policy).__name__}: a bot or a "
            "wrapper is made by its name again"
        )
    folder = home_path(folder)
    info = PolicyInfo(algorithm, int(steps), unit, None if score is None else float(score), greedy)
    new = not folder.exists()
    place = folder.with_name(f".{folder.name}.{os.getpid()}.tmp") if new else folder
    place.mkdir(parents=True, exist_ok=True)
    try:
        write_file(place / FILE, policy.replace(info=info))
    except ValueError:
        if new:
            place.rmdir()
        raise
    if new:
        place.rename(folder)
        fsync_path(folder.parent)


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
        "description": policy_metadata(policy),
    }


def read_folder(folder: Path) -> NetworkPolicy | None:
    """The trained policy in a policy folder, a run's folder (its `policy/`) or one
    `checkpoints/<step>`; None where there is none. Every parameter is verified with its SHA-256.

    Raises:
        ValueError: its files are damaged or of another format.
    """
    for place in (folder, folder / "policy"):
        if (place / FILE).exists():
            return read_file(place / FILE)
    return _read_checkpoint(folder) if (folder / "state").is_dir() else None


def run_config(folder: Path) -> tuple[str | None, dict[str, Any]] | None:
    """The algorithm and the config of a run's folder; None of another, where a config.json may be
    of any program."""
    try:
        record = read_json(folder / "config.json")
    except (OSError, ValueError):
        return None
    config = record.get("config") if isinstance(record, dict) else None
    if not isinstance(config, dict):
        return None
    return record.get("algorithm"), with_new_names(config)


def why_no_policy(folder: Path) -> str | None:
    """The reason why the folder of a run, or of several, holds no policy; None of other folders."""
    missing = not folder.exists() and folder.name in ("policy", CLONE_FOLDER)  # it may come
    place = folder.parent if missing else folder
    if place.name == "checkpoints" and (steps := _checkpoints(place.parent)):
        return f"{folder}: expected one checkpoint, such as {steps[-1]}"
    if run_config(place) is not None:
        run = place.parent if run_config(place.parent) is not None else place  # of a clone
        parts = [place, *(path.parent for path in place.glob("*/config.json"))]
        found = [steps[-1] for part in parts if (steps := _checkpoints(part))]
        checkpoint = f", or name its checkpoint {found[0]}" if found else ""
        return (
            f"{folder}: this run has no policy yet: continue it with --resume --run-dir {run}"
            f"{checkpoint}"
        )
    runs = [path.parent for path in sorted(place.glob("*/config.json")) if run_config(path.parent)]
    if runs and place == folder:
        return (
            f"{folder}: expected one run, got a folder of {len(runs)}: name one, such as {runs[0]}"
        )
    return None


def _checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, the newest last."""
    steps = [path.parent for path in run.glob("checkpoints/*/state") if path.parent.name.isdigit()]
    return sorted(steps, key=lambda step: int(step.name))


def _read_checkpoint(folder: Path) -> NetworkPolicy:
    """The policy in the training state of a checkpoint."""
    documents = read_documents(folder)
    if (stored := documents.policy) is None:
        raise ValueError(
            f"{folder}: this checkpoint does not say which policy it holds; name a policy folder "
            "instead"
        )
    prefix = f"{stored['params_path']}/"
    rules, network, info = parse_metadata(stored["description"], where=folder / "policy")
    template = params_template(rules, network)
    paths = [path for path in documents.leaves if path.startswith(prefix)]
    manifest = {path.removeprefix(prefix): documents.leaves[path] for path in paths}
    trees.check_structure(manifest, template, where=f"{folder / 'state'}/{prefix}")
    leaves = trees.read_leaves(folder / "state", documents.leaves, paths)
    params = {path.removeprefix(prefix): leaf for path, leaf in leaves.items()}
    score = to_json(documents.metrics.get(stored["score_metric"]))
    steps = int(folder.resolve().name) * stored["steps_per_number"]
    return NetworkPolicy(
        params=trees.restore_structure(template, params),
        rules=rules,
        network=network,
        info=dataclasses.replace(info, steps=steps, score=score),
    )
