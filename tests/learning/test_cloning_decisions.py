"""Cloning of single decisions: all moves of cloned seats are examples, and a teacher is learned."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.compiled import init_params
from support.games import TINY_3P, random_games, teacher_games

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.preloaded_profile import PreloadedProfile, profile_counts
from hanabi_rl.agents.structured import profile
from hanabi_rl.agents.structured.features import sizes
from hanabi_rl.agents.structured.packed_features import unpack_columns
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.games.hanabi.dynamics import State, legal_actions
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCState, BCTrainConfig
from hanabi_rl.learning.cloning_decisions import DecisionDataset, decision_dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.nn.structured_network import StructuredConfig

RULES = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4)
NETWORK = StructuredConfig(trunk=(64, 32), head=32, dropout=0.0)
CONFIG = BCTrainConfig(
    network=NETWORK, batch_size=64, epochs=12, lr=2e-3, final_lr=4e-5, weight_decay=0.05
)


@functools.cache
def taught() -> Games:
    """Shared by all tests: replay and encoding are two programs."""
    return teacher_games(RULES, 70, seed=1)


def test_cloned_seats_moves_are_decisions() -> None:
    games = taught()
    decisions = decision_dataset(games, NETWORK)
    moves = sorted(move for game in range(70) for move in games.moves(game).tolist())
    assert sorted(np.asarray(decisions.action).tolist()) == moves
    assert np.asarray(decisions.legal)[np.arange(len(moves)), np.asarray(decisions.action)].all()

    first_seat_only = np.broadcast_to([True, False], (70, 2))
    half = decision_dataset(dataclasses.replace(games, human_seats=first_seat_only), NETWORK)
    moves = sorted(move for game in range(70) for move in games.moves(game)[::2].tolist())
    assert sorted(np.asarray(half.action).tolist()) == moves


@pytest.mark.slow  # agents/test_profile.py tests all seats' counts of recorded games
def test_cloning_profile_matches_play() -> None:
    """In two games of the same three players, rotated by one seat: equal bit for bit to each
    player's policy stepped on its observations of all turns."""
    network = StructuredConfig(trunk=(8,), head=8, card=(8,), profile=True)
    order = np.array([[0, 1, 2], [2, 0, 1]], np.int32)
    games = dataclasses.replace(random_games(TINY_3P, 2, seed=7), players=order)
    examples = decision_dataset(games, network, series=2)
    profiles = np.asarray(examples.view.table)
    width = sizes(TINY_3P, "facts", True).table.shape[1] - sizes(TINY_3P, "facts").table.shape[1]
    policy = NetworkPolicy(init_params(TINY_3P, network, jax.random.key(0)), TINY_3P, network)

    @jax.jit
    def step(carry: Any, state: State, seats: jax.Array, new: jax.Array) -> Any:
        obs, legal = observe(TINY_3P, state)[0, seats], legal_actions(TINY_3P, state)[0, seats]
        carry, _ = policy.step(carry, obs, legal, jnp.broadcast_to(new, 3))
        return carry, unpack_columns(profile.features(carry.profile), (0,)).astype(jnp.float16)

    played = jax.device_get(replay(TINY_3P, games.decks, games.actions).state)
    carry, known, turns = policy.init_carry(3), {}, 0
    for game in range(2):
        seats = np.argsort(order[game])  # of each player
        if game:
            carry = jax.jit(policy.next_game)(carry, np.ones(3, bool))
        for turn in range(games.num_actions[game]):
            state = jax.tree.map(lambda x, t=turn, g=game: x[t, g : g + 1], played)
            carry, features = step(carry, state, seats, np.bool_(game + turn == 0))
            known[turn, game] = np.asarray(features)[order[game, turn % 3]]
            turns += 1
    assert len(profiles) == turns and games.num_actions.min() > 6
    for row, place in zip(profiles, sorted(known), strict=True):  # turn by turn
        np.testing.assert_array_equal(row[-width:], known[place], err_msg=str(place))
    assert known[0, 1].any() and not known[0, 0].any()


def cloned(games: Games, epochs: int, network: StructuredConfig = NETWORK) -> tuple[BC, BCState]:
    examples = decision_dataset(games, network, series=5)
    loader = BatchLoader(len(examples), CONFIG.batch_size, seed=0)
    config = dataclasses.replace(CONFIG, network=network)
    learner = BC(config, RULES, epochs * loader.batches_per_epoch)
    update, data = learner.compile_update(), parallel.replicate(examples)
    state = parallel.replicate(jax.jit(learner.init)(jax.random.key(0)))
    while loader.epoch < epochs:
        state, metrics = update(state, data, parallel.shard(loader.next_batch()))
    assert int(state.step) == learner.num_updates and float(metrics["loss"]) < 0.8
    return learner, state


@pytest.mark.slow
def test_clone_learns_simple_teacher() -> None:
    """The clone, as a policy on observations, predicts other games of the teacher; equal seeds give
    equal clones."""
    train, held_out = teacher_games(RULES, 200, seed=2), teacher_games(RULES, 50, seed=3)
    learner, state = cloned(train, CONFIG.epochs)
    assert predict(learner.policy(state), held_out).accuracy().mean > 0.85
    again = cloned(train, CONFIG.epochs)[1]
    jax.tree.map(np.testing.assert_array_equal, state.params, again.params)


