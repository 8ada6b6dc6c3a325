"""Cloning single decisions: every move of the cloned seats is an example, and a simple teacher is
learnt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
import pytest

from hanabi_rl.data.games import Games
from hanabi_rl.env.game import Rules
from hanabi_rl.learning.cloning_decisions import (
    DecisionCloning,
    DecisionCloningConfig,
    clone_decisions,
    decisions_of,
)
from hanabi_rl.nn.structured import StructuredConfig

RULES = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=4)


def test_every_move_of_the_cloned_seats_is_a_decision(taught_games: Callable[..., Games]) -> None:
    games = taught_games(RULES, 70, seed=1)
    decisions = decisions_of(games, "facts")
    moves = sorted(move for game in range(70) for move in games.moves(game).tolist())
    assert sorted(np.asarray(decisions.action).tolist()) == moves
    assert np.asarray(decisions.legal)[np.arange(len(moves)), np.asarray(decisions.action)].all()

    first_seat_only = np.broadcast_to([True, False], (70, 2))
    half = decisions_of(dataclasses.replace(games, human_seats=first_seat_only), "facts")
    moves = sorted(move for game in range(70) for move in games.moves(game)[::2].tolist())
    assert sorted(np.asarray(half.action).tolist()) == moves


def test_a_simple_teacher_is_learnt(taught_games: Callable[..., Games]) -> None:
    train = decisions_of(taught_games(RULES, 200, seed=2), "facts")
    held_out = decisions_of(taught_games(RULES, 50, seed=3), "facts")
    config = DecisionCloningConfig(batch_size=64, epochs=12)
    network = StructuredConfig(trunk=(64, 32), head=32, dropout=0.0)
    learner = DecisionCloning(config, RULES, network, len(train.action))
    policy, epochs = clone_decisions(learner, train, held_out, seed=0)
    nats, right = learner.measure(policy.params, held_out)
    assert float(right.mean()) > 0.85
    assert float(nats.mean()) == pytest.approx(min(epoch["val_loss"] for epoch in epochs))
    again = clone_decisions(learner, train, held_out, seed=0)[0]
    for one, other in zip(
        jax.tree.leaves(policy.params), jax.tree.leaves(again.params), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_too_few_decisions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least batch_size=512 decisions to clone, got 100"):
        DecisionCloning(DecisionCloningConfig(), RULES, StructuredConfig(), 100)
