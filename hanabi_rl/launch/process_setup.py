"""What comes first in every program of ours: `configure_process`."""

from __future__ import annotations

import gc

from hanabi_rl.storage.compilation_cache import enable_compilation_cache
from hanabi_rl.storage.jax_settings import hold_settings

_OBJECTS = 100_000
"""More than were freed, before Python looks for cycles among the young (its own default is 700).
JAX's tracing makes millions of objects and hardly a cycle: a fifth to a third of its time went to
looking for some."""


def configure_process() -> None:
    """Keep compiled programs (`storage/compilation_cache.py`), hold JAX's settings
    (`storage/jax_settings.py`) and collect garbage less often. JAX need not be imported
    yet."""
    enable_compilation_cache()
    hold_settings()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
