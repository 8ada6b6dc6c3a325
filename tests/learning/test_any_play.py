"""Any-Play: roles, intrinsic reward, prediction loss, and styles that are learned."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params, ask
from support.conventions import RepeatedConventions
from support.four_devices import assert_four_devices_equal, state_of
from support.games import TINY, TINY_3P

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.any_play import ALGORITHM, AnyPlayConfig
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning import parallel
from hanabi_rl.learning.any_play import AnyPlayPPO, prediction_objective
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

SMALL: Any = {"embedding": (16,), "decoder": (16,), "critic": (16,), "layer_norm": False}
FEED_FORWARD = NetworkConfig(lstm=(), activation="relu", **SMALL)
LSTM = NetworkConfig(lstm=(8,), **SMALL)


def make_ppo(**changes: Any) -> AnyPlayPPO:
    fields: dict[str, Any] = {
        "game": RepeatedConventions(),
        "network": FEED_FORWARD,
        "num_envs": 36,
        "num_steps": 8,
        "total_steps": 36 * 8 * 80,
        "num_minibatches": 3,
        "num_shuffle_blocks": 4,
        "epochs": 4,
        "lr": 1e-2,
        "clip_value": False,
        "precision": "float32",
        "styles": 3,
        "alpha": 1.0,
        "entropy_coef": 0.1,
        "final_entropy_coef": 0.0,
        "prediction_weight": 1.0,
    }
    ppo = ALGORITHM.training(AnyPlayConfig(**(fields | changes)), None).ppo
    assert isinstance(ppo, AnyPlayPPO)
    return ppo


def test_roles_are_balanced() -> None:
    """12 environments of 3 players, 2 styles: every seat has every style twice."""
    ppo = make_ppo(game=TINY_3P, num_envs=12, num_minibatches=1, styles=2)
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    role = actors.carry[1]
    assert (np.asarray(role.specializer).sum(axis=1) == 1).all()
    found = [
        (int(seat), int(style))
        for seat, style in zip(
            np.argmax(role.specializer, axis=1), np.argmax(role.style[:, 0], axis=1), strict=True
        )
    ]
    assert sorted(found) == sorted([(seat, style) for seat in range(3) for style in range(2)] * 2)
    assert set(learner.params) == {"actor", "critic", "style", "prediction"}


def test_intrinsic_reward_and_policies_equal_numpy() -> None:
    """Bonus: log K + log q(z) of the accommodator's network, which does not read the style."""
    ppo = make_ppo()
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(1))

    @jax.jit
    def played(learner: Any, actors: Any) -> Any:
        _, rollout, _ = ppo.collector.collect(
            learner.params, actors, EMPTY_CONTEXT, jax.random.key(2), 6
        )
        at = jnp.zeros(())
        added = ppo.reward(rollout, at) - PPO.reward(ppo, rollout, at)
        return rollout, ppo.bonus_of(rollout), added

    rollout, bonus, added = jax.device_get(played(learner, actors))
    params = jax.device_get(learner.params)
    actor, predict = params["actor"], params["prediction"]

    def log_softmax(x: np.ndarray) -> np.ndarray:
        return x - np.log(np.exp(x).sum())

    for t, n, r in np.ndindex(6, 36, 2):
        style, specializes = n % 3, r == n // 3 % 2
        other = rollout.state.action[t, n, 1 - r]
        layer = actor["embedding_0"]
        x = layer["bias"] + (layer["kernel"][other] if other >= 0 else 0)
        x = np.maximum(x + (params["style"][style] if specializes else 0), 0)
        hidden = np.maximum(x @ actor["decoder_0"]["kernel"] + actor["decoder_0"]["bias"], 0)
        logits = hidden @ actor["logits"]["kernel"] + actor["logits"]["bias"]
        log_prob = log_softmax(logits)[rollout.action[t, n, r]]
        assert rollout.log_prob[t, n, r] == pytest.approx(log_prob, abs=1e-5)
        if not specializes:
            predicted = log_softmax(x @ predict["kernel"] + predict["bias"])[style]
            assert bonus[t, n] == pytest.approx(np.log(3) + predicted, abs=1e-5)
    np.testing.assert_allclose(added, bonus.reshape(bonus.shape + added.shape[2:]), atol=1e-6)

    # the saved actor is the accommodator
    policy = NetworkPolicy(params=actor, rules=ppo.env.rules, network=FEED_FORWARD)
    n = np.flatnonzero(np.arange(36) // 3 % 2 == 1)  # player 0 is the accommodator
    other = rollout.state.action[1, n, 1]
    legal, reset = np.ones((len(n), 3), bool), np.zeros(len(n), bool)
    _, logits = ask(policy, policy.init_carry(len(n)), np.eye(3)[other], legal, reset)
    found = np.asarray(jax.nn.log_softmax(logits))[np.arange(len(n)), rollout.action[1, n, 0]]
    np.testing.assert_allclose(found, rollout.log_prob[1, n, 0], atol=1e-5)


def test_prediction_loss_and_bonus_are_means_over_accommodators() -> None:
    """3 players: of 6 rows the first and the fourth are specializers', at 0."""
    predicted = jnp.array([[0.0, -1, -2, 0, -3, -6]])
    batch: Any = SimpleNamespace(value_weight=jnp.full((1, 6), 1 / 6))
    objective = prediction_objective(0.5, 3)
    total, metrics = objective(jnp.float32(10), jnp.zeros(()), batch, predicted)
    assert float(metrics["style_loss"]) == pytest.approx(3.0)
    assert float(total) == pytest.approx(11.5)
    rollout: Any = SimpleNamespace(extra=predicted.reshape(1, 2, 3))
    bonus = make_ppo(game=TINY_3P, styles=2).bonus_of(rollout)
    np.testing.assert_allclose(bonus, [[np.log(2) - 1.5, np.log(2) - 4.5]], rtol=1e-6)


def trained(ppo: AnyPlayPPO, updates: int) -> tuple[Any, Any, dict[str, Any]]:
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    for _ in range(updates):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
    return learner, actors, jax.device_get(metrics)


def test_update_in_overcooked_traces() -> None:
    """Networks read a part of the observations there; styles are parameters outside its halves."""
    ppo: Any = ALGORITHM.training(preset_config("any_play", "overcooked"), None).ppo
    learner, actors = jax.eval_shape(ppo.init, jax.random.key(0))
    actors = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype), actors)
    update = jax.vmap(ppo.update, (None, 0, None), axis_name=parallel.AXIS)
    after, *_ = jax.eval_shape(update, learner, actors, EMPTY_CONTEXT)
    assert after.params["style"].shape == (1, *learner.params["style"].shape)


