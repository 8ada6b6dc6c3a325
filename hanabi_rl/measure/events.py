"""How often each seat's moves were each of the `EVENTS` (`env/events.py`) in recorded games."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env.events import find_events
from hanabi_rl.env.game import Rules
from hanabi_rl.measure.chunks import few_or_many, in_chunks, join_chunks, states_in_a_row

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games


def event_counts(games: Games) -> np.ndarray:
    """int32[N, P, E]: how often a move of each seat was each of the `EVENTS`; every seat counts,
    people or not."""
    chunks = in_chunks(few_or_many(len(games)), games.decks, games.actions, fill=True)
    (counts,) = join_chunks([(_read_chunk(games.rules, *chunk),) for chunk in chunks], len(games))
    return counts


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> jax.Array:
    """`event_counts` of n games."""
    states = states_in_a_row(rules, decks, actions)
    found = find_events(rules, states, jnp.asarray(actions, jnp.int32).T.reshape(-1))
    by_turn = found.reshape(actions.shape[1], actions.shape[0], -1)  # [T, n, E]
    players = rules.num_players
    seats = [by_turn[seat::players].sum(axis=0, dtype=jnp.int32) for seat in range(players)]
    return jnp.stack(seats, axis=1)
