"""Batched computation, shared by the games: single games as batches, and words computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")
_ABOVE_ANY_WORD = (1 << 32) - 5


def call_batched(function: Callable[..., Any], *one_game: Any) -> Any:
    """Apply a function of batches ``[N, ...]`` to one game; under `jax.vmap`, once to all games.

    The game becomes a batch of one. Each `jax.vmap` around the call adds an axis, which the rule
    below folds into the batch. `function` itself is never vmapped: a scalar `lax.while_loop` or
    `lax.cond` in it stays scalar.

    Args:
        function: takes and returns pytrees whose leaves have a leading axis of ``N`` games.
        *one_game: its arguments for one game, leaves without that axis.

    Returns:
        Result of `function` for that game, leaves without that axis.
    """
    batched = jax.custom_batching.custom_vmap(function)

    @batched.def_vmap
    def fold_axis(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        def fold(leaf: jax.Array, is_batched: bool) -> jax.Array:
            if not is_batched:
                leaf = jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
            return leaf.reshape(-1, *leaf.shape[2:])

        out = batched(*jax.tree.map(fold, args, tuple(in_batched)))
        unfolded = jax.tree.map(lambda leaf: leaf.reshape(axis_size, -1, *leaf.shape[1:]), out)
        return unfolded, jax.tree.map(lambda _: True, out)

    return jax.tree.map(
        lambda leaf: leaf[0], batched(*jax.tree.map(lambda leaf: leaf[None], one_game))
    )


def materialize(word: jax.Array) -> jax.Array:
    """Compute ``uint32`` words (each below 2**32 - 5) only once for several results.

    XLA's CPU backend writes one loop per result and repeats all cheap arithmetic in it; it removes
    `jax.lax.optimization_barrier` before that decision. It never repeats an integer remainder. The
    remainder by a number above every word changes nothing and halves the time of a step.
    """
    return word % jnp.uint32(_ABOVE_ANY_WORD)


def pick_seat(values: jax.Array, seat: jax.Array) -> jax.Array:
    """Entry [N, ...] of `seat` int32[N] in `values` ``[N, P, ...]``."""
    place = seat.reshape(-1, *(1,) * (values.ndim - 1))
    return jnp.take_along_axis(values, place, axis=1)[:, 0]


def select_games(which: jax.Array, yes: T, no: T) -> T:
    """Select per game: `yes` where `which` bool[N], otherwise `no`; leaves are ``[N, ...]``, or
    ``[1, ...]`` for one game."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(which.reshape(which.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, yes, no)
