"""Splits: exact sizes, disjoint decks, all games."""

import dataclasses

import numpy as np
import pytest
from support.games import random_games

from hanabi_rl.data.split import split_games, split_games_by_size
from hanabi_rl.games.hanabi.rules import Rules


@pytest.fixture(scope="module")
def games():
    """40 games on 28 decks: four played three times, four twice, the others once."""
    games = random_games(Rules(), 40)
    deck_of_game = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, *range(8, 28)]
    return dataclasses.replace(games, decks=games.decks[deck_of_game])


def decks_of(part):
    return {deck.tobytes() for deck in part.decks}


@pytest.mark.parametrize("seed", range(5))
def test_split_by_fractions(games, seed):
    parts = split_games(games, (0.7, 0.2, 0.1), seed)
    assert [len(part) for part in parts] == [28, 8, 4]
    assert sum(len(decks_of(part)) for part in parts) == 28
    assert set.union(*map(decks_of, parts)) == decks_of(games)
    ids = np.concatenate([part.game_ids for part in parts])
    assert sorted(ids) == games.game_ids.tolist()
    assert all((np.diff(part.game_ids) > 0).all() for part in parts)


def test_split_by_size_drops_remaining_games(games):
    parts = split_games_by_size(games, (10, 5), seed=0)
    assert [len(part) for part in parts] == [10, 5]
    assert not decks_of(parts[0]) & decks_of(parts[1])


def test_split_is_random_and_repeatable(games):
    first, again, other = (
        split_games(games, (0.5, 0.5), seed)[0].game_ids.tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


def test_every_part_has_repeated_decks():
    """Not only in the first part: the most played decks go to random parts."""
    from hanabi_rl.data.split import _assign

    counts = np.array([2] * 50 + [1] * 100)
    parts = _assign(counts, np.array([100, 100, 0]), np.random.default_rng(0))
    assert 10 < (parts[:50] == 0).sum() < 40
    assert [int(counts[parts == part].sum()) for part in range(3)] == [100, 100, 0]


@pytest.mark.parametrize("seed", range(5))
def test_every_part_has_a_deck(seed):
    """Three decks played twice each do not fit into the smaller part."""
    games = random_games(Rules(), 6)
    games = dataclasses.replace(games, decks=games.decks[[0, 0, 1, 1, 2, 2]])
    parts = split_games_by_size(games, (5, 1), seed)
    assert [len(part) for part in parts] == [4, 2]
    parts = split_games_by_size(games, (1, 1, 1), seed)
    assert [len(part) for part in parts] == [2, 2, 2]


def test_invalid_splits_are_rejected(games):
    for fractions in [(), (0.5, 0.6), (1.5, -0.5), (np.nan, 0.5), np.array([0.5, 0.6])]:
        with pytest.raises(ValueError, match="positive fractions that add to 1"):
            split_games(games, fractions, seed=0)
    with pytest.raises(ValueError, match=r"got none for the fraction 0\.1 of 4 games"):
        split_games(games.select([0, 3, 6, 9]), (0.9, 0.1), seed=0)
    for sizes in [(), (0, 3), (30, 11), (1.5, 1), np.array([0, 3])]:
        with pytest.raises(ValueError, match="are positive and add to at most 40 games"):
            split_games_by_size(games, sizes, seed=0)
    with pytest.raises(ValueError, match="enough different decks"):
        split_games_by_size(games.select([0, 1, 2]), (2, 1), seed=0)
