"""Dense layers on `sufficient_entries` against the same layers on whole observations."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params, learner_params
from support.overcooked import actions_with_soups
from support.plain_overcooked import PlainOvercooked

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.overcooked import KITCHENS, Overcooked, load_kitchen
from hanabi_rl.games.overcooked.entries import fold_kernel, sufficient_entries
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.game_view import GameView
from hanabi_rl.learning.observation_views import unflatten_rows
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import TrainContext
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import NetworkConfig

SMALL = NetworkConfig((8,), (), (), (), activation="tanh", layer_norm=False, dropout=0.0)
NETWORKS = {
    "embedding": SMALL,
    "two networks": dataclasses.replace(SMALL, embedding=(), decoder=(8,), critic=(8,)),
    "linear": dataclasses.replace(SMALL, embedding=()),
    "lstm": dataclasses.replace(SMALL, lstm=(8,)),
    "kitchen": KitchenConfig(embedding=(8,)),
}


@pytest.mark.parametrize("name", KITCHENS)
def test_a_folded_kernel_gives_the_same_outputs(name: str) -> None:
    kitchen, rng = load_kitchen(name), np.random.default_rng(0)
    games = [PlainOvercooked(kitchen.rows, kitchen.start(None), 100) for _ in range(2)]
    actions = actions_with_soups(games, 99, seed=3)
    grids = []
    for t in range(99):
        for g, game in enumerate(games):
            game.step(actions[t, g])
            last = np.broadcast_to(
                np.eye(6)[actions[t, g]][:, None, None], (2, kitchen.height, kitchen.width, 6)
            )
            grids.append(np.concatenate([game.observation(), last], axis=-1))
    for channels in (26, 32):
        obs = np.concatenate(grids)[..., :channels]
        obs = obs.reshape(len(obs), -1)
        entries = sufficient_entries(kitchen, channels)
        floor, counters, pots = kitchen.floor, kitchen.counters, kitchen.pots
        expected = 11 * len(floor) + 3 * len(counters) + 4 * len(pots) + channels - 25
        assert entries.shape == (expected,) == np.unique(entries).shape
        kernel = rng.normal(size=(obs.shape[1], 3)).astype(np.float32)
        fold = jax.jit(functools.partial(fold_kernel, kitchen))
        folded, bias = jax.device_get(fold(kernel))
        np.testing.assert_allclose(obs[:, entries] @ folded + bias, obs @ kernel, atol=2e-4)


class Whole(GameView):
    """`GameView` whose networks read whole observations."""

    folded_layers = ()  # type: ignore[assignment]
    is_reduced = False  # type: ignore[assignment]


def make_ppo(network: Any, view: type[GameView] = GameView) -> PPO:
    config = PPOConfig(
        game=Overcooked(horizon=30, last_action=True),
        num_envs=8,
        num_steps=16,
        total_steps=8 * 16 * 10,
        num_minibatches=2,
        num_shuffle_blocks=1,
        precision="float32",
    )
    return PPO(config, network, make_view=lambda rules: view(rules, network))


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_and_gradients_are_those_on_whole_observations(name: str) -> None:
    network, found = NETWORKS[name], []
    params = learner_params(make_ppo(network), jax.random.key(0))
    params = jax.tree.map(lambda x: 3 * x, params)
    game, rng, keys = make_ppo(network).config.game, np.random.default_rng(0), np.zeros((64, 2))
    state, step = jax.jit(game.start)(keys.astype(np.uint32)), jax.jit(game.step)
    for _ in range(25):
        state = step(state, rng.integers(6, size=(64, 2)), keys)[0]
    for view in (GameView, Whole):
        ppo = make_ppo(network, view)
        assert ppo.view.is_reduced == (view is GameView)

        @jax.jit
        def outputs(params: Any, ppo: PPO = ppo) -> Any:
            seen = ppo.view.encode_step(None, state, jnp.ones(64, bool), None)[1]

            def loss(params: Any) -> Any:
                carry = unflatten_rows(network.initial_carry(128), 64)
                _, logits, value = ppo.collector.evaluate(params, carry, seen)
                return jnp.sum(jnp.sin(logits)) + jnp.sum(value**2), (logits, value)

            return jax.value_and_grad(loss, has_aux=True)(params)

        found.append(jax.device_get(outputs(params)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3), *found)


def test_an_update_starts_with_ratio_one() -> None:
    """The minibatches have the inputs of the decisions that were taken."""
    ppo = make_ppo(SMALL)
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner = learner.replace(params=jax.tree.map(lambda x: 3 * x, learner.params))
    state = parallel.replicate(learner), parallel.shard(actors)
    metrics = ppo.compile_update()(*state, TrainContext())[2]
    assert float(metrics["first_max_log_ratio"]) < 1e-4 < float(metrics["approx_kl"])


def test_policies_read_whole_observations() -> None:
    ppo = make_ppo(SMALL)

    @jax.jit
    def run(key: jax.Array) -> Any:
        learner, _ = ppo.init(key)
        params = jax.tree.map(lambda x: 3 * x, learner.params)
        policy = NetworkPolicy(params["actor"], ppo.config.game, SMALL, precision="float32")
        context = TrainContext(reference=policy)
        actors = ppo.collector.init(key, 8, context)
        rollout = ppo.collector.collect(params, actors, context, key, 16)[1]
        expected = jax.nn.log_softmax(rollout.reference_logits)
        return jnp.take_along_axis(expected, rollout.action[..., None], -1)[..., 0], rollout

    expected, rollout = jax.device_get(run(jax.random.key(1)))
    assert rollout.inputs.dtype == np.uint8 and expected.std() > 0.1
    np.testing.assert_allclose(rollout.log_prob, expected, atol=1e-5)
