"""Assignment of a rollout's examples to minibatches, independent of the number of devices."""

import jax
import jax.numpy as jnp

from hanabi_rl.games.prng import random_words


def minibatch_indices(
    key: jax.Array,
    index: jax.Array,
    *,
    items: int,
    envs_per_block: int,
    num_minibatches: int,
    epochs: int,
    first: jax.Array | None = None,
    keep: int | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Indices (environment, item) of the examples in every minibatch of every epoch, each int32
    [epochs * num_minibatches, B]; environments have local numbers.

    Examples are shuffled within blocks of environments, and each minibatch takes an equal part of
    every block. As it divides the number of blocks, the number of devices changes no result.

    Args:
        index: int32 [N], global numbers of the environments.
        items: examples per environment.
        envs_per_block: environments per block.
        first: bool [N, items], examples taken first in a block, spread over minibatches, or None.
        keep: examples per block and epoch; None: all.

    Raises:
        ValueError: a block does not divide evenly.
    """
    of_block = envs_per_block * items if keep is None else keep
    if not of_block or of_block % num_minibatches:
        raise ValueError(
            f"examples of a block: expected a multiple of {num_minibatches=}, got {of_block}"
        )
    first_env = jnp.arange(0, index.shape[0], envs_per_block, dtype=jnp.int32)
    words = random_words(key, index, epochs * items).reshape(-1, epochs, items)
    if first is not None:
        words = words >> 1 | jnp.where(first, 0, jnp.uint32(1 << 31))[:, None]
    # sort by random words: a random order of each block per epoch
    order = jnp.argsort(words.swapaxes(0, 1).reshape(epochs, first_env.shape[0], -1))
    order = order[..., :of_block]
    if first is not None:  # interleave: in one run, the last minibatches would get none
        in_turn = order.reshape(*order.shape[:2], -1, num_minibatches).swapaxes(2, 3)
        order = in_turn.reshape(order.shape)
    env, item = first_env[:, None] + order // items, order % items

    def split(x: jax.Array) -> jax.Array:
        shares = x.reshape(*x.shape[:2], num_minibatches, -1)
        return shares.swapaxes(1, 2).reshape(epochs * num_minibatches, -1)

    return split(env), split(item)
