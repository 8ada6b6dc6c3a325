"""Counter-based random words: a stream depends only on a key and a number, however many are drawn
at once.

So environments can be sharded and decks dealt ahead without changing a game.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32


def random_words(key: jax.Array, stream: jax.Array, size: int) -> jax.Array:
    """`size` random words of each numbered stream.

    Threefry-2x32 in counter mode, as in `jax.random`: word j of stream s is the exclusive or of the
    two halves of the encrypted counter (s, j). One call makes all words of all streams; `fold_in`
    and `bits` would be two, each slow to compile on XLA's CPU backend, above all for small arrays
    of several axes, which it unrolls.

    Args:
        key: of `jax.random`, typed or raw, with no other use; or pairs of words, uint32 that
            broadcasts to [*S, 2].
        stream: numbers of the streams, integers [*S] of at most 32 bits.

    Returns:
        uint32[*S, size]; word j of a stream depends only on (its key, its number, j).
    """
    pair = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if pair.shape[-1] != 2:  # key of another generator
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
    """Sample an index int32[N] from each row of `logits` [N, A] with its own key [N], as
    `jax.random.categorical` does with JAX's defaults."""
    # `mode` is set because `jax_high_dynamic_range_gumbel` would change the samples
    draw = jax.vmap(functools.partial(jax.random.categorical, mode="low"))
    return draw(keys, logits).astype(jnp.int32)


def gumbel(words: jax.Array) -> jax.Array:
    """Standard Gumbel noise float32 from random words of the same shape: -log(-log(u)), with u at
    the midpoints of 2**23 equal parts of (0, 1), so it is always finite."""
    u = (words >> 9).astype(jnp.float32) * 2.0**-23 + 2.0**-24
    return -jnp.log(-jnp.log(u))
