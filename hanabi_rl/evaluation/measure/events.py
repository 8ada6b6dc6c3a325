"""Event counts and rates of games, for the 14 events of `games/hanabi/events.py` or those of
another game."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure.chunks import chunk_size, flatten_states, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask
from hanabi_rl.games.hanabi.events import detect_events
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.game_episodes import records_of

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.games.game import Game


def event_rate(record: GameAnalysis, place: int) -> Ratio:
    """Fraction of the counted seats' turns with event `EVENTS[place]`."""
    turns = counted_turn_mask(record.games).sum(axis=1)
    return Ratio(record.events[:, place], turns, is_proportion=True)


def counted_events(games: Games) -> np.ndarray:
    """Event counts of the counted seats, int32[N, E]."""
    counts = event_counts(games)
    if games.human_seats is None:
        return counts.sum(axis=1)
    return np.where(games.human_seats[:, :, None], counts, 0).sum(axis=1)


def event_counts(games: Games) -> np.ndarray:
    """Counts of each event of `EVENTS` by seat, int32[N, P, E]; every seat, human or not."""
    chunks = in_chunks(chunk_size(len(games)), games.decks, games.actions, fill=True)
    (counts,) = join_chunks([(_read_chunk(games.rules, *chunk),) for chunk in chunks], len(games))
    return counts


def mean_event_counts(rules: Any, games: Any) -> np.ndarray:
    """Mean number of each event per game by seat, float64[P, E].

    Args:
        rules: the game.
        games: `Games` of Hanabi, otherwise `Episodes`.
    """
    if isinstance(rules, Rules):
        return event_counts(games).mean(axis=0)
    records = records_of(rules, games)
    found = records.read(_detect) & records.is_played.T[:, :, None, None]
    return found.sum(axis=0).mean(axis=0)


def _detect(rules: Game, state: Any, action: jax.Array) -> jax.Array:
    return rules.detect_events(state, action)


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> jax.Array:
    states = flatten_states(rules, decks, actions)
    found = detect_events(rules, states, jnp.asarray(actions, jnp.int32).T.reshape(-1))
    by_turn = found.reshape(actions.shape[1], actions.shape[0], -1)  # [T, n, E]
    players = rules.num_players
    seats = [by_turn[seat::players].sum(axis=0, dtype=jnp.int32) for seat in range(players)]
    return jnp.stack(seats, axis=1)
