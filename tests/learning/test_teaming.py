"""Teaming reward: equal to the links of recorded games; nothing at weight 0."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import (
    TINY,
    deck_of,
    eight_turns,
    one_game,
    random_games,
    shared_data,
    teacher_games,
)
from support.small_ppo import make_ppo, small_rollout

from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.rewards import HanabiShaping, teaming_reward


def paid(games):
    """float32[N, T]: teaming reward of all moves of recorded games."""

    @jax.jit
    def read(decks, actions):
        played = replay(games.rules, decks, actions)
        rewards = jax.vmap(teaming_reward)(played.state, actions.T, played.outcome.points)
        return rewards.T

    return np.asarray(read(games.decks, games.actions))


@pytest.mark.parametrize(
    "games",
    [teacher_games(TINY, 40), random_games(Rules(num_players=3), 40)],
    ids=["taught", "random, 3 players"],
)
def test_teaming_reward_equals_constructive_links(games):
    links = GameAnalysis(games).links
    np.testing.assert_array_equal(
        paid(games).sum(axis=1), links.outcome("constructive").sum(axis=(1, 2))
    )
    assert paid(games).sum() > 0


def test_repeated_hint_has_no_teaming_reward():
    """R1 is hinted by colour, by colour again and by rank, then scores: two constructive links."""
    deck = deck_of("B2 B3 G4 W4 Y3 R1 Y2 Y1 G3 W2")
    moves = [10, 4, 10, 4, 15, 5]  # red, a discard of another card, red, one more, rank 1, R1
    assert paid(one_game(deck, moves))[0, :6].tolist() == [0, 0, 0, 0, 0, 2]


@pytest.mark.slow  # the same sums, of whole files
@pytest.mark.parametrize(
    ("name", "total"), [("2p_hgroup_bot_val", 2_892), ("3p_human_val_41", 1_009)]
)
def test_teaming_reward_of_recorded_games(name, total):
    """The constructive links of shared/reference/interdependence.md, E2."""
    assert paid(load_games(shared_data(f"{name}.safetensors"), validate=False)).sum() == total


def test_teaming_reward_of_eight_turns():
    """R1 after a hint of its rank, R2 after one of its colour."""
    assert paid(eight_turns())[0, :9].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0]


def test_training_reward_weights_teaming(small):
    ppo = make_ppo()
    rollout = small_rollout(ppo, small)
    steps = jnp.float32(0)
    assert ppo.reward(rollout, steps) is rollout.transition.reward  # the same update as without
    shaped = HanabiShaping(keep_points=True, life_cost=0.5)
    teaming = HanabiShaping(teaming_weight=0.3)
    both = dataclasses.replace(shaped, teaming_weight=0.3)

    def read(rollout):
        moves = ppo.joint_actions(rollout)
        assert ppo.config.shaping.metrics(rollout, moves) == {}
        rewards = [make_ppo(shaping=x).reward(rollout, steps) for x in (teaming, both, shaped)]
        measured = make_ppo(shaping=teaming).rollout_metrics(rollout)["teaming"]
        return teaming.team_events(rollout, moves)["teaming"], rewards, measured

    # the count is the sum over devices: here, one
    of_one = jax.jit(jax.vmap(read, axis_name=parallel.AXIS))
    found = of_one(jax.tree.map(lambda x: x[None], rollout))
    links, (paid, more, less), measured = jax.tree.map(lambda x: np.asarray(x)[0], found)
    assert links.shape == rollout.transition.reward.shape and 0 < links.sum() < links.size
    np.testing.assert_allclose(paid - rollout.transition.reward, 0.3 * links, atol=1e-6)
    np.testing.assert_allclose(more - less, 0.3 * links, atol=1e-6)
    games = np.asarray(rollout.transition.done).sum()
    assert measured == pytest.approx(links.sum() / games)
