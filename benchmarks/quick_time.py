"""Core seconds of the README's first command by part, with nothing cached.

    python benchmarks/quick_time.py --json
    python benchmarks/quick_time.py --command "ippo --preset small" --cache FOLDER

Every 20 ms a thread samples the main thread's stack and adds the process's core seconds since the
last sample. Parts: `demos` (games to clone), `measure` (all evaluations), `clone`, `train`, `start`
(the rest). In each, `import`, `trace`, `lower` and `compile` are Python's and JAX's, `run` is the
rest. `programs`: those that compile for 0.5 core seconds or more.

`--command` is another run, the script's name first; `--cache` a folder that a second run finds
filled (default: a new one).
"""

import os
import runpy
import shlex
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import common

SCRIPTS = Path(__file__).parents[1] / "train"
PARTS = {
    "play/demos.py": "demos",
    "/evaluation/": "measure",
    "algorithms/bc_training.py": "clone",
    "algorithms/ppo_runner.py": "train",
}
"""File -> part; of several files in a stack the first counts."""
KINDS = {
    "_find_and_load": "import",
    "trace_to_jaxpr": "trace",
    "lower_jaxpr_to_module": "lower",
    "backend_compile_and_load": "compile",
}
"""Function -> kind of work; of several functions in a stack the innermost counts."""
EVERY_S = 0.02


Place = tuple[str, str, str]
"""Part, kind of work and compiled program ("": none)."""


def place(thread: int) -> Place:
    """Place of a thread now."""
    files: set[str] = set()
    kind, program = "run", ""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        name = frame.f_code.co_name
        files.add(frame.f_code.co_filename)
        kind = KINDS.get(name, kind) if kind == "run" else kind
        if name == "compile_or_get_cached" and kind == "compile":
            program = frame.f_locals["module_name"]
        frame = frame.f_back
    parts = (part for end, part in PARTS.items() if any(end in file for file in files))
    return next(parts, "start"), kind, program


def watch(thread: int, spent: dict[Place, float], ended: threading.Event) -> None:
    """Count the core seconds of this process in `spent` until `ended`."""
    before = 0.0
    while not ended.wait(EVERY_S):
        now = time.process_time()
        spent[place(thread)] += now - before
        before = now


def measure(command: str = "hdr_ippo --kl-weight 0.25", cache: str = "") -> common.Record:
    """Runs a command in this process; returns the JSON record."""
    spent = defaultdict[Place, float](float)
    ended = threading.Event()
    args = threading.get_ident(), spent, ended
    watcher = threading.Thread(target=watch, args=args, daemon=True)
    for name in ("JAX_ENABLE_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        os.environ.pop(name, None)
    script, *flags = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HANABI_RL_CACHE"] = cache or folder
        sys.argv = [f"{script}.py", *flags, "--run-dir", f"{folder}/run"]
        watcher.start()
        try:
            runpy.run_path(str(SCRIPTS / f"{script}.py"), run_name="__main__")
        except SystemExit as stopped:
            if stopped.code:
                raise
        ended.set()
        watcher.join()
    named = sums({at: s for at, s in spent.items() if at[2]}, lambda at: f"{at[0]} {at[2]}")
    return {
        "core_s": round(sum(spent.values()), 1),
        **sums(spent, lambda at: f"{at[1]}_s"),
        **sums(spent, lambda at: f"{at[0]}_s"),
        **sums(spent, lambda at: f"{at[0]}_{at[1]}_s"),
        "programs": {name: seconds for name, seconds in named.items() if seconds >= 0.5},
    }


def sums(spent: dict[Place, float], name: Callable[[Place], str]) -> dict[str, float]:
    """Core seconds by name, most first; names that round to 0 are left out."""
    found = defaultdict[str, float](float)
    for at, seconds in spent.items():
        found[name(at)] += seconds
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {name: round(seconds, 1) for name, seconds in ordered if seconds >= 0.05}


if __name__ == "__main__":
    common.run(__doc__, measure)
