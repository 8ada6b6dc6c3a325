"""Games that begin in the middle: recorded states among the usual starts (diverse starts, Knott et
al. 2021; state augmentation, Gessler et al. 2025)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.overcooked.state import State, select_games
from hanabi_rl.games.prng import random_words


class StartStates(struct.PyTreeNode):
    """States in which some of the games of an environment begin."""

    states: State
    """[K]: states to begin in, each as probable as the others; they keep their step and score."""
    prob: jax.Array
    """float32[]: probability that a game begins in one of them."""


def sample_start_states(
    starts: StartStates, usual: State, keys: jax.Array, games: jax.Array
) -> State:
    """Return the first states [N] of games.

    Args:
        starts: states to begin in.
        usual: [N] or [1], for the games that begin as usual.
        keys: uint32[N, 2], the environments' own; the result depends on them and `games` alone.
        games: int32[N], number of each environment's game.
    """
    words = random_words(keys, games.astype(jnp.uint32), 2)
    recorded = (words[:, 0] >> 8).astype(jnp.float32) * 2.0**-24 < starts.prob
    which = words[:, 1] % jnp.uint32(starts.states.players.shape[0])
    return select_games(
        recorded, jax.tree.map(lambda word: jnp.asarray(word)[which], starts.states), usual
    )
