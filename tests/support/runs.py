"""Contents of a run folder."""

import json
from pathlib import Path
from typing import Any

from hanabi_rl.runs.metric_names import METRICS

RUN_FILES = {
    ".lock",
    "config.json",
    "metrics.jsonl",
    "tensorboard",
    "checkpoints",
    "summary.json",
    "learning-curve.png",
}
"""Files in every finished run's folder, in addition to its policies."""


def is_listed(name: str) -> bool:
    """True if `METRICS` has a metric, with or without the role in a pair."""
    role, _, of_role = name.rpartition("/")
    return role in ("", "biased", "response") and any(of_role in of for of in METRICS.values())


def read_lines(run_dir: Path) -> list[dict[str, Any]]:
    """Lines of metrics, whose names are all listed."""
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert all(is_listed(name) for line in lines for name in line), lines[-1]
    return lines


def read_state(run_dir: Path, step: int) -> dict[str, Any]:
    """Path, dtype, shape and SHA-256 of a checkpoint's leaves, its loader position and metrics."""
    folder = run_dir / "checkpoints" / str(step)
    manifest = json.loads((folder / "manifest" / "metadata").read_text())
    return {
        "leaves": manifest["leaves"],
        "loader": json.loads((folder / "loader" / "metadata").read_text()),
        "metrics": json.loads((folder / "evaluation" / "metadata").read_text()),
    }
