"""Lowering for accelerators on a machine without one."""

from typing import Any

import jax
import pytest

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.hdr_ippo import hdr_objective
from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import TrainContext
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

RULES = Rules(num_players=2, num_colors=2, num_ranks=2, hand_size=2)
NETWORK = NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,))


@jax.jit
def policy(key: jax.Array) -> NetworkPolicy:
    module = Actor(NETWORK, RULES.num_actions)
    params = init_params(module, key, NETWORK, RULES.obs_shape, RULES.num_actions)
    return NetworkPolicy(params=params, rules=RULES, network=NETWORK)


def environment_step(key: jax.Array) -> Any:
    env = HanabiEnv()
    state = env.reset(key, 8)
    return env.step(state, jax.numpy.zeros(8, jax.numpy.int32)), env.observe(state)


def update(key: jax.Array) -> Any:
    """An HDR-IPPO update in mixed precision on one device's part of the batch."""
    config = PPOConfig(
        game=RULES, num_envs=16, num_steps=4, total_steps=128, precision="bfloat16", epochs=1
    )
    ppo = PPO(config, NETWORK, objective=hdr_objective(0.25))
    clone = policy(key)
    calls = TrainContext(reference=clone)
    learner, actors = ppo.init(key, calls, clone.params)
    whole = jax.tree.map(lambda x: x[None], actors)
    return jax.vmap(lambda actors: ppo.update(learner, actors, calls), axis_name=parallel.AXIS)(
        whole
    )


def assert_lowers(traced: Any) -> None:
    for platform in ("cuda", "tpu"):
        lowered = traced.lower(lowering_platforms=(platform,))
        assert "func.func public @main" in lowered.as_text(), platform


@pytest.mark.parametrize("program", [environment_step, update])
def test_training_lowers(program: Any) -> None:
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    assert_lowers(jax.jit(program).trace(key))


@pytest.mark.parametrize("program", ["_step", "_play_turn"])
def test_matrix_cell_lowers(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled parts of a cell with the arguments of `play_games`."""
    from hanabi_rl.play import episodes

    calls: list[Any] = []

    class AskedError(Exception):
        pass

    compiled = getattr(episodes, program)

    def record(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        raise AskedError

    monkeypatch.setattr(compiled, "program", record)
    pair = policy(jax.random.key(0)), policy(jax.random.key(1))
    with pytest.raises(AskedError):
        play_games(pair, RULES, evaluation_decks(RULES, 8, 0))
    args, options = calls[0]
    assert_lowers(compiled.jitted.trace(*args, **options))
