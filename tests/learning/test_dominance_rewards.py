"""Rewards for G1, G2 and G3: the moves counted by the objective metrics; nothing at weight 0."""

import dataclasses

import jax
import numpy as np
import pytest
from support.games import TINY, random_games, teacher_games
from support.small_ppo import make_ppo, small_rollout

from hanabi_rl.evaluation.measure.dominance import DOMINANCE_KINDS
from hanabi_rl.evaluation.measure.dominance import dominated_moves as moves_of
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.rewards import HanabiShaping, dominated_moves


@pytest.mark.parametrize(
    "games",
    [teacher_games(TINY, 40), random_games(Rules(num_players=3), 40)],
    ids=["taught", "random, 3 players"],
)
def test_dominance_reward_matches_measures(games):
    @jax.jit
    def read(decks, actions):
        played = replay(games.rules, decks, actions)
        return jax.vmap(dominated_moves)(played.state, actions.T)  # T, 3, N

    paid = np.asarray(read(games.decks, games.actions)).transpose(1, 2, 0)
    for kind, found in zip(DOMINANCE_KINDS, paid, strict=True):
        np.testing.assert_array_equal(found != 0, moves_of(GameAnalysis(games), kind, "hints"))
    assert paid.sum() > 0


def test_training_reward_weights_dominance_events(small):
    def reward(shaping):
        return np.asarray(jax.jit(make_ppo(shaping=shaping).reward)(rollout, np.float32(0)))

    rollout = small_rollout(make_ppo(), small)
    weights = HanabiShaping(g1_weight=-0.5, g2_weight=-1.0, g3_weight=0.02)
    moves_made = jax.jit(make_ppo().joint_actions)(rollout)
    events = np.asarray(jax.jit(jax.vmap(dominated_moves))(rollout.state, moves_made))  # T, 3, N
    assert (events.sum(axis=(0, 2)) > 0).all()  # each type occurred
    for teaming in (0.0, 0.3):
        before = reward(HanabiShaping(teaming_weight=teaming))
        after = reward(dataclasses.replace(weights, teaming_weight=teaming))
        expected = -0.5 * events[:, 0] - events[:, 1] + 0.02 * events[:, 2]
        np.testing.assert_allclose(after - before, expected, atol=1e-6)
    measured = jax.jit(
        jax.vmap(lambda _: weights.metrics(rollout, moves_made), axis_name=parallel.AXIS)
    )(np.zeros(1))
    games = np.asarray(rollout.transition.done).sum()
    for name, count in zip(("g1", "g2", "g3"), events.sum(axis=(0, 2)), strict=True):
        assert measured[name][0] == pytest.approx(count / games)
