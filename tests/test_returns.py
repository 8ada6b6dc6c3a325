"""Generalised advantage estimation against its definition, summed in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.learning.returns import gae

# Games end in the middle, next to each other, at the first and at the last timestep; one sequence
# never ends.
DONES = [(3,), (0, 4, 5), (9,), ()]
STEPS = 10


def defined_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    done: np.ndarray,
    last_value: float,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """A_t = sum over k of (gamma lambda)^k delta_{t+k}, up to and including the step that ends the
    game."""
    steps = len(reward)
    advantage = np.zeros(steps)
    for t in range(steps):
        for k in range(steps - t):
            now = t + k
            following = 0.0 if done[now] else (value[now + 1] if now + 1 < steps else last_value)
            advantage[t] += (gamma * gae_lambda) ** k * (
                reward[now] + gamma * following - value[now]
            )
            if done[now]:
                break
    return advantage


@pytest.fixture(scope="module")
def estimate() -> object:
    return jax.jit(gae)


@pytest.mark.parametrize("ends", DONES)
@pytest.mark.parametrize(
    ("gamma", "gae_lambda"), [(0.5, 0.9), (0.99, 0.95), (1.0, 1.0), (0.9, 0.0)]
)
def test_gae_equals_its_definition(
    estimate: object, ends: tuple[int, ...], gamma: float, gae_lambda: float
) -> None:
    rng = np.random.default_rng(len(ends))
    reward, value = (
        rng.normal(size=STEPS).astype(np.float32),
        rng.normal(size=STEPS).astype(np.float32),
    )
    done = np.isin(np.arange(STEPS), ends)
    last_value = np.float32(1.7)
    advantage, target = estimate(reward, value, done, last_value, gamma, gae_lambda)
    expected = defined_advantages(reward, value, done, float(last_value), gamma, gae_lambda)
    np.testing.assert_allclose(advantage, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(target, expected + value, rtol=1e-5, atol=1e-5)
    if gamma == 0.5:  # far from 1, where adding gamma instead of multiplying by it cannot pass
        wrong = np.array(
            [
                reward[t] + gamma + (value[t + 1] if t + 1 < STEPS else last_value)
                for t in range(STEPS)
            ]
        )
        assert np.abs(advantage - (wrong - value)).max() > 0.1


def test_the_last_value_counts_only_where_the_game_goes_on(estimate: object) -> None:
    reward, value = jnp.ones(STEPS), jnp.zeros(STEPS)
    for done_last, used in ((True, False), (False, True)):
        done = jnp.zeros(STEPS, bool).at[-1].set(done_last)
        low, high = (
            estimate(reward, value, done, jnp.float32(v), 0.9, 0.8)[0] for v in (0.0, 100.0)
        )
        np.testing.assert_allclose(
            high - low, used * 90.0 * 0.72 ** np.arange(STEPS)[::-1], rtol=1e-4, atol=1e-4
        )
