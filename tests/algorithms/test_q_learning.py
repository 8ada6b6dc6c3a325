"""IQL, VDN and SAD: the learner of each, whole runs, exact resume, policies, devices."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import deal, learner_params, legal_actions, observe
from support.four_devices import assert_four_devices_equal, learned_state
from support.games import TINY, random_games
from support.runs import read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms import iql, sad, vdn
from hanabi_rl.algorithms.q_learning import TEMPERATURE, QRunConfig
from hanabi_rl.algorithms.registry import run
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.learning import parallel
from hanabi_rl.learning.q_learning import QLearner
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.learning.sad import SADLearner
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.session import RunStopped

LSTM = NetworkConfig(embedding=(16,), lstm=(8,), decoder=(16,), critic=(16,))
FIELDS: dict[str, Any] = {
    "num_envs": 16,
    "num_steps": 5,
    "total_steps": 16 * 5 * 6,
    "num_shuffle_blocks": 4,
    "burn_in": 3,
    "batch_size": 8,
    "gradient_steps": 2,
    "target_every": 2,
    "replay_size": 16 * 5 * 4,
    "warmup_steps": 200,
    "eval_every": 6,
    "eval_games": 64,
    "save_every": 1,
    "report_games": 64,
    "tensorboard": False,
    "game": TINY,
    "network": LSTM,
}


def test_learner_of_each_algorithm() -> None:
    config = QRunConfig()
    for algorithm, cls, mixing in (
        (iql.ALGORITHM, QLearner, "independent"),
        (vdn.ALGORITHM, QLearner, "sum"),
        (sad.ALGORITHM, SADLearner, "sum"),
    ):
        learner: Any = algorithm.training(config, None).ppo
        assert type(learner) is cls and learner.mixing == mixing


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vdn", "sad"])
def test_run_resumes_exactly_with_its_replay_memory(
    name: str, interrupt_at: Any, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    summary = run(name, QRunConfig(**FIELDS, run_dir=str(whole)))
    assert summary["env_steps"] == 480 and len(read_lines(whole)) == 7
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 4 * 16 * 5)
    with pytest.raises(RunStopped):
        run(name, QRunConfig(**FIELDS, run_dir=str(parts)))
    run(name, QRunConfig(**FIELDS, run_dir=str(parts), resume=True))
    state = read_state(parts, 6)
    assert state == read_state(whole, 6)
    assert any("replay" in name for name in map(str, state["leaves"]))

    policy: Any = load_policy(str(whole))
    assert policy.info.algorithm == name and policy.network == LSTM
    played = evaluate_pair(policy, load_policy("bot:simple", TINY), 64, 0).summary
    assert np.isfinite(played.mean.mean)


@pytest.mark.slow
def test_saved_logits_are_the_advantages_at_a_low_temperature() -> None:
    learner = QLearner(QRunConfig(**FIELDS), LSTM, mixing="sum")
    params = learner_params(learner, jax.random.key(0))
    policy = NetworkPolicy(params=params["actor"], rules=TINY, network=LSTM)
    setup = vdn.ALGORITHM.training(QRunConfig(**FIELDS), None)
    assert setup.temperature is not None
    saved = policy.at_temperature(setup.temperature(policy, QRunConfig(**FIELDS)))
    game = deal(TINY, random_games(TINY, 64).decks)
    obs, legal = np.asarray(observe(TINY, game))[:, 0], np.asarray(legal_actions(TINY, game))[:, 0]
    reset, carry = np.ones(64, bool), policy.init_carry(64)
    (_, cool), (_, warm) = (of.step(carry, obs, legal, reset) for of in (saved, policy))
    _, q = jax.jit(learner.q_values)(params, carry, obs[None], legal[None], reset[None])
    np.testing.assert_array_equal(np.argmax(cool, axis=-1), np.argmax(q[0], axis=-1))
    np.testing.assert_allclose(
        np.where(legal, cool * TEMPERATURE, 0), np.where(legal, warm, 0), atol=1e-5
    )


def state_after_updates() -> dict[str, np.ndarray]:
    learner = QLearner(QRunConfig(**FIELDS), LSTM, mixing="sum")
    state, actors = jax.jit(learner.init)(jax.random.key(0))
    state, actors = parallel.replicate(state), parallel.shard(actors)
    update = learner.compile_update()
    for _ in range(6):
        state, actors, _ = update(state, actors, EMPTY_CONTEXT)
    whole = jax.device_get(parallel.unshard(actors))
    params = parallel.fetch((state.params, state.target_params))
    priority = np.asarray(whole.replay.sum_tree_state.nodes)
    return learned_state(params, whole.runner.env.game) | {"priority": priority}


@pytest.mark.slow
def test_four_devices_equal_one(tmp_path: Path) -> None:
    assert_four_devices_equal(state_after_updates(), "algorithms.test_q_learning", tmp_path)
