"""The user's cache folder: what can be made again, and need not be."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

import platformdirs

CPU_INFO = Path("/proc/cpuinfo")
MOST_BYTES = 2**30  # of programs; those that were not loaded for longest make room
LEAST_COMPILE_S = 0.2  # what compiles sooner is not kept


def cache_folder() -> Path:
    """`$HANABI_RL_CACHE`, else the user's cache folder for hanabi-rl."""
    chosen = os.environ.get("HANABI_RL_CACHE")
    return (
        Path(chosen).expanduser()
        if chosen
        else platformdirs.user_cache_path("hanabi-rl", appauthor=False)
    )


def keep_compiled() -> None:
    """What was compiled once is loaded the next time, by any process of this user on such a
    machine; JAX locks the folder. Who set JAX's own variables is heard:
    JAX_COMPILATION_CACHE_DIR names another folder, JAX_ENABLE_COMPILATION_CACHE=0 keeps nothing.

    Comes first in every program. JAX need not be imported yet, but may be.
    """
    programs = cache_folder() / "compiled"
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if chosen is not None and (folder := Path(chosen).expanduser()).parent != programs:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # JAX makes a folder called `~`
        if "jax" in sys.modules:
            sys.modules["jax"].config.update("jax_compilation_cache_dir", str(folder))
        return
    # where it was inherited, the process that set it may have run on another machine
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs / machine())
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(LEAST_COMPILE_S))
    if "jax" in sys.modules:  # it has read its variables
        import jax

        jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
        for name, kind in (
            ("jax_compilation_cache_max_size", int),
            ("jax_persistent_cache_min_compile_time_secs", float),
        ):
            jax.config.update(name, kind(os.environ[name.upper()]))


def machine() -> str:
    """What programs are compiled for: a hash of the processor's kind and instructions. JAX's own
    key of a program does not tell one CPU from another, and a home may be shared by several."""
    kinds = {"model name", "flags", "Features", "CPU implementer", "CPU part"}
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    said = sorted({line for line in lines if line.split(":")[0].strip() in kinds})
    whole = "\n".join([platform.machine(), platform.processor(), *said])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
