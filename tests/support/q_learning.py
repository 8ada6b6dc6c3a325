"""Small Q-learners and what they play, for tests."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from support.compiled import any_params

from hanabi_rl.learning import parallel
from hanabi_rl.learning.q_learning import QLearner, QLearningConfig
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig

SMALL: Any = {"embedding": (16,), "decoder": (16,), "critic": (16,)}
FEED_FORWARD = NetworkConfig(lstm=(), **SMALL)
LSTM = NetworkConfig(lstm=(8,), **SMALL)


def make_learner(
    game: Any, network: Any, mixing: Any = "sum", cls: type[QLearner] = QLearner, **changes: Any
) -> QLearner:
    fields = {
        "game": game,
        "num_envs": 8,
        "num_steps": 5,
        "total_steps": 40 * 100,
        "lr": 1e-3,
        "gamma": 0.9,
        "num_shuffle_blocks": 2,
        "burn_in": 3 if network.has_carry else 0,
        "batch_size": 4,
        "gradient_steps": 2,
        "target_every": 2,
        "replay_size": 160,
        "warmup_steps": 1,
        "epsilon": 0.5,
        "precision": "float32",
    }
    return cls(QLearningConfig(**(fields | changes)), network, mixing=mixing)


def on_one_device(function: Any, *args: Any) -> Any:
    """`function` with the axis of `parallel`, compiled."""
    each = jax.tree.map(lambda x: np.asarray(x)[None], args)
    found = jax.device_get(jax.jit(jax.vmap(function, axis_name=parallel.AXIS))(*each))
    return jax.tree.map(lambda x: x[0], found)


class Played(NamedTuple):
    """Two chunks of 4 environments in the middle of games, as a batch of 4 sequences."""

    state: Any
    sampled: Any  # [blocks, B / blocks, K, ...]
    best: np.ndarray  # [T, B, R], greedy values at collection


@functools.cache
def play_two(learner: QLearner) -> Played:
    @jax.jit
    def start(key: jax.Array) -> Any:
        state, actors = learner.init(key)
        return state, actors.runner

    @jax.jit
    def play(state: Any, runner: Any, key: jax.Array) -> Any:
        runner, chunk, rollout = learner.play(state, runner, EMPTY_CONTEXT, key)
        return runner, chunk, rollout.value

    key = jax.random.key(3)
    with any_params(learner):
        state, runner = start(key)
    runner = play(state, runner, key)[0]
    chunks, values = [], []
    for i in range(2):
        key = jax.random.fold_in(key, i)
        runner, chunk, value = play(state, runner, key)
        chunks.append(jax.device_get(chunk))
        values.append(value)
    joined = jax.tree.map(lambda *x: np.stack(x, axis=1), *chunks)  # [N, K, ...]
    joined = jax.tree.map(lambda x: x.reshape(2, len(x) // 2, *x.shape[1:]), joined)
    return Played(state, joined, np.concatenate(values))
