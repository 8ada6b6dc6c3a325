"""First call of every program: `configure_process`."""

from __future__ import annotations

import ctypes
import gc

from hanabi_rl.storage.compilation_cache import enable_compilation_cache
from hanabi_rl.storage.jax_settings import hold_settings

_OBJECTS = 100_000
"""Objects, net of those freed, before Python collects young cycles (its default is 700). JAX's
tracing creates millions of objects but few cycles; searching took up to a third of its time."""
_MALLOC = {"M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, 1 << 30), "M_ARENA_MAX": (-8, 1)}
"""Parameter of glibc's mallopt -> its number (malloc.h) and value: all memory from one heap, of
which up to 1 GiB stays after it is freed."""


def configure_process() -> None:
    """Enable the compilation cache, fix the JAX settings that change results
    (`storage/jax_settings.py`), collect garbage less often, and keep freed memory; before or after
    JAX is imported."""
    enable_compilation_cache()
    hold_settings()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    keep_freed_memory()


def keep_freed_memory() -> None:
    """With glibc: keep freed memory for the next allocation. A compiled program allocates its
    temporary arrays anew in every call; from the operating system they arrive as pages to be zeroed
    one by one, a third of a Q-learning update on a CPU."""
    if hasattr(ctypes.pythonapi, "gnu_get_libc_version"):
        for number, value in _MALLOC.values():
            ctypes.pythonapi.mallopt(number, value)
