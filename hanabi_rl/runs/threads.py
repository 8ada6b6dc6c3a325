"""XLA's CPU threads, whose number decides the rounding of a run on a CPU."""

import os
import sys
from pathlib import Path

from hanabi_rl.storage.files import read_json

VARIABLE = "PJRT_NPROC"
"""Environment variable with the number of XLA's CPU threads; read when JAX starts."""


def cpu_threads() -> int:
    """The number of XLA's CPU threads: PJRT_NPROC or NPROC if set, otherwise the number of cores
    that this process can use."""
    given = [value for name in (VARIABLE, "NPROC") if (value := os.environ.get(name, "")).isdigit()]
    if given:
        return int(given[0])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def warn_of_other_threads(run_dir: Path) -> None:
    """Prints a line on stderr if the run in `run_dir`, which continues on a CPU, began with another
    number of threads. Runs of earlier versions have not recorded it."""
    began, now = read_json(run_dir / "config.json").get("cpu_threads"), cpu_threads()
    if began not in (None, now):
        print(
            f"Warning: {run_dir} began with {began} CPU threads and continues with {now}: its "
            f"figures will differ by rounding; {VARIABLE}={began} continues it bit for bit",
            file=sys.stderr,
        )
