"""Shared parts of the benchmarks: pinned core, alternating sides, medians, table and JSON.

The available machines are shared and noisy. A benchmark therefore compares within one run, with
alternating sides. Work on one pinned core is timed by `core_seconds`, which do not pass while
another process has the core.

JAX counts cores and reads its cache settings when it starts: a benchmark imports this module first,
and calls `pin_one_core` before it imports JAX.
"""

import argparse
import inspect
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hanabi_rl.launch.process_setup import keep_freed_memory

Record = dict[str, Any]

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # compile times are measured
keep_freed_memory()  # as programs do


def pin_one_core() -> None:
    """Confines this process to the first of the cores it may use. With an accelerator all stay: XLA
    compiles for it on as many as there are (a PPO update took 90 s on one core of an H200's)."""
    if os.environ.get("JAX_PLATFORMS") == "cpu" or not has_accelerator():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def has_accelerator() -> bool:
    """Whether this machine has an NVIDIA GPU or a TPU, by its device files: JAX cannot be asked
    before the cores are chosen."""
    return any(next(Path("/dev").glob(files), None) for files in ("nvidia[0-9]*", "accel[0-9]*"))


def core_seconds() -> float:
    """Seconds of processor time of this process, all threads together: on one pinned core and an
    idle machine, the time that passes. With an accelerator, the time that passes."""
    import jax

    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """A jitted function compiled for these arguments, and the core seconds that took, tracing
    included."""
    started = core_seconds()
    executable = function.lower(*args).compile()
    return executable, core_seconds() - started


def needed_bytes(executable: Any) -> int:
    """What XLA says a compiled function needs at once: arguments, results and temporaries, reused
    buffers once."""
    memory = executable.memory_analysis()
    return int(
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )


def repeated(
    executable: Any,
    args: tuple[Any, ...],
    following: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]],
    work: int,
) -> Callable[[], float]:
    """One side of a comparison: a call does `work` once more and returns how much of it is done in
    a core second.

    Args:
        args: of the first call.
        following: (results, arguments) of one call -> the arguments of the next.
    """
    import jax

    def advance() -> float:
        nonlocal args
        started = core_seconds()
        args = following(jax.block_until_ready(executable(*args)), args)
        return work / (core_seconds() - started)

    return advance


def alternate(
    sides: dict[str, Callable[[], float]], repeats: int, unit: str = "/s"
) -> dict[str, list[float]]:
    """Calls every side in turn, `repeats` times over; each returns its figure."""
    figures: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, side in sides.items():
            figures[name].append(side())
        shown = ", ".join(f"{name} {values[-1]:,.4g}{unit}" for name, values in figures.items())
        print(f"{repeat + 1}/{repeats}: {shown}", file=sys.stderr)
    return figures


def median_of(key: str, values: list[float], digits: int | None = None) -> Record:
    """`key`: the median; `key_range`: the least and the most."""
    return {
        key: round(statistics.median(values), digits),
        f"{key}_range": [round(min(values), digits), round(max(values), digits)],
    }


def ratio_of(key: str, values: list[float], against: list[float]) -> Record:
    """The median of the ratios within a repetition, and their range."""
    return median_of(key, [a / b for a, b in zip(values, against, strict=True)], 2)


def machine() -> Record:
    """Where this ran."""
    import jax

    info = Path("/proc/cpuinfo")
    models = [
        line.split(":")[1].strip()
        for line in info.read_text().splitlines()
        if line.startswith("model name")
    ]
    used = len(os.sched_getaffinity(0))
    return {
        "machine": f"{models[0] if models else platform.machine()}, {used} of {os.cpu_count()} "
        "cores used",
        "device": jax.devices()[0].device_kind,
        "versions": f"Python {platform.python_version()}, jax {jax.__version__}",
        "malloc": os.environ.get("GLIBC_TUNABLES", "freed memory kept"),
    }


def run(doc: str | None, measure: Callable[..., Record]) -> None:
    """The body of a benchmark: every parameter of `measure` is a flag of its default's type.

    Prints a table on stderr, and with --json one line of JSON as the last line of stdout.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, parameter in inspect.signature(measure).parameters.items():
        default = parameter.default
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, help=f"{default}"
        )
    parser.add_argument(
        "--json", action="store_true", help="also print the record as one line of JSON"
    )
    args = vars(parser.parse_args())
    as_json = args.pop("json")
    record = measure(**args) | args | machine()
    for key, value in record.items():
        print(f"{key:<26} {value}", file=sys.stderr)
    if as_json:
        print(json.dumps(record))
