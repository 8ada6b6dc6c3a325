"""AH2AC2's lineups against lists by hand, and its games against `play_games`."""

import numpy as np
import pytest
from support.games import LENIENT, LENIENT_3P
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.leaderboard import (
    best_seed,
    play_leaderboard,
    play_proxy_self_play,
)
from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.papers.ah2ac2 import LEADERBOARD
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.play.lineups import mixed_lineups, seat_names

TWO_PLAYERS = {"C1", "C2", "1C", "2C"}
THREE_PLAYERS = {
    *("C11", "C12", "C21", "C22", "1C1", "1C2", "2C1", "2C2", "11C", "12C", "21C", "22C"),
    *("CC1", "CC2", "C1C", "C2C", "1CC", "2CC"),
}


def names(seats):
    return "".join("C" if player < 0 else str(player + 1) for player in seats)


@pytest.mark.parametrize(("players", "expected"), [(2, TWO_PLAYERS), (3, THREE_PLAYERS)])
def test_lineups_match_paper(players, expected):
    found = [names(seats) for seats in mixed_lineups(players, 2)]
    assert set(found) == expected and len(found) == len(expected) == {2: 4, 3: 18}[players]


@pytest.mark.parametrize(("players", "proxies"), [(2, 1), (2, 3), (3, 1), (4, 2), (5, 3)])
def test_other_lineup_counts(players, proxies):
    found = mixed_lineups(players, proxies)
    assert len(set(found)) == len(found) == (proxies + 1) ** players - proxies**players - 1


def test_two_players_alternate_seats():
    candidate, *proxies = (network_policy(LENIENT, seed) for seed in (1, 2, 3))
    entry = play_leaderboard(candidate, proxies, 16, seed=5)
    decks = evaluation_decks(LENIENT, 16, 5)
    for index, seats in enumerate(entry.lineups):
        at_seat = tuple(candidate if player < 0 else proxies[player] for player in seats)
        games = np.flatnonzero(entry.lineup == index)
        assert len(games) == 4
        np.testing.assert_array_equal(
            entry.points[games], play_games(at_seat, LENIENT, decks[games]).points
        )
    record = entry.as_dict(["p", "q"])
    assert record["games"] == 16 and record["points_mean"] == pytest.approx(entry.points.mean())
    assert record["median"] == np.median(entry.score)
    assert (
        record["lineups"][0]["seats"] == ["candidate", "p"] and record["lineups"][0]["games"] == 4
    )
    assert record["lineups"][0]["mean"] == pytest.approx(entry.score[entry.lineup == 0].mean())


@pytest.mark.slow  # the two-player test covers the same
def test_three_player_lineups_are_balanced():
    candidate, *proxies = (network_policy(LENIENT_3P, seed) for seed in (1, 2, 3))
    entry = play_leaderboard(candidate, proxies, 20, seed=5)
    counts = np.bincount(entry.lineup)
    assert sorted(counts) == [1] * 16 + [2] * 2
    decks = evaluation_decks(LENIENT_3P, 20, 5)
    for index in (1, 7, 17):  # one candidate with two different proxies, and two candidates
        games = np.flatnonzero(entry.lineup == index)
        # copies, so that play_games reuses its program for three policies
        at_seat = tuple(
            (candidate if player < 0 else proxies[player]).replace()
            for player in entry.lineups[index]
        )
        expected = play_games(at_seat, LENIENT_3P, decks[games])
        np.testing.assert_array_equal(entry.score[games], expected.scores)
        np.testing.assert_array_equal(entry.points[games], expected.points)


def test_proxy_randomness_depends_on_game_index():
    """Not on how games are batched: every candidate gets the same random numbers."""
    candidate, proxy = network_policy(LENIENT, 1), load_policy("bot:random", LENIENT)
    entry = play_leaderboard(candidate, [proxy, proxy], 16, seed=5)
    decks = evaluation_decks(LENIENT, 16, 5)
    for game in (1, 6, 15):
        seats = entry.lineups[entry.lineup[game]]
        alone = play_games(
            (candidate, proxy),
            LENIENT,
            decks[[game]],
            5,
            seating=np.array([[0, 1] if seats[0] < 0 else [1, 0]]),
            game_index=np.array([game]),
        )
        assert (entry.points[game], entry.score[game]) == (alone.points[0], alone.scores[0])


@pytest.mark.slow  # cli/test_cli_cross_play.py has such a candidate, of two players
def test_proxy_candidate_skips_self_play():
    """AH2AC2, A.6, excludes self-play; policies are compared by identity, not by object."""
    proxies = [network_policy(LENIENT_3P, seed) for seed in (1, 2)]
    entry = play_leaderboard(network_policy(LENIENT_3P, 1), proxies, 20, seed=5)
    assert {names(seats) for seats in entry.lineups} == {
        seats for seats in THREE_PLAYERS if "2" in seats
    }
    assert len(entry.lineups) == 12 and np.bincount(entry.lineup).sum() == 20
    with pytest.raises(ValueError, match="a proxy other than the candidate"):
        play_leaderboard(proxies[0], proxies[:1], 20)


def test_proxy_row_averages_proxies():
    proxies = [network_policy(LENIENT, seed) for seed in (1, 2)]
    decisions, steps = np.array([10, 10]), np.array([20, 20])
    counts = decisions, steps, *np.zeros((2, 2))
    read = [Prediction(np.array(right), np.array(nats), *counts) for right, nats in (
        ([4.0, 6.0], [10.0, 30.0]),
        ([8.0, 8.0], [2.0, 6.0]),
    )]  # fmt: skip
    entry = play_proxy_self_play(proxies, 16, seed=5, predictions=read)
    decks = evaluation_decks(LENIENT, 16, 5)
    alone = [play_games((proxy,) * 2, LENIENT, decks).points for proxy in proxies]
    np.testing.assert_array_equal(entry.points, np.where(np.arange(16) % 2 == 0, *alone))
    assert entry.summary.points.mean == pytest.approx(
        (alone[0][::2].mean() + alone[1][1::2].mean()) / 2
    )
    assert entry.prediction.cross_entropy_per_timestep().mean == pytest.approx((1.0 + 0.2) / 2)
    assert entry.as_dict(["p", "q"])["lineups"][1]["seats"] == ["q", "q"]
    with pytest.raises(ValueError, match="at least one game per proxy, got 1 for 2"):
        play_proxy_self_play(proxies, 1)
    assert best_seed(read) == 1 and best_seed(read[::-1]) == 0
    odd = read[0]._replace(nll=np.array([np.nan, 1.0]))
    with pytest.raises(ValueError, match="for every seed, got nan for seed 2"):
        best_seed([read[0], odd, read[1]])


def test_errors_state_expectation():
    candidate = network_policy(LENIENT, 1)
    with pytest.raises(ValueError, match="at least one proxy"):
        play_leaderboard(candidate, [], 10)
    with pytest.raises(ValueError, match="at least one game per lineup, 4, got 3"):
        play_leaderboard(candidate, [candidate, candidate], 3)


def test_published_table_is_complete():
    assert {players: len(rows) for players, rows in LEADERBOARD.items()} == {2: 11, 3: 9}
    assert seat_names((-1, 1), ["p", "q"]) == ["candidate", "q"]
