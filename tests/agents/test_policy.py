"""NetworkPolicy and act()."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_params

from hanabi_rl.agents.policy import NetworkPolicy, Policy, PolicyInfo, act
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig

RULES = Rules(num_players=2, num_colors=2, num_ranks=2, hand_size=2)
NETWORK = NetworkConfig(embedding=(12,), lstm=(8, 8), decoder=(8,), critic=(8,))
BATCH, STEPS = 3, 5


def make_policy(seed: int, **info: int) -> NetworkPolicy:
    params = init_params(RULES, NETWORK, jax.random.key(seed))
    return NetworkPolicy(params=params, rules=RULES, network=NETWORK, info=PolicyInfo(**info))


@pytest.fixture(scope="module")
def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """obs [T, B, O], legal [T, B, A] (at least one action), reset [T, B] with games that begin in
    the middle."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(STEPS, BATCH, RULES.obs_size)).astype(np.float32)
    legal = rng.random((STEPS, BATCH, RULES.num_actions)) < 0.4
    legal[..., -1] = True
    reset = np.zeros((STEPS, BATCH), bool)
    reset[0], reset[2, 1] = True, True
    return obs, legal, reset


def test_stepping_equals_sequence_pass(inputs: tuple[np.ndarray, ...]) -> None:
    policy = make_policy(0)
    assert isinstance(policy, Policy)
    obs, legal, reset = inputs
    actor = Actor(NETWORK, RULES.num_actions)
    _, expected = jax.jit(actor.apply)(
        {"params": policy.params}, policy.init_carry(BATCH), obs, legal, reset
    )
    carry = policy.init_carry(BATCH)
    assert all(leaf.shape[0] == BATCH for leaf in jax.tree.leaves(carry))
    step = jax.jit(NetworkPolicy.step)
    for t in range(STEPS):
        carry, logits = step(policy, carry, obs[t], legal[t], reset[t])
        np.testing.assert_allclose(logits, expected[t], rtol=1e-5, atol=1e-5)


def test_reset_clears_memory(inputs: tuple[np.ndarray, ...]) -> None:
    policy = make_policy(0)
    obs, legal, _ = inputs
    step = jax.jit(NetworkPolicy.step)
    new, old = np.ones(BATCH, bool), np.zeros(BATCH, bool)
    seen, _ = step(policy, policy.init_carry(BATCH), obs[0], legal[0], old)
    _, fresh = step(policy, policy.init_carry(BATCH), obs[1], legal[1], old)
    _, cleared = step(policy, seen, obs[1], legal[1], new)
    _, remembered = step(policy, seen, obs[1], legal[1], old)
    np.testing.assert_array_equal(cleared, fresh)
    assert np.abs(np.asarray(remembered) - np.asarray(fresh))[legal[1]].max() > 1e-4


def test_act_samples_only_with_key(inputs: tuple[np.ndarray, ...]) -> None:
    policy = make_policy(0)
    obs, legal, reset = (x[0] for x in inputs)
    _, logits = jax.jit(NetworkPolicy.step)(policy, policy.init_carry(BATCH), obs, legal, reset)
    _, action = act(policy, policy.init_carry(BATCH), obs, legal, reset)
    assert action.dtype == jnp.int32
    np.testing.assert_array_equal(action, np.argmax(np.asarray(logits), axis=-1))

    draws = 4000
    wide = [np.repeat(x[:1], draws, axis=0) for x in (obs, legal, reset)]
    _, sampled = act(policy, policy.init_carry(draws), *wide, jax.random.key(1))
    counted = np.bincount(np.asarray(sampled), minlength=RULES.num_actions) / draws
    odds = np.exp(np.asarray(logits, np.float64)[0])
    # five standard errors
    np.testing.assert_allclose(counted, odds / odds.sum(), atol=5 * 0.5 / np.sqrt(draws))
    assert counted[~legal[0]].sum() == 0


def test_policies_of_equal_shape_share_compilation(inputs: tuple[np.ndarray, ...]) -> None:
    obs, legal, reset = (x[0] for x in inputs)
    traces = 0

    @jax.jit
    def counted(policy: NetworkPolicy) -> jax.Array:
        nonlocal traces
        traces += 1
        return act(policy, policy.init_carry(BATCH), obs, legal, reset)[1]

    for seed in range(3):
        counted(make_policy(seed, steps=seed))
    assert traces == 1
