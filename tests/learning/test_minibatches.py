"""Minibatches without the partners' moves."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from support.small_ppo import make_ppo

from hanabi_rl.learning.minibatches import minibatch_indices


def test_prioritized_examples_appear_once_per_epoch() -> None:
    first = np.random.default_rng(0).random((16, 32)) < 0.5
    fields = {"items": 32, "envs_per_block": 4, "num_minibatches": 2, "epochs": 3}
    index, keep = np.arange(16, dtype=np.int32), 80
    shuffle = jax.jit(lambda key: minibatch_indices(key, index, **fields, first=first, keep=keep))
    env, item = jax.device_get(shuffle(jax.random.key(1)))
    assert env.shape == (6, 4 * keep // 2)
    wanted = {(int(e), int(i)) for e, i in zip(*np.nonzero(first), strict=True)}
    epochs = [
        list(zip(np.ravel(env[2 * k : 2 * k + 2]), np.ravel(item[2 * k : 2 * k + 2]), strict=True))
        for k in range(3)
    ]
    for taken in epochs:
        assert len(set(taken)) == len(taken) and wanted <= set(taken)
    assert len({tuple(taken) for taken in epochs}) == 3
    for keep in (81, 0):
        with pytest.raises(ValueError, match=f"multiple of num_minibatches=2, got {keep}$"):
            minibatch_indices(jax.random.key(1), index, **fields, first=first, keep=keep)


def test_minibatches_split_prioritized_examples_evenly() -> None:
    """A minibatch without learner examples would have no gradient: Adam would still move by its
    moments."""
    first = np.random.default_rng(0).random((32, 64)) < 0.5
    split = functools.partial(
        minibatch_indices,
        items=64,
        envs_per_block=8,
        num_minibatches=16,
        epochs=2,
        keep=320,  # of a block's 512
    )
    index = np.arange(32, dtype=np.int32)
    env, item = jax.device_get(jax.jit(split)(jax.random.key(1), index, first=first))
    each = first[env, item].sum(axis=1)
    assert each.min() > 0
    blocks = first.reshape(4, -1).sum(axis=1)  # evenly divided within a block, up to one example
    assert (np.sum(blocks // 16) <= each).all() and (each <= np.sum(-(-blocks // 16))).all()


def test_learner_fraction_sets_example_count() -> None:
    ppo = dataclasses.replace(make_ppo(), learner_fraction=0.5)
    assert ppo.config.num_minibatches == 4
    assert ppo.examples_per_block(512) == 256
    assert ppo.examples_per_block(50) == 28  # 25 in whole minibatches
    assert dataclasses.replace(ppo, learner_fraction=1.0).examples_per_block(52) == 52


def test_indivisible_timesteps_are_dropped() -> None:
    ppo = dataclasses.replace(make_ppo(), learner_fraction=1.0)
    assert (
        ppo.examples_per_block(50) == 48
        and dataclasses.replace(ppo, learner_fraction=0.95).examples_per_block(50) == 48
    )
