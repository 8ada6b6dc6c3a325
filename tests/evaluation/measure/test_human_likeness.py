"""Human-likeness: split-half variation among humans, and agents within it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from support.games import TINY, random_games, teacher_games

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.events import event_counts
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.human_likeness import (
    COMPARED_MEASURES,
    DISTANCE,
    HumanLikeness,
    compare_with_humans,
    human_variation,
    read_measures,
    split_half_differences,
)
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.events import EVENTS
from hanabi_rl.games.hanabi.rules import Rules


def measures_of(games):
    return read_measures(GameAnalysis(games))


@pytest.fixture(scope="module")
def people():
    return measures_of(teacher_games(TINY, 60, seed=0))


def test_split_half_differences() -> None:
    """Five decks have ten splits, which occur equally often."""
    rng = np.random.default_rng(0)
    names = (*EVENTS, "score")
    tops, bottoms = rng.integers(0, 9, (len(names), 5)), rng.integers(1, 9, (len(names), 5))
    people = {n: Ratio(a, b) for n, a, b in zip(names, tops, bottoms, strict=True)}
    found = split_half_differences(people, 4000, 3)
    expected: dict[str, list[float]] = {name: [] for name in [*names, DISTANCE]}
    for pair in itertools.combinations(range(5), 2):
        rest = [deck for deck in range(5) if deck not in pair]
        for name, top, bottom in zip(names, tops, bottoms, strict=True):
            one = sum(top[deck] for deck in pair) / sum(bottom[deck] for deck in pair)
            other = sum(top[deck] for deck in rest) / sum(bottom[deck] for deck in rest)
            expected[name].append(one - other)
        expected[DISTANCE].append(sum(abs(expected[name][-1]) for name in EVENTS))
    for name, values in expected.items():
        nearest = np.abs(found[name][:, None] - np.array(values)).argmin(axis=1)
        np.testing.assert_allclose(found[name], np.array(values)[nearest], atol=1e-12)
    halves = np.abs(found["score"][:, None] - np.array(expected["score"])).argmin(axis=1)
    fractions = np.bincount(halves, minlength=10) / 4000
    np.testing.assert_allclose(fractions, 0.1, atol=0.025)  # five standard errors
    spread = human_variation(people, 4000, 3)
    assert spread.decks == 5
    # 95% quantile of ten equally likely values: the maximum
    assert spread.of["score"] == pytest.approx(np.abs(expected["score"]).max())


def test_same_play_is_within_variation(people) -> None:
    same, other = (measures_of(teacher_games(TINY, 60, 1, newest)) for newest in (False, True))
    found = HumanLikeness(people, human_variation(people), {"same": same, "other": other})
    names = [measure.name for measure in COMPARED_MEASURES] + [DISTANCE]
    assert all(found.within("same", name) for name in names)
    assert found.count_within("same") == (len(names), len(names))
    among, known = found.count_within("other")
    assert among < known == len(names)
    assert found.within("other", "discard_chop") is found.within("other", DISTANCE) is False
    rates = {label: [h[e].mean for e in EVENTS] for label, h in found.agents.items()}
    theirs = [people[event].mean for event in EVENTS]
    assert found.difference("other", DISTANCE) == pytest.approx(
        np.abs(np.subtract(rates["other"], theirs)).sum()
    )


def test_measures_use_counted_finished_decks() -> None:
    games = random_games(TINY, 8, seed=5)
    games = dataclasses.replace(
        games.select([0, 1, 2, 3, 4, 5, 6, 7, 0]),
        human_seats=np.array([[True, False]] * 4 + [[True, True]] * 5),
    )
    found = measures_of(games)
    counts, turns = event_counts(games), (games.num_actions[:, None] + np.array([1, 0])) // 2
    rate = (counts[:4, 0].sum(0) + counts[4:].sum((0, 1))) / (turns[:4, 0].sum() + turns[4:].sum())
    assert [found[event].mean for event in EVENTS] == pytest.approx(rate.tolist())
    assert all(len(ratio.numerator) == 8 for ratio in found.values())
    finished = ~games.unfinished
    assert 0 < finished.sum() < 9
    assert found["score"].mean == games.scores[finished].mean()
    assert found["length"].mean == games.num_actions[finished].mean()


def test_unobserved_measures_are_none(people) -> None:
    nothing = Ratio(np.zeros(60), np.zeros(60))
    silent = HumanLikeness(people, human_variation(people), {"agent": {**people, "score": nothing}})
    assert silent.within("agent", "score") is silent.difference("agent", "score") is None
    assert silent.count_within("agent") == (len(COMPARED_MEASURES), len(COMPARED_MEASURES))
    assert human_variation({**people, "score": nothing}).of["score"] is None
    with pytest.raises(ValueError, match="expected games on at least two decks"):
        human_variation(measures_of(teacher_games(TINY, 1)))


@pytest.mark.slow
def test_bot_matches_own_games() -> None:
    rules = Rules(num_players=3)
    bots = {name: load_policy(name, rules) for name in ("bot:convention", "bot:simple")}
    own = evaluate_selfplay(bots["bot:convention"], 60, 7, purpose="demos").records
    found = compare_with_humans(own, bots, num_games=60, clone=bots["bot:convention"])
    among, known = found.count_within("bot:convention")
    assert among == known == len(COMPARED_MEASURES) + 1
    assert found.count_within("bot:simple")[0] < known - 10
    assert found.predictions["bot:convention"].accuracy().mean == 1.0
    assert found.with_clone["bot:convention"].mean > found.with_clone["bot:simple"].mean
