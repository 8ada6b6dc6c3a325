"""Fake runs for sweep processes: `run(algorithm, config)`."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any


def record(algorithm: str, config: Any) -> None:
    """Write the time, cores and accelerator memory fraction of the job."""
    begun = time.time()
    time.sleep(0.5)
    fraction = os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"]
    text = json.dumps([begun, time.time(), sorted(os.sched_getaffinity(0)), fraction])
    Path(config.run_dir, "record").write_text(text)


def fail_or_die(algorithm: str, config: Any) -> None:
    """Fail or be killed, according to the folder's name."""
    folder = Path(config.run_dir)
    if folder.name == "bad":
        raise FloatingPointError("expected a finite loss, got nan")
    if folder.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / "done").touch()
