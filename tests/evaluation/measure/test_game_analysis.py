"""Final states of games, stored or replayed, after selecting and joining."""

import dataclasses

import numpy as np
import pytest
from support.games import TINY, random_games

from hanabi_rl.data.games import FinalStates, Games, concatenate_games
from hanabi_rl.games.hanabi.python_game import PythonGame


@pytest.fixture(scope="module")
def games():
    return random_games(TINY, 8, seed=5)


def ended(games: Games) -> list[tuple[int, int]]:
    """Points and lives of every game at its end, by `PythonGame`."""
    ends = []
    for game in range(len(games)):
        table = PythonGame(TINY, games.decks[game])
        for action in games.moves(game):
            table.apply(action)
        ends.append((table.points, table.life_tokens))
    return ends


def test_final_states_match_python_game(games):
    assert games.ends is None
    assert list(zip(games.points.tolist(), games.lives.tolist(), strict=True)) == ended(games)
    assert len(set(ended(games))) > 2


def test_stored_ends_avoid_replay(games):
    known = FinalStates(points=np.arange(8, dtype=np.int32), lives=np.full(8, 2, np.int32))
    stored = dataclasses.replace(games, ends=known)
    assert stored.points is known.points and stored.lives is known.lives
    some = stored.select([5, 2])
    assert (some.points.tolist(), some.lives.tolist()) == ([5, 2], [2, 2])
    both = concatenate_games([some, stored.select(slice(3))])
    assert both.points.tolist() == [5, 2, 0, 1, 2] and both.lives.tolist() == [2] * 5


def test_join_with_unknown_ends_replays(games):
    known = FinalStates(points=games.points, lives=games.lives)
    both = concatenate_games([dataclasses.replace(games, ends=known), games])
    assert both.ends is None
    np.testing.assert_array_equal(both.points, np.tile(games.points, 2))
