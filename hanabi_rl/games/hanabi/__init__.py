"""Hanabi in JAX: rules, canonical observation, colour symmetries and batched environments with
auto-reset.

The names below load on first use: `rules.py`, `python_game.py` and `hanab_live.py` are plain Python
and import no JAX. Importing this package never imports jaxmarl; `hanabi_rl.games.hanabi.jaxmarl`
does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.decks import DeckPool as DeckPool
    from hanabi_rl.games.hanabi.decks import shuffled_decks as shuffled_decks
    from hanabi_rl.games.hanabi.dynamics import State as State
    from hanabi_rl.games.hanabi.dynamics import current_player as current_player
    from hanabi_rl.games.hanabi.dynamics import deal as deal
    from hanabi_rl.games.hanabi.dynamics import finished as finished
    from hanabi_rl.games.hanabi.dynamics import legal_actions as legal_actions
    from hanabi_rl.games.hanabi.dynamics import legal_for_current_player as legal_for_current_player
    from hanabi_rl.games.hanabi.dynamics import legal_for_seat as legal_for_seat
    from hanabi_rl.games.hanabi.dynamics import points as points
    from hanabi_rl.games.hanabi.dynamics import random_legal_action as random_legal_action
    from hanabi_rl.games.hanabi.dynamics import score as score
    from hanabi_rl.games.hanabi.dynamics import step as step
    from hanabi_rl.games.hanabi.hanabi import EnvState as EnvState
    from hanabi_rl.games.hanabi.hanabi import HanabiEnv as HanabiEnv
    from hanabi_rl.games.hanabi.hanabi import TimeStep as TimeStep
    from hanabi_rl.games.hanabi.observation import observation_slices as observation_slices
    from hanabi_rl.games.hanabi.observation import observe_seat as observe_seat
    from hanabi_rl.games.hanabi.rules import Rules as Rules
    from hanabi_rl.games.hanabi.symmetry import invert_permutations as invert_permutations
    from hanabi_rl.games.hanabi.symmetry import permute_actions as permute_actions
    from hanabi_rl.games.hanabi.symmetry import permute_decks as permute_decks
    from hanabi_rl.games.hanabi.symmetry import permute_legal as permute_legal
    from hanabi_rl.games.hanabi.symmetry import permute_obs as permute_obs
    from hanabi_rl.games.hanabi.symmetry import permute_state as permute_state
    from hanabi_rl.games.hanabi.symmetry import (
        random_color_permutations as random_color_permutations,
    )

_HOME = {  # without `observe`, which shares its name with its former module
    **dict.fromkeys(("DeckPool", "shuffled_decks"), "decks"),
    "Rules": "rules",
    **dict.fromkeys(("EnvState", "HanabiEnv", "TimeStep"), "hanabi"),
    **dict.fromkeys(("observe_seat", "observation_slices"), "observation"),
    **dict.fromkeys(
        (
            "State",
            "current_player",
            "deal",
            "finished",
            "legal_actions",
            "legal_for_current_player",
        ),
        "dynamics",
    ),
    **dict.fromkeys(
        ("legal_for_seat", "points", "random_legal_action", "score", "step"), "dynamics"
    ),
    **dict.fromkeys(
        ("invert_permutations", "permute_actions", "permute_decks", "permute_legal"), "symmetry"
    ),
    **dict.fromkeys(("permute_obs", "permute_state", "random_color_permutations"), "symmetry"),
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hanabi_rl.games.hanabi' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hanabi_rl.games.hanabi.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
