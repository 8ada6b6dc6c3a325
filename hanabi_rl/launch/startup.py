"""What comes first in every program of ours: `start`."""

from __future__ import annotations

import gc

from hanabi_rl.storage.cache import keep_compiled

_OBJECTS = 100_000
"""More than were freed, before Python looks for cycles among the young (its own default is 700).
JAX's tracing makes millions of objects and hardly a cycle: a fifth to a third of its time went to
looking for some."""


def start() -> None:
    """Keeps what is compiled (`storage/cache.py`), and collects garbage less often. JAX need not be
    imported yet."""
    keep_compiled()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
