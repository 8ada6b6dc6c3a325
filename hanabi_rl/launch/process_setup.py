"""First call of every program: `configure_process`."""

from __future__ import annotations

import ctypes
import gc
import os

from hanabi_rl.storage.compilation_cache import enable_compilation_cache
from hanabi_rl.storage.jax_settings import hold_settings

_OBJECTS = 100_000
"""Objects, net of those freed, before Python collects young cycles (its default is 700). JAX's
tracing creates millions of objects but few cycles; searching took up to a third of its time."""
_M_MMAP_MAX, _M_TRIM_THRESHOLD, _M_ARENA_MAX = -4, -1, -8  # of glibc's malloc.h


def configure_process() -> None:
    """Enable the compilation cache, fix the JAX settings that change results
    (`storage/jax_settings.py`), collect garbage less often, and keep freed memory; before or after
    JAX is imported."""
    enable_compilation_cache()
    hold_settings()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    keep_freed_memory()


def keep_freed_memory() -> None:
    """With glibc: keep freed memory for the next allocation, unless MALLOC_* or GLIBC_TUNABLES set
    how memory is allocated.

    A compiled program allocates its temporary arrays again in every call; from the operating system
    they arrive as pages to be zeroed one by one, a third of a small training step on a CPU. Here
    all memory comes from one heap, of which 1 GiB or more stays after it is freed.
    """
    chosen = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    chosen |= any(name.startswith("MALLOC_") for name in os.environ)
    if chosen or not hasattr(ctypes.pythonapi, "gnu_get_libc_version"):
        return
    ctypes.pythonapi.mallopt(_M_MMAP_MAX, 0)
    ctypes.pythonapi.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    ctypes.pythonapi.mallopt(_M_ARENA_MAX, 1)
