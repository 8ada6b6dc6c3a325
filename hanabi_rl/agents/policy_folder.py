"""Policies in folders: those that a run saves, and those in its Orbax checkpoints.

A run saves a policy as `<name>/policy.safetensors` (`agents/policy_file.py`). Its
`checkpoints/<step>` hold the whole training state, including the actor's parameters.
"""

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
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.renamed_fields import with_new_names

FILE = "policy.safetensors"
CLONE_FOLDER = "bc-policy"
"""Folder of the clone that a run was initialised from or trained with."""


@with_fixed_settings(prng=True)
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
    """Write `policy` into `folder`, replacing an older one.

    A kill leaves one of the two, and never a folder without a policy.

    Args:
        folder: policy folder, e.g. `<run>/policy`.
        policy: policy to write.
        algorithm: training algorithm, e.g. `bc`.
        steps: training duration, in `unit`.
        score: mean score of the evaluation that selected it (greedy or not: `greedy`), or None.

    Raises:
        ValueError: a bot or a wrapped agent, or parameters that do not fit the network.
    """
    if not isinstance(policy, NetworkPolicy):
        raise ValueError(
            f"expected a trained policy, a NetworkPolicy, got {type(policy).__name__}; load bots "
            "and wrappers by name instead"
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
    """Metadata that a `Checkpointer` stores, so that `load_policy` can play from a checkpoint.

    Args:
        policy: policy with the network being trained; its `info` has the unit of steps.
        params_path: path of the actor's parameters in the state, e.g. `learner/params/actor`.
        steps_per_number: steps per unit of a checkpoint's number, e.g. environment steps per
            update.
    """
    return {
        "params_path": params_path,
        "steps_per_number": steps_per_number,
        "description": policy_metadata(policy),
    }


def read_folder(folder: Path) -> NetworkPolicy | None:
    """Read a policy folder, a run's folder (its `policy/`) or a `checkpoints/<step>`; else None.

    Every parameter is verified with its SHA-256. Raises ValueError for damaged or other files.
    """
    for place in (folder, folder / "policy"):
        if (place / FILE).exists():
            return read_file(place / FILE)
    return _read_checkpoint(folder) if (folder / "state").is_dir() else None


def run_config(folder: Path) -> tuple[str | None, dict[str, Any]] | None:
    """Algorithm and config of a run's folder; None for others, even with a config.json."""
    try:
        record = read_json(folder / "config.json")
    except (OSError, ValueError):
        return None
    config = record.get("config") if isinstance(record, dict) else None
    if not isinstance(config, dict):
        return None
    return record.get("algorithm"), with_new_names(config)


def why_no_policy(folder: Path) -> str | None:
    """Reason why a folder of runs has no policy; None for other folders."""
    missing = not folder.exists() and folder.name in ("policy", CLONE_FOLDER)  # not written yet
    place = folder.parent if missing else folder
    if place.name == "checkpoints" and (steps := _checkpoints(place.parent)):
        return f"{folder}: expected one checkpoint, such as {steps[-1]}"
    if run_config(place) is not None:
        run = place.parent if run_config(place.parent) is not None else place  # run of a clone
        parts = [place, *(path.parent for path in place.glob("*/config.json"))]
        found = [steps[-1] for part in parts if (steps := _checkpoints(part))]
        checkpoint = f", or name its checkpoint {found[0]}" if found else ""
        return (
            f"{folder}: this run has no policy yet; continue it with --resume --run-dir {run}"
            f"{checkpoint}"
        )
    runs = [path.parent for path in sorted(place.glob("*/config.json")) if run_config(path.parent)]
    if runs and place == folder:
        return (
            f"{folder}: expected one run, got a folder of {len(runs)}; name one, such as {runs[0]}"
        )
    return None


def _checkpoints(run: Path) -> list[Path]:
    """Checkpoints of a run, newest last."""
    steps = [path.parent for path in run.glob("checkpoints/*/state") if path.parent.name.isdigit()]
    return sorted(steps, key=lambda step: int(step.name))


def _read_checkpoint(folder: Path) -> NetworkPolicy:
    documents = read_documents(folder)
    if (stored := documents.policy) is None:
        raise ValueError(
            f"{folder}: this checkpoint has no policy metadata; name a policy folder instead"
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
