"""Thinking for the rows whose turn it is, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.rules import Rules

PyTree = Any
_BLOCKS = 4  # one seat in P is to move: the rows to think for come in about this many blocks


def compute_active_rows(
    rules: Rules, my_turn: jax.Array, think: Callable[[PyTree], jax.Array], inputs: PyTree
) -> jax.Array:
    """``think(inputs)`` for the rows where `my_turn` ``bool[B]`` is true, zeros elsewhere.

    A few rows at a time, which leaves out the idle ones.

    Args:
        think: what some rows think, an array ``[n, ...]`` from leaves ``[n, ...]``, row by row.
        inputs: leaves ``[B, ...]``.
    """
    batch = my_turn.shape[0]
    size = -(-batch // (_BLOCKS * rules.num_players))
    place = jnp.cumsum(my_turn) - 1
    think = jax.jit(think, inline=True)  # traced once
    some = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape[1:]), leaf.dtype), inputs
    )
    answer = jax.eval_shape(think, some)

    def next_rows(thinking: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, thoughts = thinking
        (rows,) = jnp.nonzero(my_turn & (place >= done), size=size, fill_value=batch)
        new = think(jax.tree.map(lambda leaf: leaf[rows], inputs))
        return done + size, thoughts.at[rows].set(new, mode="drop")

    start = (jnp.int32(0), jnp.zeros((batch, *answer.shape[1:]), answer.dtype))
    return jax.lax.while_loop(lambda thinking: thinking[0] < jnp.sum(my_turn), next_rows, start)[1]
