"""Series in training: the lineup persists and rotates, with a structured network's memory of the
players."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import learner_params
from support.games import TINY_3P

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.safety_filter import SafetyFilter
from hanabi_rl.agents.structured.profile import COUNTS
from hanabi_rl.algorithms.training_partners import Lineup, add_rematches, sample_lineup
from hanabi_rl.games.hanabi.start_states import start_states_from_games
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EpisodeSetup, Rollout, TrainContext, rotate_seats_in_episode
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

NETWORK = StructuredConfig(trunk=(8,), head=4, card=(), critic=(8,), profile=True)
CONFIG = PPOConfig(game=TINY_3P, num_envs=8, num_steps=96, num_minibatches=1, precision="float32")


def play(rematch: float) -> Rollout:
    """96 timesteps of a fresh learner with a bot."""
    lineup = add_rematches(sample_lineup(3, lambda _: jnp.float32(1.0)), rematch)
    ppo = PPO(dataclasses.replace(CONFIG, total_steps=8 * 96), NETWORK, sample_episode=lineup)
    context = TrainContext(partners=load_policy("bot:random", TINY_3P))

    params = learner_params(ppo, jax.random.key(0))

    @jax.jit
    def go(key: jax.Array) -> Any:
        actors = ppo.collector.init(key, CONFIG.num_envs, context)
        return ppo.collector.collect(params, actors, context, jax.random.key(1), 96)[1]

    return jax.tree.map(np.asarray, go(jax.random.key(0)))


@pytest.fixture(scope="module")
def rollout() -> Rollout:
    return play(1.0)


@pytest.mark.slow  # test_episodes.py tests it in play; lineups are below
def test_profile_persists_across_rematches(rollout: Rollout) -> None:
    """Turns of each player in all games so far, counted in NumPy; a game's last move is not
    observed."""
    columns = rollout.inputs.table[:, :, 0].astype(np.float64)
    wholes = {whole for whole in COUNTS.values() if whole is not None}
    width = sum(whole is not None for whole in COUNTS.values()) + len(wholes) + 1
    block = columns[..., -3 * width :].reshape(*columns.shape[:2], 3, width)
    counts = 64 * block[..., -1] / (1 - block[..., -1])  # t / (t + 64)
    player, seat = np.asarray(rollout.state.player), rollout.episode.is_learner.argmax(axis=-1)
    moved = 0
    for env in range(columns.shape[1]):
        turns = np.zeros(3)  # the learner's, then those of the following seats
        for t in range(columns.shape[0]):
            distance = (player[t, env] - seat[t, env]) % 3
            if rollout.reset[t, env] and t:
                turns[(player[t - 1, env] - seat[t - 1, env]) % 3] -= 1
                moved += seat[t, env] != seat[t - 1, env]
            expected = np.roll(turns, -distance)
            np.testing.assert_allclose(counts[t, env], expected, atol=0.2, err_msg=f"{t} {env}")
            turns[distance] += 1
    assert moved > 3
    assert (rollout.episode.is_learner.sum(axis=-1) == 1).all()


@pytest.mark.slow
def test_partner_memory_matches_view() -> None:
    """A partner with other features keeps its own counts, per seat: they equal the view's, for any
    starting player (recorded positions) and any seat."""
    lineup = add_rematches(sample_lineup(3, lambda _: jnp.float32(0.6)), 1.0)
    ppo = PPO(dataclasses.replace(CONFIG, total_steps=8 * 96), NETWORK, sample_episode=lineup)
    params = learner_params(ppo, jax.random.key(0))
    itself = NetworkPolicy(params["actor"], TINY_3P, NETWORK)
    bot = load_policy("bot:random", TINY_3P)
    games = play_games((bot,) * 3, TINY_3P, evaluation_decks(TINY_3P, 20, 0), 0)
    context = TrainContext(
        partners=SafetyFilter(itself, min_prob_last_life=0.0, min_prob=0.0),
        start_states=start_states_from_games(TINY_3P, games.decks, games.actions, 0.7),
    )

    @jax.jit
    def go(key: jax.Array) -> Any:
        actors = ppo.collector.init(key, CONFIG.num_envs, context)
        after, rollout, _ = ppo.collector.collect(params, actors, context, jax.random.key(1), 96)
        return after, rollout

    actors, rollout = jax.tree.map(np.asarray, go(jax.random.key(0)))
    begin = rollout.reset
    assert begin.sum() > 30 and set(rollout.state.player[begin].tolist()) == {0, 1, 2}
    seats_of_rows = (np.arange(3)[:, None] + np.arange(3)) % 3  # [seat, row]
    for env in range(CONFIG.num_envs):
        first = int(actors.env.game.player[env])
        by_seat = np.zeros_like(actors.memory.profile.counts[env])
        by_seat[seats_of_rows[first]] = actors.memory.profile.counts[env]
        assert by_seat.sum() > 50
        for seat in range(3):
            own = actors.partner_carry.profile.counts[env, seat]
            np.testing.assert_array_equal(own, by_seat[seats_of_rows[seat]], f"{env} {seat}")


@pytest.mark.parametrize("lineup", ["independent", "some-or-none", "all-or-none"])
def test_new_lineup_has_configured_partner_rate(lineup: Lineup) -> None:
    """For any rematch probability: both are sampled from one key."""
    partner_prob = (
        0.9 if lineup != "independent" else 1 - 0.1**0.5
    )  # at least one of two other seats
    draw = add_rematches(sample_lineup(3, lambda _: jnp.float32(partner_prob), lineup), 0.8)
    keys = jax.random.split(jax.random.key(0), 20_000)
    episodes = jax.jit(jax.vmap(lambda key: draw(key, 0.0)))(keys)
    again, partner = np.asarray(episodes.is_rematch), ~np.asarray(episodes.is_learner).all(axis=-1)
    for which in (again, ~again):
        assert partner[which].mean() == pytest.approx(0.9, abs=0.02)


def test_rematch_rate_matches_config() -> None:
    draw = add_rematches(sample_lineup(3, lambda _: jnp.float32(1.0)), 0.7)
    keys = jax.random.split(jax.random.key(0), 2000)
    episodes = jax.jit(jax.vmap(lambda key: draw(key, 0.0)))(keys)
    assert np.asarray(episodes.is_rematch).mean() == pytest.approx(0.7, abs=0.04)
    assert set(np.asarray(episodes.seat_shift).tolist()) == {0, 1, 2}


def test_lineup_rotates_seats() -> None:
    learns = np.array([[True, False, False], [True, True, False]])
    moved = jax.jit(rotate_seats_in_episode)(EpisodeSetup(is_learner=learns), np.array([1, 2]))
    assert np.asarray(moved.is_learner).tolist() == [[False, True, False], [True, False, True]]


def test_zero_rematch_prob_samples_no_rematches() -> None:
    draw = add_rematches(sample_lineup(3, lambda _: jnp.float32(1.0)), 0.0)
    episode = jax.eval_shape(draw, jax.random.key(0), np.float32(0))
    assert (episode.is_rematch, episode.seat_shift) == (None, None)
