"""Generalized advantage estimation against its definition, summed in NumPy."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.small_ppo import make_ppo, small_rollout

from hanabi_rl.learning.returns import TD_ERRORS, ah2ac2_td_error, gae, semi_mdp_values
from hanabi_rl.learning.rewards import HanabiShaping, true_score_weight

# games that end in the middle, next to each other, at the first and last timestep; one never ends
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
def test_gae_matches_definition(
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


def test_ah2ac2_code_td_error_by_hand() -> None:
    """AH2AC2's HDR-IPPO trainer adds gamma instead of multiplying by it, also at the last move of a
    game; only the trace is discounted."""
    reward, value = np.float32([1.0, 0.0, 2.0]), np.float32([0.5, 0.25, 4.0])
    done, gamma, trace = np.array([False, True, False]), 0.5, 0.5 * 0.8
    estimate = jax.jit(gae, static_argnums=6)
    advantage, target = estimate(reward, value, done, np.float32(3.0), gamma, 0.8, ah2ac2_td_error)
    last = 2.0 + 0.5 + 3.0 - 4.0
    ended = 0.0 + 0.5 + 0.0 - 0.25
    first = 1.0 + 0.5 + 0.25 - 0.5
    np.testing.assert_allclose(advantage, [first + trace * ended, ended, last], rtol=1e-6)
    np.testing.assert_allclose(target, advantage + value, rtol=1e-6)


def test_other_players_turns_have_no_advantage() -> None:
    """For both TD errors: estimates follow from the next own turn, so that other turns have no
    advantage."""
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 12, 1)).astype(np.float32)
    done, own = np.arange(12)[:, None] % 6 == 5, rng.random((12, 1)) < 0.5
    last = np.float32([1.5])
    for difference in TD_ERRORS.values():
        filled = semi_mdp_values(reward, value, done, last, own, 0.9, difference)
        following = np.append(filled[1:], last[None], axis=0) * ~done
        delta = np.asarray(difference(reward, following, filled, 0.9))
        np.testing.assert_allclose(delta[~own], 0.0, atol=1e-6)
        np.testing.assert_array_equal(np.asarray(filled)[own], value[own])


def test_config_selects_td_error(small: Any) -> None:
    ours, theirs = make_ppo(), make_ppo(td_error="as-published")
    rollout = small_rollout(ours, small)
    last = np.zeros(rollout.value.shape[1:], np.float32)

    @functools.partial(jax.jit, static_argnums=0)
    def advantages(ppo: Any, rollout: Any, last: Any) -> Any:
        return ppo.returns(rollout, last, (), rollout.transition.reward).advantage

    right, wrong = (np.asarray(advantages(ppo, rollout, last)) for ppo in (ours, theirs))
    # after the last timestep the value is 0, so gamma itself is added
    gamma = np.full_like(right[-1], ours.config.gamma)
    np.testing.assert_allclose(wrong[-1] - right[-1], gamma, atol=1e-5)


def test_last_value_counts_in_unfinished_games(estimate: object) -> None:
    reward, value = np.ones(STEPS, np.float32), np.zeros(STEPS, np.float32)
    for done_last, used in ((True, False), (False, True)):
        done = (np.arange(STEPS) == STEPS - 1) & done_last
        low, high = (
            np.asarray(estimate(reward, value, done, np.float32(v), 0.9, 0.8)[0])
            for v in (0.0, 100.0)
        )
        np.testing.assert_allclose(
            high - low, used * 90.0 * 0.72 ** np.arange(STEPS)[::-1], rtol=1e-4, atol=1e-4
        )


def test_training_reward_by_hand() -> None:
    """One point, a lost life, a point, the last life after 2 points, then a new game's point."""
    reward = np.float32([1.0, 0.0, 1.0, -2.0, 1.0])
    before, after = np.array([2, 2, 1, 1, 2]), np.array([2, 1, 1, 0, 2])
    shape = jax.jit(HanabiShaping.score_reward, static_argnums=0)

    def trained_on(keep: bool, cost: float, fraction: float) -> list[float]:
        shaping = HanabiShaping(keep_points=keep, life_cost=cost)
        got = shape(shaping, reward, before, after, np.float32(fraction))
        return list(np.asarray(got))

    assert trained_on(False, 0.0, 0.0) == [1, 0, 1, -2, 1]
    assert trained_on(True, 0.0, 0.0) == [1, 0, 1, 0, 1]
    assert trained_on(True, 0.5, 0.0) == [1, -0.5, 1, -0.5, 1]
    assert trained_on(False, 0.5, 0.0) == [1, -0.5, 1, -2.5, 1]
    assert trained_on(True, 0.5, 0.5) == [1, -0.25, 1, -1.25, 1]
    assert trained_on(True, 0.5, 1.0) == [1, 0, 1, -2, 1]


def test_kept_points_and_life_cost_apply_alone(small: Any) -> None:
    rollout = small_rollout(make_ppo(), small)
    reward, lives = rollout.transition.reward, rollout.transition.lives.astype(int)
    lost = rollout.state.life_tokens.astype(int) - lives
    bombed = (lost > 0) & (lives == 0)
    assert (lost > 0).sum() > bombed.sum() > 0 > reward[bombed].min()
    for shaping, expected in (
        (HanabiShaping(keep_points=True), np.where(bombed, 0.0, reward)),
        (HanabiShaping(life_cost=0.5), reward - 0.5 * lost),
    ):
        paid = make_ppo(shaping=shaping).reward(rollout, jnp.float32(0))
        np.testing.assert_allclose(paid, expected, atol=1e-6)


def test_longer_resumed_run_keeps_reward_schedule(small: Any) -> None:
    """Resumed with more steps, it has reached the true score where it first ended."""
    shaping = HanabiShaping(keep_points=True, life_cost=1.0)
    ppo = make_ppo(shaping=shaping)
    rollout, config = small_rollout(ppo, small), ppo.config
    end = jnp.float32(config.total_steps)
    longer = make_ppo(shaping=shaping, total_steps=2 * config.total_steps)
    half = longer.reward(rollout, end) - rollout.transition.reward
    assert jnp.abs(half).max() > 0.4
    fraction_kept = dataclasses.replace(longer, schedule_updates=config.num_updates)
    np.testing.assert_allclose(fraction_kept.reward(rollout, end), rollout.transition.reward)


def test_training_reward_ends_on_true_score() -> None:
    def fractions(until: float, start: float) -> list[float]:
        return [
            float(true_score_weight(jnp.float32(x), until, start)) for x in (0, 0.25, 0.5, 0.75, 1)
        ]

    assert fractions(0.0, 1.0) == [0, 0.25, 0.5, 0.75, 1]
    assert fractions(0.25, 0.75) == [0, 0, 0.5, 1, 1]
    assert fractions(0.5, 0.5) == [0, 0, 1, 1, 1]
    assert fractions(0.0, 0.0) == [1, 1, 1, 1, 1]
    assert fractions(1.0, 1.0) == [0, 0, 0, 0, 1]
