"""The user's cache folder: what can be made again, and need not be."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

import platformdirs

CPU_INFO = Path("/proc/cpuinfo")
MAX_CACHE_BYTES = 2**30  # above it the least recently used programs are removed
LEAST_COMPILE_S = 0.2  # what compiles sooner is not kept


def cache_folder() -> Path:
    """`$HANABI_RL_CACHE`, else the user's cache folder for hanabi-rl."""
    chosen = os.environ.get("HANABI_RL_CACHE")
    return (
        Path(os.path.expanduser(chosen))  # not Path.expanduser: it refuses ~UNKNOWN
        if chosen
        else platformdirs.user_cache_path("hanabi-rl", appauthor=False)
    )


def enable_compilation_cache() -> None:
    """Keep compiled programs on disk, for any later process of this user on such a machine.

    JAX locks the folder. JAX's own variables apply: JAX_COMPILATION_CACHE_DIR names another folder,
    JAX_ENABLE_COMPILATION_CACHE=0 keeps nothing. A copy of the folder elsewhere is as good.

    Comes first in every program. JAX need not be imported yet, but may be.
    """
    programs = cache_folder() / "compiled"
    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    # JAX makes a folder called `~`
    folder = None if chosen is None else Path(os.path.expanduser(chosen))
    # JAX 0.10's default puts the folder's path into the key of every program, CPUs' too
    settings: dict[str, tuple[str, type]] = {
        "jax_persistent_cache_enable_xla_caches": ("none", str)
    }
    if folder is None or folder.parent == programs:
        folder = programs / cpu_fingerprint()  # an inherited one may be of another machine
        settings |= {
            "jax_compilation_cache_max_size": (str(MAX_CACHE_BYTES), int),
            "jax_persistent_cache_min_compile_time_secs": (str(LEAST_COMPILE_S), float),
        }
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    settings["jax_compilation_cache_dir"] = (str(folder), str)
    for name, (value, kind) in settings.items():
        value = os.environ.setdefault(name.upper(), value)
        if "jax" in sys.modules:  # it has read its variables
            import jax

            jax.config.update(name, kind(value))


def cpu_fingerprint() -> str:
    """What programs are compiled for: a hash of the processor's kind and instructions. JAX's own
    key of a program does not tell one CPU from another, and a home may be shared by several."""
    kinds = {"model name", "flags", "Features", "CPU implementer", "CPU part"}
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    said = sorted({line for line in lines if line.split(":")[0].strip() in kinds})
    whole = "\n".join([platform.machine(), platform.processor(), *said])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
