"""Every network config: its parameters, carry, files and memory."""

import dataclasses
import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.compiled import init_params
from support.games import TINY

import hanabi_rl
from hanabi_rl.agents import policy as policies
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_file import read_file, write_file
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.networks import ILLEGAL_LOGIT, NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.nn.transformer_network import TransformerConfig

SMALL: Any = {"embedding": (16,), "decoder": (12,), "critic": (8,), "dropout": 0.5}
MEMORIES = [
    NetworkConfig(lstm=(16, 12), **SMALL),
    GRUConfig(gru=(16, 12), **SMALL),
    TransformerConfig(transformer=(16, 12), heads=2, window=7, **SMALL),
]
NETWORKS: list[Any] = [
    *MEMORIES,
    NetworkConfig(lstm=(), **SMALL),
    StructuredConfig(trunk=(16,), head=8, card=(), critic=(8,), profile=True),
]
NAMES: Any = {"ids": lambda network: network.kind}
ROWS, OBS, ACTIONS = 3, 5, 4


@pytest.mark.parametrize("network", NETWORKS, **NAMES)
def test_policy_has_parameters_of_learners_actor(network: NetworkKind) -> None:
    """So that a clone starts a learner, and a learner's actor is a policy."""
    config = PPOConfig(game=TINY, num_envs=32, num_steps=4, total_steps=128)
    learner = jax.eval_shape(PPO(config, network).init_params, jax.random.key(0))
    policy = jax.eval_shape(partial(policies.init_params, TINY, network), jax.random.key(0))
    assert set(learner) == {"actor", "critic"} and learner["actor"] == policy
    carry = jax.eval_shape(lambda: network.initial_carry(7))
    assert network.has_carry == bool(jax.tree.leaves(carry))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(carry)} <= {7}


@pytest.mark.parametrize("network", NETWORKS, **NAMES)
def test_policy_file_restores_network(network: Any, tmp_path: Path) -> None:
    policy = NetworkPolicy(init_params(TINY, network, jax.random.key(0)), TINY, network)
    write_file(tmp_path / "policy.safetensors", policy)
    restored = read_file(tmp_path / "policy.safetensors")
    assert restored.network == network and restored.identity() == policy.identity()
    other = dataclasses.replace(network, critic=(9,))
    assert policy.replace(network=other).identity() != policy.identity()


def inputs(steps: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(steps, ROWS, OBS)).astype(np.float32)
    reset = np.zeros((steps, ROWS), bool)
    return obs, np.ones((steps, ROWS, ACTIONS), bool), reset


@pytest.mark.parametrize("network", MEMORIES, **NAMES)
def test_carry_continues_and_reset_clears_memory(network: NetworkKind) -> None:
    """A game in two parts is the game in one; a new game reads nothing of the one before."""
    actor, (obs, legal, reset) = network.actor(ACTIONS), inputs(8)
    legal[:, :, 0] = False
    reset[3, 1] = reset[6, 1] = True
    empty = network.initial_carry(ROWS)
    params = jax.jit(actor.init)(jax.random.key(0), empty, obs, legal, reset)
    apply: Any = jax.jit(actor.apply)
    carry, whole = apply(params, empty, obs, legal, reset)
    middle, first = apply(params, empty, obs[:4], legal[:4], reset[:4])
    last, second = apply(params, middle, obs[4:], legal[4:], reset[4:])
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    close(jnp.concatenate([first, second]), whole)
    # rows of a window that a reset hides may differ: compare what the carries give
    after = [apply(params, c, *(x[:4] for x in inputs(4, 1)))[1] for c in (carry, last)]
    close(*after)
    alone = apply(params, empty, obs[3:6], legal[3:6], reset[3:6])[1]
    close(alone[:, 1], whole[3:6, 1])
    forgetful = apply(params, empty, obs[4:], legal[4:], reset[4:])[1]
    assert np.abs(np.asarray(forgetful - second))[0, :, 1:].max() > 1e-3
    assert (np.asarray(whole)[..., 0] == np.float32(ILLEGAL_LOGIT)).all()


@pytest.mark.parametrize("network", [*MEMORIES, NETWORKS[len(MEMORIES)]], **NAMES)
def test_memory_learns_to_recall(network: NetworkKind) -> None:
    """The answer is in the first of six observations: only memory beats guessing, ln 2."""
    actor = network.actor(2)
    legal, reset = np.ones((6, 32, 2), bool), np.zeros((6, 32), bool)
    empty, optimizer = network.initial_carry(32), optax.adam(1e-2)

    @jax.jit
    def start() -> Any:
        params = actor.init(jax.random.key(0), empty, jnp.zeros((6, 32, OBS)), legal, reset)
        return params, optimizer.init(params)

    def loss(params: Any, key: jax.Array) -> jax.Array:
        obs = jax.random.normal(key, (6, 32, OBS))
        out: Any = actor.apply(params, empty, obs, legal, reset)
        answer = (obs[0, :, 0] > 0).astype(jnp.int32)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(out[1][-1], answer))

    def step(state: Any, key: jax.Array) -> Any:
        params, opt_state = state
        value, gradient = jax.value_and_grad(loss)(params, key)
        changes, opt_state = optimizer.update(gradient, opt_state)
        return (optax.apply_updates(params, changes), opt_state), value

    keys = jax.random.split(jax.random.key(1), 300)
    _, losses = jax.jit(partial(jax.lax.scan, step))(start(), keys)
    least = np.mean(np.asarray(losses)[-20:])
    assert least < 0.35 if network.has_carry else least > 0.65


def test_transformer_reads_its_window_only() -> None:
    network = TransformerConfig(transformer=(8,), window=3, **SMALL)
    actor, (obs, legal, reset) = network.actor(ACTIONS), inputs(6)
    empty = network.initial_carry(ROWS)
    params = jax.jit(actor.init)(jax.random.key(0), empty, obs, legal, reset)
    apply: Any = jax.jit(actor.apply)
    other = obs.copy()
    other[1, :, 0] += 1
    one, two = (apply(params, empty, x, legal, reset)[1] for x in (obs, other))
    changed = np.abs(np.asarray(one - two)).max(axis=(1, 2))
    assert (changed[1:4] > 1e-4).all() and (changed[[0, 4, 5]] < 1e-6).all()


def test_no_layer_above_asks_for_class_of_network() -> None:
    package = Path(hanabi_rl.__file__).parent
    asks = r"isinstance\([^)]*(Structured|GRU|Transformer|Network)Config"
    for folder in ("agents", "learning", "algorithms"):
        for path in sorted((package / folder).rglob("*.py")):
            assert re.search(asks, path.read_text()) is None, path
