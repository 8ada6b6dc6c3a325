"""Metrics of a run on disk, and stages on the terminal; host side only."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter

from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.files import read_text, to_json, write_text


def announce_stage(index: int, total: int, title: str) -> None:
    """Print the start of a script's stage to stderr: `[2/4] Behavioural cloning`."""
    print(f"[{index}/{total}] {title}", file=sys.stderr, flush=True)


class Tracker:
    """Writes a run's metrics: `metrics.jsonl`, TensorBoard, optionally Weights & Biases.

    Each line of `metrics.jsonl` is one JSON object: `step`, `wall_s` (training time in seconds,
    earlier sessions included), then the metrics; values that are not finite are null. `log` flushes
    each line.

    Args:
        run_dir: the run's folder.
        resume_step: step of the restored checkpoint; later lines are dropped.
        tensorboard: write TensorBoard files.
        wandb: log to Weights & Biases (project `hanabi-rl`, the folder's path as the run's name).
            The id is random and saved in the folder, because folders of several users may have the
            same name.
        config: config of the run, for Weights & Biases.

    Raises:
        ValueError: W&B is not installed or rejects the run.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        resume_step: int | None = None,
        tensorboard: bool = True,
        wandb: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        path = run_dir / "metrics.jsonl"
        kept = truncate_metrics(path, resume_step) if resume_step is not None else []
        self._wall_before = float(kept[-1]["wall_s"]) if kept else 0.0
        self._started = time.monotonic()
        self._wandb = _start_wandb(run_dir, config or {}) if wandb else None
        self._file = path.open("w" if resume_step is None else "a", encoding="utf-8")
        purge_step = None if resume_step is None else resume_step + 1
        folder = str(run_dir / "tensorboard")
        self._tensorboard = SummaryWriter(folder, purge_step=purge_step) if tensorboard else None

    @property
    def wall_s(self) -> float:
        """Training time in seconds, earlier sessions included."""
        return self._wall_before + time.monotonic() - self._started

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Log scalar `metrics` at `step`, at least the previous step. Raises ValueError for a
        metric that is not a scalar."""
        for name, value in metrics.items():
            if np.shape(value) != ():
                raise ValueError(f"metric {name!r}: expected a scalar, got shape {np.shape(value)}")
        plain = to_json(metrics)
        self._file.write(
            json.dumps({"step": int(step), "wall_s": round(self.wall_s, 3), **plain}) + "\n"
        )
        self._file.flush()
        numbers = {name: value for name, value in plain.items() if isinstance(value, (int, float))}
        if self._tensorboard is not None:
            for name, value in numbers.items():
                self._tensorboard.add_scalar(name, value, int(step))
        if self._wandb is not None:
            self._wandb.log(numbers, step=int(step))

    def close(self) -> None:
        """Flush and close all outputs."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read a `metrics.jsonl`, without a last line cut by a kill. Raises ValueError, naming file and
    line, for any other line that is not a JSON object with a step."""
    lines = read_text(path).splitlines(keepends=True)
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            record["step"]
        except (ValueError, TypeError, KeyError):
            if number == len(lines) and not line.endswith("\n"):
                break
            raise ValueError(
                f"{path}, line {number}: expected a JSON object with a step, got "
                f"{line.strip()[:80]!r}"
            ) from None
        records.append(record)
    return records


def truncate_metrics(path: Path, step: int) -> list[dict[str, Any]]:
    """Drop the lines of a `metrics.jsonl` after `step`, atomically; return the others."""
    if not path.exists():
        return []
    kept = [record for record in read_metrics(path) if record["step"] <= step]
    write_text(path, "".join(json.dumps(record) + "\n" for record in kept))
    return kept


WANDB_ID = "wandb-id"
"""File in the run's folder with the run's id at W&B, which stays if the folder moves."""
_MAX_NAME_LENGTH = 128  # maximum characters of a run's name at W&B


def check_wandb() -> Any:
    """Import Weights & Biases. Raises ValueError if it is not installed."""
    try:
        import wandb
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):  # W&B's own folder wandb/ is importable too
        raise ValueError(f"--wandb needs the wandb package: {install_command('wandb')}")
    return wandb


def _start_wandb(run_dir: Path, config: Mapping[str, Any]) -> Any:
    wandb = check_wandb()
    id_file = run_dir / WANDB_ID
    if not id_file.exists():
        write_text(id_file, uuid.uuid4().hex)
    name = os.path.relpath(run_dir)
    if name.startswith(os.pardir):
        name = "/".join(run_dir.resolve().parts[-3:])
    try:
        return wandb.init(
            project="hanabi-rl",
            name=name[-_MAX_NAME_LENGTH:],
            id=id_file.read_text(),
            resume="allow",
            config=to_json(config),
        )
    except wandb.Error as error:
        raise ValueError(f"--wandb: W&B rejected the run: {error}") from error
