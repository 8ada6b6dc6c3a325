"""Computation for the rows to move, skipping the others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.rules import Rules

PyTree = Any
_BLOCKS = 4  # one seat in P moves, so the active rows fill about this many blocks


def compute_active_rows(
    rules: Rules, my_turn: jax.Array, compute: Callable[[PyTree], jax.Array], inputs: PyTree
) -> jax.Array:
    """Apply `compute` to the rows where `my_turn` ``bool[B]``; zeros elsewhere.

    `compute` maps leaves ``[n, ...]`` to an array ``[n, ...]`` row by row, and is called for blocks
    of active rows.
    """
    batch = my_turn.shape[0]
    size = -(-batch // (_BLOCKS * rules.num_players))
    place = jnp.cumsum(my_turn) - 1
    compute = jax.jit(compute, inline=True)  # traced once
    some = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape[1:]), leaf.dtype), inputs
    )
    answer = jax.eval_shape(compute, some)

    def next_rows(progress: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, results = progress
        (rows,) = jnp.nonzero(my_turn & (place >= done), size=size, fill_value=batch)
        new = compute(jax.tree.map(lambda leaf: leaf[rows], inputs))
        return done + size, results.at[rows].set(new, mode="drop")

    start = (jnp.int32(0), jnp.zeros((batch, *answer.shape[1:]), answer.dtype))
    return jax.lax.while_loop(lambda progress: progress[0] < jnp.sum(my_turn), next_rows, start)[1]
