"""Rollout collection: stored data, and carries that follow the games between rollouts."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_network

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.hanabi.dynamics import Rules, current_player, legal_actions
from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.learning.encoding import observe_rows
from hanabi_rl.learning.observation_views import ObservationView
from hanabi_rl.learning.rollout import Collector, Rollout, RunnerState, TrainContext
from hanabi_rl.nn.networks import Actor, ActorCritic, NetworkConfig, init_params

ENV = HanabiEnv(
    num_players=3, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2
)
RULES = ENV.rules
NETWORK = NetworkConfig(embedding=(12,), lstm=(8, 8), decoder=(12,), critic=(12,), dropout=0.5)
MODULE = ActorCritic(NETWORK, RULES.num_actions)
NUM_ENVS, STEPS, PLAYERS = 5, 15, RULES.num_players


def apply(params: Any, *inputs: Any) -> Any:
    return MODULE.apply({"params": params}, *inputs)


COLLECTOR = Collector(ENV, ObservationView(RULES), apply, lambda rows: NETWORK.initial_carry(rows))


class Collected(NamedTuple):
    """Two consecutive rollouts; the second starts in the middle of games."""

    params: Any
    reference: NetworkPolicy
    actors: list[RunnerState]  # before the first, between, and after the second
    rollouts: list[Rollout]
    last_values: list[jax.Array]


@pytest.fixture(scope="module")
def collected() -> Collected:
    # strong weights, so that a wrong carry shows in all outputs
    params, own = (
        jax.tree.map(
            lambda x: 3 * x,
            init_network(module, jax.random.key(seed), NETWORK, RULES.obs_shape, RULES.num_actions),
        )
        for seed, module in enumerate((MODULE, Actor(NETWORK, RULES.num_actions)))
    )
    reference = NetworkPolicy(params=own, rules=RULES, network=NETWORK)
    begin = jax.jit(lambda key: COLLECTOR.init(key, NUM_ENVS, TrainContext(reference=reference)))

    @jax.jit
    def collect_once(
        params: Any, reference: NetworkPolicy, actors: RunnerState, key: jax.Array
    ) -> Any:
        return COLLECTOR.collect(params, actors, TrainContext(reference=reference), key, STEPS)

    first = begin(jax.random.key(0))
    second, rollout_1, last_1 = collect_once(params, reference, first, jax.random.key(1))
    third, rollout_2, last_2 = collect_once(params, reference, second, jax.random.key(2))
    return Collected(
        params, reference, [first, second, third], [rollout_1, rollout_2], [last_1, last_2]
    )


def whole(collected: Collected) -> Rollout:
    """Both rollouts as one, as NumPy arrays [2 * STEPS, ...]."""
    return jax.tree.map(lambda *parts: np.concatenate(parts), *collected.rollouts)


@functools.cache
def _see() -> Any:
    return jax.jit(lambda state: (observe(RULES, state), legal_actions(RULES, state)))


def seen(state: Any) -> tuple[np.ndarray, np.ndarray]:
    """obs [T, N, P, O] and legal [T, N, P, A] of all seats, by the environment's functions."""
    steps = state.turn.shape[0]
    flat = jax.tree.map(lambda x: x.reshape(steps * NUM_ENVS, *x.shape[2:]), state)
    obs, legal = _see()(flat)
    return obs.reshape(steps, NUM_ENVS, PLAYERS, -1), legal.reshape(steps, NUM_ENVS, PLAYERS, -1)


def test_encode_equals_environment_observation(collected: Collected) -> None:
    state = whole(collected).state
    obs, legal = seen(state)
    one_seat = jax.jit(lambda state, seat: observe_rows(RULES, state, seat))
    for first in range(PLAYERS):
        seat = (first + np.arange(NUM_ENVS)) % PLAYERS
        own_obs, own_legal = one_seat(state, jnp.asarray(seat))
        np.testing.assert_array_equal(own_obs, obs[:, np.arange(NUM_ENVS), seat])
        np.testing.assert_array_equal(own_legal, legal[:, np.arange(NUM_ENVS), seat])


def test_current_players_act_legally(collected: Collected) -> None:
    rollout = whole(collected)
    _, legal = seen(rollout.state)
    moving = np.asarray(current_player(rollout.state))[..., None] == np.arange(PLAYERS)
    np.testing.assert_array_equal(rollout.action[~moving], RULES.noop)
    np.testing.assert_array_equal(rollout.log_prob[~moving], 0)
    assert (rollout.action[moving] != RULES.noop).all() and (rollout.log_prob[moving] < 0).any()
    assert np.take_along_axis(legal, rollout.action[..., None], -1).all()


