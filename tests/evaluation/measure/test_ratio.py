"""Ratios of per-game sums, and the registry of measures."""

import dataclasses
import json
from typing import get_args

import numpy as np
import pytest
from support.games import TINY, random_games

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.games import FinalStates, Games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.intervals import bootstrap_ratio, mean_interval
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of
from hanabi_rl.evaluation.measure.registry import (
    MEASURES,
    Group,
    Measure,
    measure_figures,
    measures_of,
)
from hanabi_rl.evaluation.measure.selfplay import summarise
from hanabi_rl.evaluation.reporting.measures import measures_table
from hanabi_rl.evaluation.reporting.tables import to_text
from hanabi_rl.games.hanabi.rules import Rules


def scored(scores: list[int], points: list[int]) -> Games:
    """Games with arbitrary decks and moves; only scores matter."""
    count, zeros = len(scores), np.zeros(len(scores), np.int32)
    return Games(
        rules=Rules(),
        decks=np.tile(np.arange(count, dtype=np.uint8)[:, None], 50),
        actions=np.full((count, 1), Rules().noop, np.int32),
        num_actions=zeros,
        scores=np.array(scores, np.int32),
        game_ids=zeros,
        unfinished=zeros > 0,
        ends=FinalStates(np.array(points, np.int32), zeros),
    )


def test_ratio_resamples_whole_games():
    ratio = Ratio(np.array([3.0, 0.0, 5.0]), np.array([4, 2, 4]), min_value=-np.inf)
    assert ratio.mean == 0.8
    assert ratio.interval == bootstrap_ratio(np.array([3.0, 0, 5]), np.array([4.0, 2, 4]))
    assert ratio.bounds == [ratio.interval.low, ratio.interval.high]
    assert f"{ratio:.3f}" == f"0.800 [{ratio.bounds[0]:.3f}, {ratio.bounds[1]:.3f}]"
    many = Ratio(np.tile([3.0, 0.0, 5.0], 20), np.tile([4, 2, 4], 20))
    # the extremes of resampling repeat one game: 0 / 2 and 5 / 4
    assert 0 <= many.bounds[0] < 0.8 < many.bounds[1] <= 1.25


def test_same_deck_games_are_resampled_together():
    """Twenty decks, each played alike by three teams, count as 20 games."""
    numerators, denominators = np.random.default_rng(0).integers(1, 9, (2, 20)).astype(float)
    decks = np.arange(60) % 20
    whole = Ratio(numerators[decks], denominators[decks]).group_by(decks)
    assert whole.numerator.tolist() == (3 * numerators).tolist()
    np.testing.assert_allclose(whole.interval, Ratio(numerators, denominators).interval)
    alone = Ratio(numerators, denominators)
    assert alone.group_by(np.arange(20)) is alone


def test_measures_group_by_deck():
    games = scored([10, 12, 20, 18, 5, 9], [10, 12, 20, 18, 5, 9])
    games = dataclasses.replace(games, decks=games.decks[[3, 3, 1, 1, 2, 2]])
    assert games.deck_ids.tolist() == [0, 0, 1, 1, 2, 2]
    figures = measure_figures(GameAnalysis(games), measures_of("scores"))
    expected = mean_interval(np.array([11.0, 19, 7]))
    assert figures["score"] == pytest.approx(expected.mean)
    assert expected.low < 0 and expected.high > 25  # outside the range of scores
    assert figures["score_ci95"] == [0, 25]
    pair = dataclasses.replace(games, decks=games.decks[[3, 3, 1, 1, 1, 1]])
    assert measure_figures(GameAnalysis(pair), measures_of("scores"))["score_ci95"] == [0, 25]


def test_unfinished_game_has_no_score():
    games = scored([25, 0, 3, 0, 18], [25, 7, 3, 0, 18])
    left = dataclasses.replace(games, unfinished=np.array([False, False, True, True, False]))
    figures = measure_figures(GameAnalysis(left), measures_of("scores"))
    expected = {"score": 43 / 3, "points": 50 / 3, "zero_rate": 1 / 3, "perfect_rate": 1 / 3}
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value), name
    none = dataclasses.replace(games, unfinished=np.ones(5, bool))
    assert measure_figures(GameAnalysis(none), measures_of("scores"))["score"] is None


def test_per_game_measures_use_finished_games():
    """All per-game measures; rates of turns and hints use all moves."""
    games = random_games(TINY, 60)
    assert 10 < games.unfinished.sum() < 50
    mixed, alone = GameAnalysis(games), GameAnalysis(games.select(~games.unfinished))
    a_game = [
        measure
        for measure in MEASURES.values()
        if measure.unit.endswith((" per game", "of games")) and "own turns" not in measure.unit
    ]
    assert len(a_game) == 16
    for measure in a_game:
        assert measure.of(mixed).mean == measure.of(alone).mean, measure.name
    assert MEASURES["hint_rate"].of(mixed).mean != MEASURES["hint_rate"].of(alone).mean


def test_masked_mean_counts_mask():
    values = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, np.nan]])
    ratio = Ratio.masked_mean(values, np.array([[True, False, True], [False, True, False]]))
    assert ratio.numerator.tolist() == [5.0, 16.0] and ratio.denominator.tolist() == [2, 1]
    assert ratio.mean == 7.0


def test_undefined_ratio_raises():
    ratio = Ratio(np.zeros(3), np.zeros(3))
    assert not ratio.defined
    with pytest.raises(ValueError, match="expected a positive denominator"):
        ratio.mean  # noqa: B018


