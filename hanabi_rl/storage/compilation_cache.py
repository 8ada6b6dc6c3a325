"""The user's cache folder and the cache of compiled programs in it."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs

CPU_INFO = Path("/proc/cpuinfo")
MAPS = Path("/proc/self/maps")
MAX_MAPS = 30_000
MAX_CACHE_BYTES = 2**30  # LRU eviction above this size
MIN_COMPILE_S = 0.2  # programs that compile faster are not cached

keeps_programs = False
"""True in a command: `program_cache.py` caches executables. A process that replaces functions of
the package, such as a test, would be answered with those on disk."""

also_freed: list[Callable[[], None]] = []
"""Functions that free further programs of this process."""


def cache_folder() -> Path:
    """`$HANABI_RL_CACHE`, or the user's cache folder for hanabi-rl."""
    chosen = os.environ.get("HANABI_RL_CACHE")
    return (
        Path(os.path.expanduser(chosen))  # Path.expanduser rejects ~UNKNOWN
        if chosen
        else platformdirs.user_cache_path("hanabi-rl", appauthor=False)
    )


def free_compiled_programs() -> None:
    """Free this process's compiled programs where its memory mappings may run out.

    Linux allows 65,530 per process. A training run in Overcooked adds some 5,500, a lineup of new
    structures a few hundred. Without this, the twelfth run of a process ended in a segmentation
    fault (`LLVM compilation error: Cannot allocate memory`).
    """
    if MAPS.exists() and len(MAPS.read_bytes().splitlines()) > MAX_MAPS:
        import jax

        jax.clear_caches()
        for free in also_freed:
            free()


def enable_compilation_cache() -> None:
    """Cache compiled programs on disk, for later processes of this user on the same CPU model.

    JAX locks the folder. JAX's own variables apply: JAX_COMPILATION_CACHE_DIR sets another folder,
    JAX_ENABLE_COMPILATION_CACHE=0 disables the cache. A copied folder stays valid.

    Call it first in every program, before or after JAX is imported.
    """
    programs = cache_folder() / "compiled"
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    # JAX would create a folder called `~`
    folder = None if chosen is None else Path(os.path.expanduser(chosen))
    # by default JAX 0.10 adds the folder's path to the key of every program, CPU programs included
    settings: dict[str, tuple[str, type]] = {
        "jax_persistent_cache_enable_xla_caches": ("none", str)
    }
    if folder is None or folder.parent == programs:
        folder = programs / cpu_fingerprint()  # an inherited folder may belong to another machine
        settings |= {
            "jax_compilation_cache_max_size": (str(MAX_CACHE_BYTES), int),
            "jax_persistent_cache_min_compile_time_secs": (str(MIN_COMPILE_S), float),
        }
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    settings["jax_compilation_cache_dir"] = (str(folder), str)
    for name, (value, kind) in settings.items():
        value = os.environ.setdefault(name.upper(), value)
        if "jax" in sys.modules:  # JAX has already read its variables
            import jax

            jax.config.update(name, kind(value))


def cpu_fingerprint() -> str:
    """Hash of the CPU's model and instruction set. JAX's program keys do not distinguish CPUs, and
    several machines may share a home folder."""
    kinds = {"model name", "flags", "Features", "CPU implementer", "CPU part"}
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    found = sorted({line for line in lines if line.split(":")[0].strip() in kinds})
    whole = "\n".join([platform.machine(), platform.processor(), *found])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