def test_rollout_stores_games_without_decks(collected: Collected) -> None:
    for rollout in collected.rollouts:
        assert rollout.state.deck.size == 0 and rollout.state.turn.shape == (STEPS, NUM_ENVS)
    assert collected.actors[1].env.game.deck.size > 0


def test_game_starts_after_previous_end(collected: Collected) -> None:
    rollout = whole(collected)
    done = rollout.transition.done
    assert done[:STEPS].any() and done[STEPS:].any() and not rollout.reset[STEPS].all()
    np.testing.assert_array_equal(rollout.reset[0], True)
    np.testing.assert_array_equal(rollout.reset[1:], done[:-1])
    np.testing.assert_array_equal(collected.actors[2].reset, done[-1])
    np.testing.assert_array_equal(rollout.state.turn == 0, rollout.reset)
    going_on = ~done[:-1]
    np.testing.assert_array_equal(
        rollout.state.turn[1:][going_on], rollout.state.turn[:-1][going_on] + 1
    )


def unrolled(module: Any, params: Any, rollout: Rollout) -> Any:
    """The network over the whole recorded history from the zero carry: outputs after the carry,
    each [T, N, P, ...]."""
    obs, legal = seen(rollout.state)
    rows = NUM_ENVS * PLAYERS
    reset = np.repeat(rollout.reset, PLAYERS, axis=1)
    carry = NETWORK.initial_carry(rows)
    _, *outputs = jax.jit(module.apply)(
        {"params": params},
        carry,
        obs.reshape(len(obs), rows, -1),
        legal.reshape(len(obs), rows, -1),
        reset,
    )
    return [np.asarray(x).reshape(len(obs), NUM_ENVS, PLAYERS, *x.shape[2:]) for x in outputs]


def test_learner_carry_follows_games(collected: Collected) -> None:
    rollout = whole(collected)
    logits, value = unrolled(MODULE, collected.params, rollout)
    log_prob = np.asarray(jax.nn.log_softmax(logits))
    taken = np.take_along_axis(log_prob, rollout.action[..., None], -1)[..., 0]
    np.testing.assert_allclose(rollout.log_prob, taken, atol=2e-4)
    np.testing.assert_allclose(rollout.value, value, atol=2e-4)
    # the value after a rollout is that of the next rollout's first state
    np.testing.assert_allclose(collected.last_values[0], value[STEPS], atol=2e-4)


def test_reference_has_own_carry(collected: Collected) -> None:
    """Known fault of published trainers: the clone's logits are computed from the learner's carry,
    or from a stale one."""
    rollout = whole(collected)
    (logits,) = unrolled(Actor(NETWORK, RULES.num_actions), collected.reference.params, rollout)
    np.testing.assert_allclose(rollout.reference_logits, logits, rtol=1e-4, atol=1e-3)
    for own, learners in zip(
        jax.tree.leaves(collected.actors[1].reference_carry),
        jax.tree.leaves(collected.actors[1].carry),
        strict=True,
    ):
        assert own.shape == learners.shape and np.abs(np.asarray(own - learners)).max() > 0.1


def test_rollout_is_smaller_than_observations() -> None:
    env, network = HanabiEnv(), NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,))
    rules: Rules = env.rules
    module = ActorCritic(network, rules.num_actions)

    def shapes(key: jax.Array) -> Rollout:
        params = init_params(module, key, network, rules.obs_shape, rules.num_actions)
        reference = NetworkPolicy(params=params["actor"], rules=rules, network=network)
        forward = lambda params, *inputs: module.apply({"params": params}, *inputs)  # noqa: E731
        carry = lambda rows: network.initial_carry(rows)  # noqa: E731
        collector, context = (
            Collector(env, ObservationView(rules), forward, carry),
            TrainContext(reference),
        )
        actors = collector.init(key, 1024, context)
        return collector.collect(params, actors, context, key, 128)[1]

    rollout = jax.eval_shape(shapes, jax.random.key(0))  # traced only
    stored = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(rollout))
    assert rollout.reference_logits.shape == (128, 1024, 2, 21)
    assert stored <= 128 * 1024 * 2 * 658 * 4 / 8
