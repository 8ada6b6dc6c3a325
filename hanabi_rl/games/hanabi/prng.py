"""Random words by address: streams of them that depend on a key and a number, whoever else draws
and how many at once.

That is what lets environments be sharded, and decks be dealt ahead, without changing a single game.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32


def random_words(key: jax.Array, stream: jax.Array, size: int) -> jax.Array:
    """`size` random words of each numbered stream.

    Threefry-2x32 in counter mode, as in `jax.random`: word j of stream s is the exclusive or of the
    two halves of the encrypted counter (s, j). One call makes all words of all streams, where
    `fold_in` and `bits` would be two: XLA's CPU backend takes long to compile each, and longest
    over small arrays of several axes, which it unrolls.

    Args:
        key: of `jax.random`, typed or raw, used for nothing else; or pairs of words, uint32 that
            broadcasts to [*S, 2].
        stream: the streams' numbers, integers [*S] of at most 32 bits.

    Returns:
        uint32[*S, size]; word j of a stream depends on (its key, its number, j) alone.
    """
    pair = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if pair.shape[-1] != 2:  # a key of another generator
        pair = jax.random.bits(key, (2,), jnp.uint32)

    def words(pair: jax.Array, number: jax.Array) -> jax.Array:
        counters = jnp.concatenate(
            [jnp.broadcast_to(number, size), jnp.arange(size, dtype=jnp.uint32)]
        )
        left, right = jnp.split(threefry_2x32((pair[0], pair[1]), counters), 2)
        return left ^ right

    pairs = jnp.broadcast_to(pair, (*stream.shape, 2)).reshape(-1, 2)
    flat = jax.vmap(words)(pairs, stream.reshape(-1).astype(jnp.uint32))
    return flat.reshape(*stream.shape, size)


def categorical(keys: jax.Array, logits: jax.Array) -> jax.Array:
    """Draw an index int32[N] from each row of `logits` [N, A] with its own key [N], as
    `jax.random.categorical` does by JAX's defaults."""
    # `mode`: else `jax_high_dynamic_range_gumbel` would draw others
    draw = jax.vmap(functools.partial(jax.random.categorical, mode="low"))
    return draw(keys, logits).astype(jnp.int32)


def gumbel(words: jax.Array) -> jax.Array:
    """Standard Gumbel noise float32 from random words of the same shape: -log(-log(u)), with u at
    the middles of the 2**23 equal parts of (0, 1), so that it is always finite.
    """
    u = (words >> 9).astype(jnp.float32) * 2.0**-23 + 2.0**-24
    return -jnp.log(-jnp.log(u))
