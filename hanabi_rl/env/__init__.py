"""Hanabi in JAX: the rules, the canonical observation, colour symmetries, and batched environments
with auto-reset.

Importing this package does not import jaxmarl; `hanabi_rl.env.jaxmarl` does.
"""

from hanabi_rl.env.decks import DeckPool, shuffled_decks
from hanabi_rl.env.game import Rules
from hanabi_rl.env.hanabi import EnvState, HanabiEnv, TimeStep
from hanabi_rl.env.observe import observe, observe_seat, sections
from hanabi_rl.env.rules import (
    State,
    current_player,
    deal,
    finished,
    legal_actions,
    legal_for_mover,
    legal_for_seat,
    points,
    random_legal_action,
    score,
    step,
)
from hanabi_rl.env.symmetry import (
    invert_permutations,
    permute_actions,
    permute_decks,
    permute_legal,
    permute_obs,
    permute_state,
    random_color_permutations,
)

__all__ = [
    "DeckPool",
    "EnvState",
    "HanabiEnv",
    "Rules",
    "State",
    "TimeStep",
    "current_player",
    "deal",
    "finished",
    "invert_permutations",
    "legal_actions",
    "legal_for_mover",
    "legal_for_seat",
    "observe",
    "observe_seat",
    "permute_actions",
    "permute_decks",
    "permute_legal",
    "permute_obs",
    "permute_state",
    "points",
    "random_color_permutations",
    "random_legal_action",
    "score",
    "sections",
    "shuffled_decks",
    "step",
]