def specialized(ppo: AnyPlayPPO, params: Any) -> list[int]:
    """First action of the specializer in each style."""
    role = ppo.initial_carry(3)[1].replace(style=jnp.eye(3), specializer=jnp.ones(3))
    reads = jnp.zeros((1, 3, 3)), jnp.ones((1, 3, 3), bool), jnp.ones((1, 3), bool)
    return np.argmax(jax.jit(ppo.apply)(params, ((), role), *reads)[1][0], axis=-1).tolist()


def test_styles_become_conventions_that_accommodators_follow() -> None:
    """Each style has its own action (as in 4 of 5 seeds; in the other two share one), which the
    accommodator repeats. Best score with three: (1/3 + 3) / 4 = 0.83."""
    ppo = make_ppo()
    learner, _, metrics = trained(ppo, 80)
    params = parallel.fetch(learner.params)
    assert sorted(specialized(ppo, params)) == [0, 1, 2]
    policy = NetworkPolicy(params=params["actor"], rules=ppo.env.rules, network=FEED_FORWARD)
    _, logits = ask(policy, (), np.eye(3), np.ones((3, 3), bool), np.zeros(3, bool))
    assert np.argmax(logits, axis=-1).tolist() == [0, 1, 2]
    assert 0.7 < metrics["train_score"] < 0.9
    # after the first of four steps the style is known: 3/4 ln 3
    assert metrics["diversity_bonus"] == pytest.approx(0.75 * np.log(3), abs=0.15)
    assert metrics["style_loss"] == pytest.approx(0.25 * np.log(3), abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_styles_share_a_convention_without_the_reward(alpha: float) -> None:
    ppo = dataclasses.replace(make_ppo(), alpha=alpha)
    learner, _, metrics = trained(ppo, 80)
    assert len(set(specialized(ppo, parallel.fetch(learner.params)))) == 1
    assert metrics["train_score"] > 0.95


def test_impossible_settings() -> None:
    with pytest.raises(ValueError, match=r"num_envs: expected at least 38 \(styles \* num_players"):
        make_ppo(styles=19)
    with pytest.raises(ValueError, match="--network: expected an embedding of observations"):
        make_ppo(game=TINY, network=StructuredConfig())
    with pytest.raises(ValueError, match="Any-Play: expected the network computed for every pl"):
        make_ppo(game=TINY, current_player_only=True)


def state_after_updates() -> dict[str, np.ndarray]:
    changes = {"num_envs": 24, "num_minibatches": 2, "styles": 2, "lr": 1e-3}
    learner, actors, _ = trained(make_ppo(game=TINY, network=LSTM, **changes), 3)
    return state_of(learner, actors)


@pytest.mark.slow
def test_four_devices_equal_one(tmp_path: Any) -> None:
    assert_four_devices_equal(state_after_updates(), "learning.test_any_play", tmp_path)
