"""Temperature wrapper."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.hanabi import HanabiEnv


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("agent") / "small.safetensors"
    write_file(path, network_policy(TINY, 3), {})
    return str(path)


def probabilities(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of first moves, and the legal ones: [N, A]."""
    env, policy = HanabiEnv(**dataclasses.asdict(TINY)), load_policy(name)
    state, games = env.reset(jax.random.key(0), 8), 8
    legal = env.legal_actions(state)[:, 0]
    reset = jnp.ones(games, bool)
    _, logits = policy.step(policy.init_carry(games), env.observe(state)[:, 0], legal, reset)
    return np.asarray(jax.nn.softmax(logits)), np.asarray(legal)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_temperature_scales_logits(agent: str, temperature: float) -> None:
    (plain, legal), (got, _) = (
        probabilities(agent),
        probabilities(f"{agent}?temperature={temperature}"),
    )
    power = np.where(legal, plain.astype(np.float64) ** (1 / temperature), 0.0)
    np.testing.assert_allclose(got, power / power.sum(axis=1, keepdims=True), atol=1e-6)
    assert np.abs(got - plain).max() > 1e-3


def test_temperature_keeps_greedy_play(agent: str) -> None:
    plain, warm = load_policy(agent), load_policy(f"{agent}?temperature=1.7")
    played = [evaluate_selfplay(policy, 50, seed=1).records.actions for policy in (plain, warm)]
    np.testing.assert_array_equal(*played)
    assert (
        len({policy.identity() for policy in (plain, warm, load_policy(f"{agent}?temperature=2"))})
        == 3
    )


@pytest.mark.parametrize("value", ["0", "-1", "1e-320", "1e-12", "1e300", "inf", "nan"])
def test_temperature_range_keeps_logits_finite(agent: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"temperature: expected a number from 0\.000001 to"):
        load_policy(f"{agent}?temperature={value}")