@pytest.mark.slow
def test_profile_separates_two_players() -> None:
    """One player discards its oldest card, the other its newest. A clone of both with ten games of
    one player predicts other games of that player, and is worse with games of the other."""

    def played(num_games: int, seed: int, newest: bool) -> Games:
        games = teacher_games(RULES, num_games, seed, newest)
        return dataclasses.replace(games, players=np.zeros((num_games, 2), np.int32))

    both = [False, True]
    train = concatenate_games([played(150, 2, newest) for newest in both])
    learner, state = cloned(train, 8, dataclasses.replace(NETWORK, profile=True))
    policy = jax.device_get(learner.policy(state))
    known = [
        PreloadedProfile(policy, jnp.asarray(profile_counts(played(10, 4, newest))))
        for newest in both
    ]
    accuracy = np.array(
        [[predict(k, played(40, 5, newest)).accuracy().mean for newest in both] for k in known]
    )
    assert np.diag(accuracy).min() > 0.8
    assert (np.diag(accuracy) - np.diag(accuracy[::-1])).min() > 0.1, accuracy


def test_learning_rate_follows_cosine() -> None:
    learner = BC(CONFIG, RULES, 120)
    rates = jax.jit(jax.vmap(learner.learning_rate))(np.array([0, 30, 60, 120, 200]))
    fall = 2e-3 - 4e-5
    quarter = 4e-5 + fall * (1 + np.sqrt(0.5)) / 2
    np.testing.assert_allclose(rates, [2e-3, quarter, 4e-5 + fall / 2, 4e-5, 4e-5], rtol=1e-5)


def test_long_gradients_are_clipped() -> None:
    """Adam's first moment is a tenth of the clipped gradient."""
    optimizer, params = BC(CONFIG, RULES, 10).optimizer(), {"w": np.zeros(2, np.float32)}
    for gradient in ([30.0, 40.0], [0.3, 0.4]):
        state = optimizer.init(params)
        _, after = jax.jit(optimizer.update)({"w": np.array(gradient, np.float32)}, state, params)
        (moment,) = (leaf for leaf in jax.tree.leaves(optax.tree.get(after, "mu")))
        shorter = min(1.0, 1.0 / float(np.hypot(*gradient)))
        np.testing.assert_allclose(moment, 0.1 * shorter * np.array(gradient), rtol=1e-5)


logits = jax.jit(DecisionDataset.logits)


@jax.jit
def group_of(examples: DecisionDataset, batch: Any) -> Any:
    return jax.tree.map(lambda x: x[0], examples.microbatches(batch))


@pytest.mark.slow  # algorithms/test_bc.py tests the dropout of the LSTM
def test_dropout_is_independent_per_row() -> None:
    """Among copies of one decision only the dropped units differ."""
    network = dataclasses.replace(NETWORK, dropout=0.5)
    examples = decision_dataset(taught(), network)
    one = jax.tree.map(lambda x: np.asarray(x)[:1], examples)
    batch = BatchLoader(8, 8, seed=0).next_batch()
    group = group_of(jax.tree.map(lambda x: np.repeat(x, 8, axis=0), one), batch)
    params, key = init_params(RULES, network, jax.random.key(1)), jax.random.key(2)
    answers = np.asarray(logits(one, params, group, key))
    legal = one.legal[0]
    assert len({row.tobytes() for row in answers[:, legal]}) == 8
    half = jax.tree.map(lambda x: x[4:], group)
    np.testing.assert_allclose(logits(one, params, half, key), answers[4:], rtol=1e-5, atol=1e-6)
    assert np.abs(logits(one, params, group, jax.random.key(3)) - answers)[:, legal].max() > 1e-3


def test_loss_ignores_padding_rows() -> None:
    """Five decisions in minibatches of four: the second has one decision and three padding rows."""
    whole = decision_dataset(taught(), NETWORK)
    examples = jax.tree.map(lambda x: np.asarray(x)[:5], whole)
    learner, loader = BC(CONFIG, RULES, 10), BatchLoader(5, 4, seed=0)
    state = jax.jit(learner.init)(jax.random.key(1))
    update = jax.jit(jax.vmap(learner.update, in_axes=(None, None, 0), axis_name=parallel.AXIS))
    for batch, counted in zip(loader.rest_of_epoch(), (4, 1), strict=True):
        _, metrics = update(state, examples, jax.tree.map(lambda x: x[None], batch))
        group = group_of(examples, batch)
        answers = np.asarray(logits(examples, state.params, group, jax.random.key(0)), np.float64)
        action = np.asarray(examples.action)[batch.index]
        nats = np.log(np.exp(answers).sum(-1)) - answers[np.arange(4), action]
        assert metrics["decisions"].item() == counted
        np.testing.assert_allclose(metrics["loss"][0], nats[:counted].mean(), rtol=1e-5)
