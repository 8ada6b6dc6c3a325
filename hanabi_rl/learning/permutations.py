"""Colour permutations that depend on nothing but the game and the epoch."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def color_permutations(
    key: jax.Array, epoch: int, game_index: np.ndarray | jax.Array, num_colors: int
) -> jax.Array:
    """int32[B, num_colors]: for each game its uniform colour permutation of that epoch, the new
    colour of each colour.

    It depends on (key, epoch, game) alone, never on the batch the game falls in. The learner
    permutes decks and actions with it before `replay`, so a permutation costs nothing.
    """
    return _permutations(key, jnp.uint32(epoch), jnp.asarray(game_index, jnp.uint32), num_colors)


@partial(jax.jit, static_argnums=3)
def _permutations(
    key: jax.Array, epoch: jax.Array, game_index: jax.Array, num_colors: int
) -> jax.Array:
    epoch_key = jax.random.fold_in(key, epoch)

    def one(game: jax.Array) -> jax.Array:
        return jax.random.permutation(jax.random.fold_in(epoch_key, game), num_colors)

    return jax.vmap(one)(game_index).astype(jnp.int32)
