"""First call of every program: `configure_process`."""

from __future__ import annotations

import gc

from hanabi_rl.storage.compilation_cache import enable_compilation_cache
from hanabi_rl.storage.jax_settings import hold_settings

_OBJECTS = 100_000
"""Objects, net of those freed, before Python collects young cycles (its default is 700). JAX's
tracing creates millions of objects but few cycles; searching took up to a third of its time."""


def configure_process() -> None:
    """Enable the compilation cache, fix the JAX settings that change results
    (`storage/jax_settings.py`), and collect garbage less often; before or after JAX is imported."""
    enable_compilation_cache()
    hold_settings()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
