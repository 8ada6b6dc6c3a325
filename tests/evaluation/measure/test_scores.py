"""Self-play and cross-play summaries, against NumPy on the recorded games."""

import itertools
import json
from typing import Any

import jax
import numpy as np
import pytest
from support.games import LENIENT, LENIENT_3P
from support.policies import CountingPolicy, clock_policy, network_policy

from hanabi_rl.data.formats.hanab_live import decode_link
from hanabi_rl.data.games import FinalStates, Games
from hanabi_rl.evaluation.measure import selfplay
from hanabi_rl.evaluation.measure.crossplay import (
    distinct_seatings,
    evaluate_lineup,
    evaluate_pair,
    evaluate_with_partners,
)
from hanabi_rl.evaluation.measure.selfplay import (
    SelfPlayResult,
    evaluate_selfplay,
    summarise,
    summary_dict,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

GAMES = 16


@pytest.fixture(scope="module")
def pair():
    single, other = network_policy(LENIENT, 1), network_policy(LENIENT, 2)
    return single, other, evaluate_pair(single, other, GAMES, seed=3)


def test_pair_plays_both_seatings(pair):
    single, other, result = pair
    decks = evaluation_decks(LENIENT, GAMES, 3)
    for lineup, records in zip([(single, other), (other, single)], result.records, strict=True):
        np.testing.assert_array_equal(records.scores, play_games(lineup, LENIENT, decks).scores)
        np.testing.assert_array_equal(records.decks, decks)


@pytest.mark.parametrize(
    ("rules", "at_once"),
    [pytest.param(LENIENT, 512, marks=pytest.mark.slow), (LENIENT_3P, 40)],
    ids=["2p", "3p"],
)
def test_partners_match_separate_pairs(rules, at_once, monkeypatch):
    """Networks mixed with other bots, one without parameters twice, and slots of which the last
    games leave some empty."""
    monkeypatch.setattr("hanabi_rl.play.episodes._ROWS", at_once)
    agent = network_policy(rules, 1)
    bots = CountingPolicy(rules), clock_policy(rules, 2), CountingPolicy(rules)
    assert not jax.tree.leaves(bots[0])
    partners = [network_policy(rules, 2), *bots, network_policy(rules, 3)]
    scores, points = evaluate_with_partners(agent, partners, GAMES, seed=3)
    for partner, of_scores, of_points in zip(partners, scores, points, strict=True):
        pair = evaluate_pair(agent, partner, GAMES, seed=3)
        seats = [seating[0] for seating in pair.seatings]
        for seat in range(rules.num_players):
            record = pair.records[seats.index(seat)]
            np.testing.assert_array_equal(of_scores[seat], record.scores)
            np.testing.assert_array_equal(of_points[seat], record.points)
    assert len({tuple(games) for games in points[:, 0].tolist()}) == 4


def test_series_rotates_seats(monkeypatch):
    played = []

    def play(policies, rules, decks, seed, **options):
        played.append(options | {"decks": decks})
        return play_games(policies, rules, decks, seed, **options)

    monkeypatch.setattr("hanabi_rl.evaluation.measure.crossplay.play_games", play)
    agent, partner = CountingPolicy(LENIENT_3P), clock_policy(LENIENT_3P, 1)
    evaluate_with_partners(agent, [partner], 6, seed=3, games_per_series=3)
    (options,) = played
    assert options["games_per_series"] == 3
    assert options["seating"][:, 0].tolist() == [*map(int, "012012120120201201")]
    for seating in options["seating"]:  # the same distance around the table
        assert ((seating[1:] - seating[0]) % 3).tolist() == [1, 2]
    np.testing.assert_array_equal(
        options["decks"], np.tile(evaluation_decks(LENIENT_3P, 6, 3), (3, 1))
    )


def test_search_plays_series_with_progress(monkeypatch, capsys):
    team = CountingPolicy(LENIENT_3P), [clock_policy(LENIENT_3P, 1)]
    expected = evaluate_with_partners(*team, 6, seed=3, games_per_series=3)
    assert not capsys.readouterr().err
    monkeypatch.setattr("hanabi_rl.play.episodes.runs_search", lambda policy: policy is team[0])
    monkeypatch.setattr("hanabi_rl.play.episodes.SOON_S", 0.0)
    np.testing.assert_array_equal(
        evaluate_with_partners(*team, 6, seed=3, games_per_series=3), expected
    )
    assert "games: 18/18 games" in capsys.readouterr().err


def test_worst_score_of_other_games_is_not_rounded():
    scores = np.array([[-23.7, -3.0]])
    assert summarise(scores, scores, None).minimum == -23.7


def test_single_agent_plays_every_seat():
    single, others = network_policy(LENIENT_3P, 1), network_policy(LENIENT_3P, 2)
    result = evaluate_pair(single, others, GAMES, seed=3)
    assert sorted(seating[0] for seating in result.seatings) == [0, 1, 2]
    last = result.records[[seating[0] for seating in result.seatings].index(1)]
    lineup = (others, single, others)
    expected = play_games(lineup, LENIENT_3P, evaluation_decks(LENIENT_3P, GAMES, 3))
    np.testing.assert_array_equal(last.actions, expected.actions)


def test_seatings_are_averaged_before_standard_error(pair):
    result = pair[2]
    # [seatings, decks]
    scores = np.stack([records.scores for records in result.records]).astype(float)
    per_deck = np.array([sum(column) / 2 for column in scores.T])
    std_error = np.sqrt(((per_deck - per_deck.mean()) ** 2).sum() / (GAMES - 1) / GAMES)
    mean = result.summary.mean
    assert mean.mean == pytest.approx(scores.mean())
    assert mean.std_error == pytest.approx(std_error)
    # t, 15 degrees of freedom
    assert mean.high - mean.mean == pytest.approx(2.13145 * std_error, rel=1e-4)
    pooled = scores.std(ddof=1) / np.sqrt(scores.size)
    assert abs(std_error - pooled) > 1e-3 * pooled  # the two games of a deck are dependent


def test_distinct_seatings_cover_permutations():
    a, b, c = (network_policy(LENIENT_3P, seed) for seed in (1, 2, 3))
    for lineup, expected in [((a, a, a), 1), ((a, b, b), 3), ((a, b, a), 3), ((a, b, c), 6)]:
        seatings = distinct_seatings(lineup)
        tables = [tuple(lineup[seating.index(seat)] for seat in range(3)) for seating in seatings]
        names = {tuple(map(id, table)) for table in tables}
        assert len(names) == len(seatings) == expected
        assert names == {tuple(map(id, table)) for table in itertools.permutations(lineup)}


def test_cross_play_with_itself_equals_self_play():
    policy = network_policy(LENIENT, 1)
    alone = evaluate_selfplay(policy, GAMES, seed=3)
    together = evaluate_lineup((policy,) * 2, GAMES, seed=3)
    assert together.summary == alone.summary
    np.testing.assert_array_equal(alone.records.actions, together.records[0].actions)


def test_purpose_and_sampling_choose_the_games():
    policy = network_policy(LENIENT, 1)
    report, again = (evaluate_selfplay(policy, GAMES, seed=3).records for _ in range(2))
    np.testing.assert_array_equal(report.actions, again.actions)
    selection = evaluate_selfplay(policy, GAMES, seed=3, purpose="selection").records
    assert (report.decks != selection.decks).any()
    sampled, repeated = (
        evaluate_selfplay(policy, GAMES, seed=3, sample=True).records for _ in range(2)
    )
    np.testing.assert_array_equal(sampled.decks, report.decks)
    np.testing.assert_array_equal(sampled.actions, repeated.actions)
    assert (sampled.actions != report.actions).any()


def test_games_of_a_clone_are_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For equal parameters, games and seed; those played first are forgotten."""
    monkeypatch.setattr(selfplay, "_reported", {})
    asked: list[tuple[int, int]] = []

    def played(policy: Any, games: int, seed: int) -> Any:
        asked.append((games, seed))
        return object()

    monkeypatch.setattr(selfplay, "evaluate_selfplay", played)
    clone, copy, other = (network_policy(LENIENT, seed) for seed in (1, 1, 2))
    first = selfplay.clone_selfplay(clone, 8, 0)
    assert selfplay.clone_selfplay(copy, 8, 0) is first and len(asked) == 1
    for policy, games, seed in [(other, 8, 0), (clone, 9, 0), (clone, 8, 1)]:
        assert selfplay.clone_selfplay(policy, games, seed) is not first
    assert asked == [(8, 0), (8, 0), (9, 0), (8, 1)]
    assert selfplay.clone_selfplay(clone, 8, 0) is not first and len(selfplay._reported) == 3


def test_summary_counts_zero_and_perfect_games():
    scores = np.array([[0, 25, 20, 10], [0, 25, 22, 25]])
    summary = summarise(scores, scores + 1, 25)
    assert (summary.median, summary.zero_rate, summary.perfect_rate, summary.num_games) == (
        21,
        2 / 8,
        3 / 8,
        8,
    )
    assert summary.mean.mean == pytest.approx(127 / 8)
    assert summary.points.mean == pytest.approx(127 / 8 + 1)
    figures = json.loads(json.dumps(summary_dict(summary)))
    assert figures["ci95"] == [summary.mean.low, summary.mean.high]


def test_best_median_worst_use_score_then_points():
    score = np.array([3, 0, 0, 12, 0, 12, 5])
    points = np.array([3, 7, 2, 12, 2, 12, 5])
    nothing = np.zeros((7, 0), np.int32)
    records = Games(
        rules=Rules(),
        decks=nothing,
        actions=nothing,
        num_actions=score,
        scores=score,
        game_ids=score,
        unfinished=score < 0,
        ends=FinalStates(points=points, lives=score),
    )
    result = SelfPlayResult(
        summary=summarise(score[None], points[None], 25), records=records, rules=Rules()
    )
    assert result.best_median_worst() == {"best": 3, "median": 0, "worst": 2}


def test_links_replay_their_games():
    result = evaluate_selfplay(clock_policy(Rules(), 3), GAMES, seed=0)
    for name, link in result.links().items():
        index = result.best_median_worst()[name]
        replayed = decode_link(link)
        np.testing.assert_array_equal(replayed.deck, result.records.decks[index])
        np.testing.assert_array_equal(
            replayed.actions, result.records.actions[index, : result.records.num_actions[index]]
        )
    # hanab.live has no such game
    assert evaluate_selfplay(network_policy(LENIENT, 1), GAMES, seed=3).links() == {}
