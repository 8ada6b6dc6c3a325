"""What a run tells the outside while it trains: metrics on disk, and stages on the terminal. Host
side only."""

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
    """Prints the start of one stage of a script to stderr: `[2/4] Behavioural cloning`."""
    print(f"[{index}/{total}] {title}", file=sys.stderr, flush=True)


class Tracker:
    """Writes a run's metrics: `metrics.jsonl`, TensorBoard, and optionally Weights & Biases.

    Each line of `metrics.jsonl` is one JSON object, `step` first, then `wall_s` (seconds this run
    has trained, earlier sessions included), then the metrics; a value that is not finite is null. A
    line is on its way to disk before `log` returns.

    Args:
        run_dir: the run's folder.
        resume_step: the step of the restored checkpoint, where the run continues: whatever was
            logged later is dropped.
        tensorboard: whether to write TensorBoard's files.
        wandb: whether to log to Weights & Biases as well (project `hanabi-rl`, the folder's path as
            the run's name). The id there is drawn once and kept in the folder: folders of several
            sweeps, and of several people, are called alike.
        config: what to show as the run's config there.

    Raises:
        ValueError: where W&B is asked for but not installed, or does not take the run.
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
        self._tensorboard = (
            SummaryWriter(str(run_dir / "tensorboard"), purge_step=purge_step)
            if tensorboard
            else None
        )

    @property
    def wall_s(self) -> float:
        """Seconds this run has trained, earlier sessions included."""
        return self._wall_before + time.monotonic() - self._started

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Records scalar `metrics` at `step`, which must not be smaller than the last one.

        Raises:
            ValueError: for a metric that is not a scalar.
        """
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
        """Flushes and closes every sink."""
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
    """Reads a `metrics.jsonl`; a last line cut short by a kill is left out.

    Raises:
        ValueError: naming the file and line, where another line is no JSON object with a step.
    """
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
    """Drops the lines of a `metrics.jsonl` that were logged after `step`, atomically, and returns
    those kept."""
    if not path.exists():
        return []
    kept = [record for record in read_metrics(path) if record["step"] <= step]
    write_text(path, "".join(json.dumps(record) + "\n" for record in kept))
    return kept


WANDB_ID = "wandb-id"
"""Of a run's folder: by which W&B knows the run, wherever the folder is moved to."""
_LONGEST_NAME = 128  # of a run's name at W&B


def check_wandb() -> Any:
    """Import Weights & Biases. Raises ValueError where it is not installed."""
    try:
        import wandb
    except ImportError:
        wandb = None
    if not hasattr(wandb, "init"):  # a folder wandb/, which W&B itself writes, is a package too
        raise ValueError(f"--wandb needs the wandb package: {install_command('wandb')}")
    return wandb


def _start_wandb(run_dir: Path, config: Mapping[str, Any]) -> Any:
    wandb = check_wandb()
    kept = run_dir / WANDB_ID
    if not kept.exists():
        write_text(kept, uuid.uuid4().hex)
    name = os.path.relpath(run_dir)
    if name.startswith(os.pardir):
        name = "/".join(run_dir.resolve().parts[-3:])
    try:
        return wandb.init(
            project="hanabi-rl",
            name=name[-_LONGEST_NAME:],
            id=kept.read_text(),
            resume="allow",
            config=to_json(config),
        )
    except wandb.Error as error:
        raise ValueError(f"--wandb: expected W&B to take the run, got: {error}") from error
