"""Fixed-size chunks of recorded games: one compiled function serves files of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State

FEW, MANY = 256, 1024


def chunk_size(count: int) -> int:
    """Games per chunk: one of two sizes, so that at most two shapes compile."""
    return FEW if count <= FEW else MANY


def in_chunks(
    size: int, *arrays: np.ndarray, fill: bool = False
) -> Iterator[tuple[np.ndarray, ...]]:
    """Slices of `size` games. The last slice wraps around to keep its shape; `join_chunks` drops
    the repetition. Fewer games form one slice of the next power of two, or of `size` with
    `fill`."""
    total = len(arrays[0])
    size = size if fill else min(size, 1 << (total - 1).bit_length())
    for first in range(0, total, size):
        index = np.arange(first, first + size) % total
        yield tuple(array[index] for array in arrays)


def join_chunks(parts: Sequence[tuple[jax.Array, ...]], total: int) -> tuple[np.ndarray, ...]:
    """Concatenate the results of all chunks, [size, ...] each, to arrays [total, ...]."""
    return tuple(
        np.concatenate([np.asarray(part) for part in column])[:total]
        for column in zip(*parts, strict=True)
    )


def flatten_states(rules: Rules, decks: jax.Array, actions: jax.Array) -> State:
    """States before every move of n recorded games, as one batch [T * n, ...], turn by turn."""

    def joined(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:])

    return jax.tree.map(joined, replay(rules, decks, actions).state)
