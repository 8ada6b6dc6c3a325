"""Action entropies and instantaneous coordination, against counts by hand and closed forms."""

import math
from collections import Counter

import numpy as np
import pytest
from support.games import random_games

from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import action_information
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask, with_counted_seats
from hanabi_rl.games.hanabi.rules import Rules


def as_record(moves: np.ndarray, rules: Rules | None = None) -> GameAnalysis:
    """Games with actions int[N, T], which need not be legal."""
    rules, count = rules or Rules(), len(moves)
    return GameAnalysis(
        Games(
            rules=rules,
            decks=np.zeros((count, rules.deck_size), np.uint8),
            actions=np.asarray(moves, np.int32),
            num_actions=(np.asarray(moves) != rules.noop).sum(axis=1),
            scores=np.zeros(count, np.int32),
            game_ids=np.arange(count),
            unfinished=np.zeros(count, bool),
        )
    )


def entropy(counts: Counter) -> float:
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def by_hand(games: Games) -> dict[str, float]:
    """Every metric from counted tuples, one move at a time."""
    own, pairs, answers = Counter(), Counter(), Counter()
    for game in range(len(games)):
        moves = [int(move) for move in games.moves(game)]
        for turn, move in enumerate(moves):
            seat = turn % games.rules.num_players
            if games.human_seats is not None and not games.human_seats[game, seat]:
                continue
            own[move] += 1
            if turn > 0:
                pairs[moves[turn - 1], move] += 1
            if turn + 1 < len(moves):
                answers[move, moves[turn + 1]] += 1

    def information(joint: Counter) -> tuple[float, float]:
        before, after = Counter(), Counter()
        for (first, second), count in joint.items():
            before[first] += count
            after[second] += count
        plugin = entropy(before) + entropy(after) - entropy(joint)
        bias = (len(joint) - len(before) - len(after) + 1) / (2 * sum(joint.values()))
        return plugin, plugin - bias

    return {
        "action_entropy": entropy(own),
        "action_entropy_corrected": entropy(own) + (len(own) - 1) / (2 * sum(own.values())),
        "response_entropy": entropy(pairs),
        "coordination_plugin": information(pairs)[0],
        "instantaneous_coordination": information(pairs)[1],
        "coordination_of_partner": information(answers)[1],
    }


@pytest.mark.parametrize("players", [2, 3])
@pytest.mark.parametrize("seats", ["all", "some"])
def test_metrics_match_definitions(players, seats):
    games = random_games(Rules(num_players=players), 12)
    if seats == "some":
        games = with_counted_seats(games, np.random.default_rng(2).random((12, players)) < 0.5)
    for name, expected in by_hand(games).items():
        ratio = getattr(action_information, name)(GameAnalysis(games))
        assert ratio.mean == pytest.approx(expected, abs=1e-12), name
        assert ratio.interval.low <= ratio.mean <= ratio.interval.high


def test_seats_add_up():
    games = random_games(Rules(num_players=3), 10)
    seats = [with_counted_seats(games, np.arange(3) == seat) for seat in range(3)]
    for name in by_hand(games):
        counted = [
            getattr(action_information, name)(GameAnalysis(part)).denominator for part in seats
        ]
        assert np.array_equal(
            sum(counted), getattr(action_information, name)(GameAnalysis(games)).denominator
        )
    assert np.array_equal(sum(map(counted_turn_mask, seats)), counted_turn_mask(games))
    together = action_information.responses(games)
    assert (
        sum(action_information.responses(part).counted for part in seats) == together.counted
    ).all()


def test_uniform_moves_have_closed_form():
    """AD-entropy is ln 20, ARD-entropy ln 400; IC without correction is on average (20 - 1)^2 / 2n,
    corrected 0."""
    record = as_record(np.random.default_rng(0).integers(20, size=(400, 60)))
    pairs = 400 * 59
    assert action_information.action_entropy(record).mean == pytest.approx(math.log(20), abs=2e-3)
    assert action_information.action_entropy_corrected(record).mean == pytest.approx(
        math.log(20), abs=1e-3
    )
    assert action_information.response_entropy(record).mean == pytest.approx(
        math.log(400), abs=2e-2
    )
    # 2n * uncorrected IC is chi-squared with 361 degrees of freedom
    plugin, deviation = (
        action_information.coordination_plugin(record).mean,
        math.sqrt(2 * 361) / (2 * pairs),
    )
    assert plugin == pytest.approx(361 / (2 * pairs), abs=4 * deviation)
    assert action_information.instantaneous_coordination(record).mean == pytest.approx(
        0, abs=4 * deviation
    )


def test_coordination_measures_the_responder():
    """Seat 1 repeats seat 0's uniform move: IC of seat 1 is ln 20, of seat 0 about 0."""
    moves = np.repeat(np.random.default_rng(1).integers(20, size=(300, 30)), 2, axis=1)
    games = as_record(moves).games
    copies, copied = (
        GameAnalysis(with_counted_seats(games, np.arange(2) == seat)) for seat in (1, 0)
    )
    assert action_information.coordination_plugin(copies).mean == pytest.approx(
        math.log(20), abs=5e-3
    )
    assert action_information.response_entropy(copies).mean == pytest.approx(math.log(20), abs=5e-3)
    assert action_information.instantaneous_coordination(copied).mean == pytest.approx(0, abs=5e-3)
    assert action_information.coordination_of_partner(copied).mean == pytest.approx(
        math.log(20), abs=0.02
    )


def test_constant_agent_has_zero_entropy():
    moves = np.zeros((5, 8), int)
    moves[:, 1::2] = [3, 4, 3, 4]  # seat 1 alternates, independently of seat 0's constant move
    constant, alternating = (
        GameAnalysis(with_counted_seats(as_record(moves).games, np.arange(2) == seat))
        for seat in (0, 1)
    )
    assert action_information.action_entropy(constant).mean == 0
    assert action_information.action_entropy(alternating).mean == pytest.approx(math.log(2))
    assert action_information.response_entropy(alternating).mean == pytest.approx(math.log(2))
    assert action_information.instantaneous_coordination(alternating).mean == pytest.approx(0)


def test_first_move_is_in_no_pair():
    record = GameAnalysis(
        with_counted_seats(as_record(np.array([[7, 20]])).games, np.array([True, False]))
    )
    assert action_information.action_entropy(record).mean == 0
    assert not action_information.response_entropy(record).defined
    assert not action_information.instantaneous_coordination(record).defined


@pytest.mark.slow  # 200 bootstraps
def test_entropy_interval_has_nominal_coverage():
    """95% of 200 samples of a known distribution: about 190."""
    rng, probabilities = np.random.default_rng(3), np.array([0.5, 0.25, 0.15, 0.1])
    truth = -(probabilities * np.log(probabilities)).sum()
    covered = 0
    for _ in range(200):
        record = as_record(rng.choice(4, p=probabilities, size=(60, 20)))
        interval = action_information.action_entropy_corrected(record).interval
        covered += interval.low <= truth <= interval.high
    assert 180 <= covered <= 199
