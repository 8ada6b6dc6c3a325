"""Seventeen event features of each player's action, by which ZSC-Eval (Wang et al., arXiv
2310.05208) tells partners apart."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.overcooked.dynamics import SOUP_POINTS, Interaction, advance
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.state import DISH, NOTHING, ONION, SOUP, State
from hanabi_rl.games.overcooked.transitions import COUNTER_BIT, INTERACT, POT_BIT, SERVING_BIT, STAY

EVENTS = (
    "put_onion_on_counter",
    "put_dish_on_counter",
    "put_soup_on_counter",
    "take_onion_from_counter",
    "take_onion_from_dispenser",
    "take_dish_from_counter",
    "take_dish_from_dispenser",
    "take_soup_from_counter",
    "take_useful_dish",  # from a dispenser, as the shaping reward defines it
    "take_soup_from_pot",
    "put_onion_in_pot",
    "serve_soup",
    "stay",
    "move",  # any of the four directions, with an effect or not
    "idle_move",  # a direction, but the player neither moves nor turns
    "idle_interact_counter",  # hand and counter are both empty, or both hold a thing
    "idle_interact_nothing",  # floor; a dispenser with full hands; pot or serving place with empty
)
"""Names of `detect_events`'s last axis, E = 17, in ZSC-Eval's order."""
FEATURE_EVENTS = EVENTS[: EVENTS.index("stay") + 1]
"""The 13 events that select partners, in ZSC-Eval's order."""


def behaviour_features(counts: np.ndarray) -> np.ndarray:
    """Features that select partners, float64[S, 14]: `FEATURE_EVENTS`, and the points of the
    player's own soups.

    Args:
        counts: float64[S, E], mean number of each event per game, by seat.
    """
    points = SOUP_POINTS * counts[:, EVENTS.index("serve_soup")]
    return np.column_stack([counts[:, : len(FEATURE_EVENTS)], points])


def detect_events(kitchen: Kitchen, state: State, action: jax.Array) -> jax.Array:
    """Return which `EVENTS` each player's action is, bool[N, P, E].

    Args:
        kitchen: the kitchen.
        state: games ``N`` before the step.
        action: integers [N, P], see `dynamics.step`.
    """
    after, interactions = advance(kitchen, state, action)
    idle = after.poses == state.poses
    return jnp.stack(
        [_of_player(one, action[:, p] & 7, idle[:, p]) for p, one in enumerate(interactions)],
        axis=1,
    )


def _of_player(one: Interaction, action: jax.Array, idle: jax.Array) -> jax.Array:
    """bool[N, E]."""
    counter, empty = one.reaches(COUNTER_BIT), one.hand == NOTHING
    moves, interacts = action < STAY, action == INTERACT
    full_handed = (one.reaches(POT_BIT) | one.reaches(SERVING_BIT)) & ~empty
    events = [
        *(one.exchanges & (one.hand == thing) for thing in (ONION, DISH, SOUP)),
        one.exchanges & (one.thing == ONION),
        one.takes_onion,
        one.exchanges & (one.thing == DISH),
        one.takes_dish,
        one.exchanges & (one.thing == SOUP),
        one.is_useful,
        one.takes_soup,
        one.puts_onion,
        one.serves,
        ~moves & ~interacts,
        moves,
        moves & idle,
        counter & ~one.exchanges,
        interacts & ~counter & ~full_handed & ~one.takes_onion & ~one.takes_dish,
    ]
    return jnp.stack(events, axis=-1)
