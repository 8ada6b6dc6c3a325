"""XLA's number of CPU threads, which determines rounding on a CPU."""

import os
import sys
from pathlib import Path

from hanabi_rl.storage.files import read_json

VARIABLE = "PJRT_NPROC"
"""Environment variable with XLA's number of CPU threads, read when JAX starts."""


def cpu_threads() -> int:
    """XLA's number of CPU threads: PJRT_NPROC or NPROC if set, otherwise the usable cores."""
    for name in (VARIABLE, "NPROC"):
        if (value := os.environ.get(name, "")).isdigit():
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def warn_of_other_threads(run_dir: Path) -> None:
    """Warn on stderr if a run resumed on a CPU started with another number of threads. Runs of
    earlier versions did not record the number."""
    began, now = read_json(run_dir / "config.json").get("cpu_threads"), cpu_threads()
    if began not in (None, now):
        print(
            f"Warning: {run_dir} started with {began} CPU threads and continues with {now}: "
            f"results will differ by rounding; {VARIABLE}={began} keeps them bit-exact",
            file=sys.stderr,
        )
