"""Deals that differ only in the starting seat: one deck, different games."""

import dataclasses

import numpy as np
import pytest
from support.games import TINY_3P, random_games

from hanabi_rl.data.files import load_distinct_games, save_games
from hanabi_rl.data.games import Games, canonical_decks, rotated_decks, rotated_orders
from hanabi_rl.data.split import split_games, split_games_by_size
from hanabi_rl.data.statistics import statistics
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.measure.registry import measure_figures, measures_of
from hanabi_rl.games.hanabi.rules import Rules


def turned(games: Games, starts: list[int]) -> Games:
    """The games' decks with other starting seats; moves and all other fields stay."""
    decks = rotated_decks(games.rules, games.decks)[np.arange(len(games)), starts]
    return dataclasses.replace(games, decks=decks)


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_rotations_share_one_deck_id(players):
    rules = Rules(num_players=players)
    dealt = rules.hand_size * players
    games = random_games(rules, 4)
    rotations = rotated_decks(rules, games.decks)
    for start in range(players):
        for deck, rotated in zip(games.decks, rotations[:, start], strict=True):
            hands = np.split(deck[:dealt], players)
            expected = [*hands[start:], *hands[:start], deck[dealt:]]
            assert rotated.tolist() == np.concatenate(expected).tolist()
            orders = rotated_orders(rules, start)
            assert [rotated[new] for new in orders] == deck.tolist()
        canonical = canonical_decks(rules, rotations[:, start])
        assert canonical.tolist() == [min(each.tolist()) for each in rotations]


def test_deck_ids_ignore_starting_seat():
    games = random_games(TINY_3P, 5).select([0, 1, 2, 0, 3, 1, 1, 4])
    expected = [0, 1, 2, 0, 3, 1, 1, 4]
    assert games.deck_ids.tolist() == expected
    games = turned(games, [0, 2, 1, 1, 0, 0, 1, 0])
    assert games.deck_ids.tolist() == expected
    assert games.num_decks == statistics(games).decks == 5
    assert games.select([1, 4]).on_decks_of(games.select([5, 3])).tolist() == [True, False]
    assert games.select([]).num_decks == 0 and games.select([]).on_decks_of(games).tolist() == []


def test_different_cards_give_different_decks():
    """A reordered hand, two exchanged hands, or one card more or less in the rotation."""
    rules = Rules(num_players=4)
    games = random_games(rules, 1, seed=3)
    deck, size = games.decks[0], rules.hand_size
    hands = deck[: 4 * size].reshape(4, size)
    others = [
        np.concatenate([hands[[1, 2, 3, 0], ::-1].ravel(), deck[4 * size :]]),
        np.concatenate([hands[[1, 0, 2, 3]].ravel(), deck[4 * size :]]),
        np.concatenate([np.roll(deck[: 4 * size], 1), deck[4 * size :]]),
        np.roll(deck, size),
    ]
    games = dataclasses.replace(games.select([0] * 5), decks=np.stack([deck, *others]))
    assert games.deck_ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(3))
def test_split_keeps_rotations_together(seed):
    """20 deals, each played by two teams from different starting seats."""
    games = random_games(TINY_3P, 20, seed=1).select([*range(20)] * 2)
    games = turned(games, [0] * 20 + [1, 2] * 10)
    for parts in (split_games(games, (0.5, 0.5), seed), split_games_by_size(games, (20, 10), seed)):
        known = [set(map(bytes, canonical_decks(part.rules, part.decks))) for part in parts]
        assert known[0].isdisjoint(known[1])
        assert [2 * len(decks) for decks in known] == list(map(len, parts))


def test_split_without_rotations_is_unchanged():
    """By the sorted decks, as before rotations were compared: 28 decks, some played three times."""
    games = random_games(Rules(), 40).select([*range(28), *range(6), *range(6)])
    parts = split_games(dataclasses.replace(games, game_ids=np.arange(40)), (0.5, 0.5), 3)
    expected = [0, 1, 2, 5, 9, 10, 13, 18, 20, 23, 24, 27, 28, 29, 30, 33, 34, 35, 36, 39]
    assert parts[0].game_ids.tolist() == expected


def test_intervals_count_rotations_as_one_deck():
    games = random_games(Rules(num_players=3), 3).select([0, 0, 1, 1, 2, 2])
    games = dataclasses.replace(
        turned(games, [0, 1, 2, 0, 1, 2]), scores=np.array([10, 12, 14, 12, 11, 13], np.int32)
    )
    games = dataclasses.replace(games, unfinished=np.zeros(6, bool))
    measured = measure_figures(GameAnalysis(games), measures_of("scores"))
    expected = mean_interval(np.array([11.0, 13, 12]))  # within 0 and 25: not clipped
    assert measured["score"] == pytest.approx(expected.mean)
    assert measured["score_ci95"] == pytest.approx(expected.bounds)


def test_rotated_deal_gives_different_game(tmp_path):
    """Seat 0 moves first and moves name slots: other cards are played."""
    games = random_games(TINY_3P, 4).select([1])  # stops before its end
    moves = games.actions.copy()
    moves[:] = TINY_3P.noop
    moves[:, 0] = TINY_3P.hand_size  # plays the oldest card
    games = dataclasses.replace(games, actions=moves, num_actions=np.ones(1, np.int32), ends=None)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    for path, start in ((first, 0), (second, 1)):
        one = turned(games, [start])
        points = (one.decks[:, 0] % TINY_3P.num_ranks == 0).astype(np.int32)
        save_games(path, dataclasses.replace(one, scores=points))
    both = load_distinct_games([first, second])
    assert (len(both), both.num_decks) == (2, 1)
    with pytest.raises(ValueError, match="duplicate of game"):
        load_distinct_games([first, first])
