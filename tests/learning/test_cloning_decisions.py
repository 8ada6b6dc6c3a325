"""Cloning single decisions: every move of the cloned seats is an example, and a simple teacher is
learnt."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.games import taught_games

from hanabi_rl.data.games import Games
from hanabi_rl.env.game import Rules
from hanabi_rl.learning.cloning import BCTraining
from hanabi_rl.learning.cloning_decisions import (
    CloningState,
    DecisionCloning,
    Decisions,
    decisions_of,
)
from hanabi_rl.measure.prediction import predict
from hanabi_rl.nn.structured import StructuredConfig

RULES = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4)
CONFIG = BCTraining(batch_size=64, epochs=12, lr=2e-3, final_lr=4e-5, weight_decay=0.05)
NETWORK = StructuredConfig(trunk=(64, 32), head=32, dropout=0.0)


def test_every_move_of_the_cloned_seats_is_a_decision() -> None:
    games = taught_games(RULES, 70, seed=1)
    decisions = decisions_of(games, "facts")
    moves = sorted(move for game in range(70) for move in games.moves(game).tolist())
    assert sorted(np.asarray(decisions.action).tolist()) == moves
    assert np.asarray(decisions.legal)[np.arange(len(moves)), np.asarray(decisions.action)].all()

    first_seat_only = np.broadcast_to([True, False], (70, 2))
    half = decisions_of(dataclasses.replace(games, human_seats=first_seat_only), "facts")
    moves = sorted(move for game in range(70) for move in games.moves(game)[::2].tolist())
    assert sorted(np.asarray(half.action).tolist()) == moves


def cloned(learner: DecisionCloning, games: Games) -> CloningState:
    data, state = decisions_of(games, "facts"), learner.init(jax.random.key(0))
    for _ in range(CONFIG.epochs):
        state, metrics = learner.epoch(state, data)
    assert float(metrics["loss"]) < 0.6
    return state


@pytest.mark.slow
def test_a_simple_teacher_is_learnt() -> None:
    """The clone, as a policy that reads observations, predicts other games of the teacher; and the
    same seed gives the same clone."""
    train, held_out = taught_games(RULES, 200, seed=2), taught_games(RULES, 50, seed=3)
    learner = DecisionCloning(CONFIG, RULES, NETWORK, int(train.num_actions.sum()))
    state = cloned(learner, train)
    assert predict(learner.policy(state), held_out).accuracy().mean > 0.85
    assert int(state.step) == CONFIG.epochs * learner.updates_per_epoch == learner.num_updates
    again = cloned(learner, train)
    for one, other in zip(
        jax.tree.leaves(state.params), jax.tree.leaves(again.params), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_the_rate_falls_along_a_cosine() -> None:
    learner = DecisionCloning(CONFIG, RULES, NETWORK, 640)  # 10 updates an epoch, 120 in all
    rates = [float(learner.learning_rate(jnp.array(step))) for step in (0, 30, 60, 120, 200)]
    fall = 2e-3 - 4e-5
    quarter = 4e-5 + fall * (1 + np.sqrt(0.5)) / 2
    np.testing.assert_allclose(rates, [2e-3, quarter, 4e-5 + fall / 2, 4e-5, 4e-5], rtol=1e-5)


@pytest.mark.slow
def test_every_minibatch_of_every_epoch_drops_out_other_units() -> None:
    """With a rate of 0 and copies of one decision, nothing but the dropped units differs."""
    config = dataclasses.replace(CONFIG, lr=0.0, final_lr=0.0)
    network = dataclasses.replace(NETWORK, dropout=0.5)
    learner = DecisionCloning(config, RULES, network, 4 * 64)
    one = jax.tree.map(lambda x: x[:1], decisions_of(taught_games(RULES, 2), "facts"))
    data = jax.tree.map(lambda x: jnp.repeat(x, 4 * 64, axis=0), one)
    state = learner.init(jax.random.key(1))
    batch = jax.tree.map(lambda x: x[:64], data)
    keys = jax.random.split(jax.random.split(state.key, 3)[2], 4)
    losses = [float(jax.jit(learner.loss)(state.params, batch, key)[0]) for key in keys]
    assert len(set(losses)) == 4
    second, metrics = learner.epoch(state, data)
    np.testing.assert_allclose(float(metrics["loss"]), np.mean(losses), rtol=1e-5)
    _, later = learner.epoch(second, data)
    assert abs(float(later["loss"]) - np.mean(losses)) > 1e-4


class Tally(DecisionCloning):
    """Counts which decisions an epoch takes, and what each minibatch draws."""

    def optimizer(self) -> optax.GradientTransformation:
        return optax.sgd(1.0)

    def loss(self, params: Any, batch: Any, dropout_key: jax.Array) -> Any:
        drawn = jax.random.uniform(dropout_key)
        return -jnp.sum(params["taken"][batch.action]), {"drawn": drawn, "square": drawn**2}


def test_an_epoch_takes_every_decision_once_in_a_new_order_with_keys_of_their_own() -> None:
    """1,030 decisions in minibatches of 64: six are left out, others each time."""
    learner = Tally(CONFIG, RULES, NETWORK, 1030)
    data = Decisions(view=jnp.zeros(1030), legal=jnp.zeros(1030), action=jnp.arange(1030))  # type: ignore[arg-type]
    state = CloningState(
        params={"taken": jnp.zeros(1030)},
        opt_state=optax.sgd(1.0).init({}),
        step=jnp.int32(3),
        key=jax.random.key(0),
    )
    left_out, draws = [], []
    for epoch in (1, 2, 3):
        state, metrics = learner.epoch(state, data)
        taken = np.asarray(state.params["taken"])
        left_out.append(frozenset(np.flatnonzero(taken == 0)))
        assert set(taken) == {0.0, 1.0} and len(left_out[-1]) == 1030 % 64
        assert int(state.step) == 3 + 16 * epoch
        draws.append(float(metrics["drawn"]))
        assert float(metrics["square"]) - draws[-1] ** 2 > 0.01  # not the same in all
        state = state.replace(params={"taken": jnp.zeros(1030)})
    assert len(set(left_out)) == len(set(draws)) == 3


def test_too_few_decisions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least batch_size=64 decisions to clone, got 10"):
        DecisionCloning(CONFIG, RULES, NETWORK, 10)
