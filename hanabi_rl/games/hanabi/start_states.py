"""Start states: games that start from recorded positions instead of fresh deals (diverse starts,
Knott et al. 2021)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.batching import select_games
from hanabi_rl.games.hanabi.bits import pack_deck
from hanabi_rl.games.hanabi.dynamics import Rules, State
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.prng import random_words

MAX_STATES = 100_000
"""Maximum number of positions, about a hundred bytes each."""
_CHUNK = 256  # games replayed at once
_STARTS = 1 << 31  # offset of start streams; decks use streams with the games' numbers


class StartStates(struct.PyTreeNode):
    """Positions in which some games of an environment start."""

    states: State
    """[K]: positions with the deck as dealt; the rest is drawn in its order."""
    prob: jax.Array
    """float32[]: probability that a game starts in one of them, chosen uniformly."""


def sample_start_states(
    starts: StartStates, fresh: State, keys: jax.Array | None, games: jax.Array
) -> State:
    """First states [N] of games: fresh deals `fresh` [N], or positions of `starts`.

    Args:
        keys: uint32[N, 2], the environments' keys; samples depend only on them and `games`.
        games: int32[N], numbers of the environments' games.

    Raises:
        ValueError: there are no keys because decks are fixed.
    """
    if keys is None:
        raise ValueError("starts: expected an environment that shuffles, got one with given decks")
    words = random_words(keys, games.astype(jnp.uint32) | jnp.uint32(_STARTS), 2)
    recorded = (words[:, 0] >> 8).astype(jnp.float32) * 2.0**-24 < starts.prob
    count = starts.states.counters.shape[0]
    which = words[:, 1] % jnp.uint32(count)
    return select_games(recorded, jax.tree.map(lambda x: x[which], starts.states), fresh)


def start_states_from_games(
    rules: Rules,
    decks: np.ndarray,
    actions: np.ndarray,
    share: float,
    *,
    min_moves_left: int = 4,
    seed: int = 0,
) -> StartStates:
    """Positions of recorded games with at least `min_moves_left` further moves.

    Args:
        decks: uint8[G, deck_size] card ids.
        actions: int32[G, T], actions of the current players, no-ops after a game's end; legal (see
            `replay_moves`).
        share: see `StartStates.prob`.
        seed: selects `MAX_STATES` of more positions.

    Raises:
        ValueError: no game is that long.
    """
    length = np.sum(actions != rules.noop, axis=1)
    places = np.argwhere(np.arange(actions.shape[1]) + min_moves_left <= length[:, None])
    if not len(places):
        raise ValueError(
            f"starts: expected games of {min_moves_left} moves or more, got {len(decks)} of less"
        )
    if len(places) > MAX_STATES:
        chosen = np.random.default_rng(seed).choice(len(places), MAX_STATES, replace=False)
        places = places[np.sort(chosen)]
    parts = []
    for first in range(0, len(decks), _CHUNK):
        mine = places[(places[:, 0] >= first) & (places[:, 0] < first + _CHUNK)]
        pad = max(0, first + _CHUNK - len(decks))
        chunk = np.pad(decks[first : first + _CHUNK], ((0, pad), (0, 0)))
        moves = np.pad(
            actions[first : first + _CHUNK], ((0, pad), (0, 0)), constant_values=rules.noop
        )
        states: State = jax.device_get(_states(rules, chunk, moves))
        game, turn = mine[:, 0] - first, mine[:, 1]
        picked = jax.tree.map(lambda x, t=turn, g=game: x[t, g], states)
        parts.append(picked.replace(deck=np.asarray(pack_deck(jnp.asarray(chunk)))[game]))
    states = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *parts)
    return StartStates(states=states, prob=jnp.float32(share))


@partial(jax.jit, static_argnums=0)
def _states(rules: Rules, decks: np.ndarray, actions: np.ndarray) -> State:
    """[T, G], before each move, without the deck."""
    return replay(rules, decks, actions).state
