"""Features as bit fields, packed into a few words per game and unpacked to floats for the network.

XLA's CPU backend recomputes the inputs of a concatenation for every column. A word is computed once
(`games.batching.materialize`), is cheap to move, and unpacks into a block of numbers in one
operation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import WORD_BITS, union

QUANTIZED_BITS = 10
QUANTIZED_ONE = (1 << QUANTIZED_BITS) - 1
"""Fixed-point value of 1."""

Columns = list[jax.Array]
"""Features, games last: flags (bool), numbers in [0, 1] (float32), or such numbers in fixed point
(uint32, see `quantize`). They broadcast against each other."""


def quantize(value: jax.Array) -> jax.Array:
    """Fixed point of a number in [0, 1]; computed once for all columns that read it."""
    return materialize((jnp.clip(value, 0.0, 1.0) * QUANTIZED_ONE + 0.5).astype(jnp.uint32))


class _Field(NamedTuple):
    bits: jax.Array
    width: int


def _field(column: jax.Array) -> _Field:
    if column.dtype == jnp.bool_:
        return _Field(column.astype(jnp.uint32), 1)
    return _Field(column if column.dtype == jnp.uint32 else quantize(column), QUANTIZED_BITS)


def unpack_columns(columns: Columns, axes: Sequence[int]) -> jax.Array:
    """Broadcast columns [..., N] to float32 with axes in the order `axes`, features last."""
    shape = jnp.broadcast_shapes(*(column.shape for column in columns))
    blocks: list[jax.Array] = []
    fields: list[_Field] = []
    used = 0
    for field in (*map(_field, columns), None):
        if field is None or used + field.width > WORD_BITS:
            blocks.append(_block(fields, shape, axes))
            fields, used = [], 0
        if field is not None:
            fields.append(field)
            used += field.width
    return jnp.concatenate(blocks, axis=-1)


def _block(fields: list[_Field], shape: tuple[int, ...], axes: Sequence[int]) -> jax.Array:
    widths = np.array([field.width for field in fields])
    places = np.cumsum(widths) - widths
    word = union([field.bits << int(place) for field, place in zip(fields, places, strict=True)])
    word = jnp.transpose(materialize(jnp.broadcast_to(word, shape)), axes)
    masks = ((1 << widths) - 1).astype(np.uint32)
    values = (word[..., None] >> places.astype(np.uint32)) & masks
    return values.astype(jnp.float32) * (1.0 / masks).astype(np.float32)
