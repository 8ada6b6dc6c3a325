"""Replayed trajectories against `PythonGame`, and colour permutations that depend only on the
game."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import permute_actions, permute_decks
from support.games import random_games

from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import replay, replay_moves
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import cloning_games

RULES = Rules(num_players=3)
color_permutations = jax.jit(cloning_games.color_permutations, static_argnames="num_colors")
GAMES = 6


@pytest.fixture(scope="module")
def games():
    return random_games(RULES, GAMES, seed=3)


@pytest.fixture(scope="module")
def trajectory(games):
    return jax.device_get(replay(RULES, games.decks, games.actions))


def test_moves_masks_and_decisions(games, trajectory):
    length = games.actions.shape[1]
    assert trajectory.action.shape == (length, GAMES, 3)
    assert trajectory.legal.shape == (length, GAMES, 3, RULES.num_actions)
    assert trajectory.action.dtype == np.int32
    for game in range(GAMES):
        for turn in range(length):
            playing = turn < games.num_actions[game]
            assert trajectory.valid[turn, game] == playing
            decides = [playing and seat == turn % 3 for seat in range(3)]
            assert trajectory.decision[turn, game].tolist() == decides
            taken = [games.actions[game, turn] if decision else RULES.noop for decision in decides]
            assert trajectory.action[turn, game].tolist() == taken
    legal = np.take_along_axis(trajectory.legal, trajectory.action[..., None], axis=-1)[..., 0]
    assert legal[trajectory.decision].all()
    idle = trajectory.valid[..., None] & ~trajectory.decision
    assert (trajectory.legal[idle].sum(axis=-1) == 1).all() and trajectory.legal[idle][
        :, RULES.noop
    ].all()


def test_states_precede_moves(games, trajectory):
    """Tokens, cards played and cards left of every position, by `PythonGame`."""
    for game in range(GAMES):
        table = PythonGame(RULES, games.decks[game])
        for turn, action in enumerate(games.moves(game)):
            state = jax.tree.map(lambda leaf: leaf[turn, game], trajectory.state)  # noqa: B023
            seen = (
                state.info_tokens,
                state.life_tokens,
                bin(state.fireworks).count("1"),
                state.deck_left,
            )
            assert seen == (
                table.info_tokens,
                table.life_tokens,
                table.points,
                RULES.deck_size - table.drawn,
            )
            table.apply(action)
    assert trajectory.state.deck.size == 0


def test_stopped_game_does_not_change(games, trajectory):
    game = int(np.flatnonzero(games.unfinished)[0])
    end = games.num_actions[game]
    last = jax.tree.map(lambda leaf: leaf[end, game], trajectory.state)
    for turn in (end + 1, games.actions.shape[1] - 1):
        now = jax.tree.map(lambda leaf: leaf[turn, game], trajectory.state)  # noqa: B023
        jax.tree.map(np.testing.assert_array_equal, now, last)
    assert last.life_tokens == 3 and last.turn == end


def test_permutations_depend_on_game_only():
    key = jax.random.key(7)
    permutations = partial(color_permutations, key, num_colors=5)
    whole = permutations(epoch=2, game_index=np.arange(40))
    assert whole.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(whole, axis=1), np.tile(np.arange(5), (40, 1)))
    index = np.array([31, 4, 4, 0], np.int32)
    whole = np.asarray(whole)
    np.testing.assert_array_equal(permutations(epoch=2, game_index=index), whole[index])
    assert (permutations(epoch=3, game_index=np.arange(40)) != whole).any(axis=1).mean() > 0.9
    other_key = color_permutations(jax.random.key(8), 2, np.arange(40), num_colors=5)
    assert (other_key != whole).any(axis=1).mean() > 0.9


def test_permutations_are_uniform():
    """Each of 24 permutations of 4 colours about 100 times in 2,400: chi-square, 23 degrees, 0.999
    quantile 49.7."""
    drawn = np.asarray(color_permutations(jax.random.key(0), 0, np.arange(2400), num_colors=4))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 100) ** 2 / 100).sum() < 49.7


def test_permuted_game_has_same_score(games):
    permutation = color_permutations(
        jax.random.key(1), 0, np.arange(GAMES), num_colors=RULES.num_colors
    )
    decks = permute_decks(RULES, games.decks, permutation)
    actions = permute_actions(RULES, games.actions, np.asarray(permutation)[:, None])
    assert (np.asarray(decks) != games.decks).any()
    outcomes = replay_moves(RULES, decks, actions)
    np.testing.assert_array_equal(
        outcomes.score[np.arange(GAMES), games.num_actions - 1], games.scores
    )


def test_batches_share_one_compilation(games):
    before = replay._cache_size()
    for shift in range(3):
        replay(RULES, np.roll(games.decks, shift, axis=0), np.roll(games.actions, shift, axis=0))
    assert replay._cache_size() == max(before, 1)