def test_zero_proportion_has_exact_interval():
    """Clopper and Pearson's 1 - 0.025^(1/n), for n games (or decks) with a positive denominator."""
    never, counted = np.zeros(100), np.full(100, 7.0)
    ratio = Ratio(never, counted, is_proportion=True)
    assert ratio.bounds == [0, pytest.approx(1 - 0.025**0.01)]
    assert Ratio(counted, counted, is_proportion=True).bounds == [pytest.approx(0.025**0.01), 1]
    some = Ratio(never, np.where(np.arange(100) < 60, 7.0, 0), is_proportion=True)
    assert some.bounds[1] == pytest.approx(1 - 0.025 ** (1 / 60))
    decks = ratio.group_by(np.arange(100) % 40)
    assert decks.bounds[1] == pytest.approx(1 - 0.025 ** (1 / 40))
    assert intervals_of([ratio, some]) == [ratio.interval, some.interval]
    assert Ratio(never, counted).bounds == [0, 0]  # a mean has no known range


def test_proportion_interval_is_within_0_and_1():
    few, one = np.array([1.0, 0, 0, 0, 0]), np.array([4.0])
    free = Ratio(few, np.ones(5), min_value=-np.inf).interval
    assert free.low < 0
    for proportion in (False, True):  # a mean of counts is not below 0 either
        assert Ratio(few, np.ones(5), proportion).interval == free._replace(low=0.0)
    assert Ratio(one, one, is_proportion=True).bounds == [-np.inf, np.inf]
    many = np.arange(60) % 2.0
    assert Ratio(many, np.ones(60), is_proportion=True).interval == bootstrap_ratio(
        many, np.ones(60)
    )


def test_few_game_intervals_stay_in_range():
    """Two to five games, which are often extreme: intervals stay in the possible range."""
    for seed, number in enumerate((2, 2, 5)):
        games = random_games(TINY, number, seed)
        record = GameAnalysis(games, load_policy("bot:random", TINY))
        for measure in MEASURES.values():
            ratio = measure.of(record)
            if not ratio.defined or not np.isfinite(ratio.interval.low):
                continue
            low, high = ratio.bounds
            lowest = min(0.0, ratio.mean)  # a corrected estimate of 0 can be slightly negative
            if measure.name.startswith("convention_gap"):
                lowest = -1.0  # a difference of fractions
            highest = (
                1.0
                if ratio.is_proportion
                else TINY.max_score
                if measure.group == "scores"
                else None
            )
            if "nats" in measure.unit and measure.group.startswith("objective"):
                highest = 2 * np.log(TINY.num_actions)
            assert lowest <= low <= ratio.mean <= high, measure.name
            assert highest is None or high <= max(highest, ratio.mean), measure.name


@pytest.mark.parametrize(("games", "proportion"), [(100, 0.01), (41, 0.03), (41, 0.97)])
def test_rare_proportions_have_nominal_coverage(games: int, proportion: float):
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        low, high = Ratio(
            (rng.random(games) < proportion) * 1.0, np.ones(games), is_proportion=True
        ).bounds
        covered += low <= proportion <= high
    assert covered >= 180  # 95% of 200, less three standard errors


def test_proportion_measures_are_marked():
    """In every game the numerator is a part of the denominator."""
    games = random_games(TINY, 20)
    record = GameAnalysis(games, load_policy("bot:random", TINY))
    for measure in MEASURES.values():
        ratio = measure.of(record)
        is_proportion = measure.unit.startswith(("fraction of", "hints per turn"))
        assert ratio.is_proportion == is_proportion, measure.name
        if ratio.is_proportion:
            assert (ratio.numerator >= 0).all(), measure.name
            assert (ratio.numerator <= ratio.denominator).all(), measure.name


def test_score_measures_match_summary():
    scores, points = [0, 25, 20, 0, 12], [7, 25, 20, 3, 12]
    figures = measure_figures(GameAnalysis(scored(scores, points)), measures_of("scores"))
    summary = summarise(np.array([scores]), np.array([points]), 25)
    assert figures["score"] == summary.mean.mean == 57 / 5
    assert figures["points"] == summary.points.mean == 67 / 5
    assert figures["zero_rate"] == summary.zero_rate == 0.4
    assert figures["perfect_rate"] == summary.perfect_rate == 0.2


def test_measures_are_unique_and_described():
    assert [measure.name for measure in MEASURES.values()] == list(MEASURES)
    groups = [measures_of(group) for group in get_args(Group)]
    assert sum(map(len, groups)) == len(MEASURES) == 76
    assert all(measure.label and measure.unit and measure.source for measure in MEASURES.values())


def test_new_measure_needs_one_entry():
    def final_lives(record: GameAnalysis) -> Ratio:
        return Ratio(record.games.lives.astype(float), np.ones(len(record.games)))

    games = scored([3, 0], [3, 7])
    measure = Measure(
        "lives",
        "lives left",
        "lives per game",
        final_lives,
        published={2: {"them": 1.5}},
        group="scores",
    )
    figures = json.loads(json.dumps(measure_figures(GameAnalysis(games), [measure])))
    assert figures == {"lives": 0.0, "lives_ci95": [0.0, 0.0]}
    text = to_text(measures_table(figures, [measure], Rules()))
    assert text.splitlines()[1].split()[-1] == "1.50"
    assert "them" not in to_text(measures_table(figures, [measure], Rules(max_life_tokens=1)))


def test_prediction_needs_a_policy():
    with pytest.raises(ValueError, match="expected a policy to predict the games"):
        MEASURES["accuracy"].of(GameAnalysis(scored([1], [1])))
