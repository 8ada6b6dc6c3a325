"""Overcooked in JAX: kitchens, rules, observation, batched environments with auto-reset, games of
humans.

The names below load on first use; `kitchens.py` and `transitions.py` need no JAX. Importing this
package never imports jaxmarl; `hanabi_rl.games.overcooked.jaxmarl` does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi_rl.games.overcooked.kitchens import KITCHENS as KITCHENS
    from hanabi_rl.games.overcooked.kitchens import Kitchen as Kitchen
    from hanabi_rl.games.overcooked.kitchens import load_kitchen as load_kitchen
    from hanabi_rl.games.overcooked.overcooked import Overcooked as Overcooked
    from hanabi_rl.games.overcooked.overcooked import OvercookedEnv as OvercookedEnv
    from hanabi_rl.games.overcooked.state import Scene as Scene
    from hanabi_rl.games.overcooked.state import State as State
    from hanabi_rl.games.overcooked.state import pack_scenes as pack_scenes
    from hanabi_rl.games.overcooked.state import swap_players as swap_players
    from hanabi_rl.games.overcooked.state import unpack_scene as unpack_scene

_HOME = {
    **dict.fromkeys(("KITCHENS", "Kitchen", "load_kitchen"), "kitchens"),
    **dict.fromkeys(("Overcooked", "OvercookedEnv"), "overcooked"),
    **dict.fromkeys(("Scene", "State", "pack_scenes", "swap_players", "unpack_scene"), "state"),
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hanabi_rl.games.overcooked' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hanabi_rl.games.overcooked.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
