"""Study in which people played together, against figures by hand and on simulated people; without
such games the results equal those over people."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from support.tables import text_of

from hanabi_rl.evaluation.measure.intervals import (
    bootstrap_ratio,
    clopper_pearson_interval,
    mean_interval,
)
from hanabi_rl.evaluation.measure.study import (
    MIN_GROUPS,
    PersonAgentData,
    SharedGame,
    agent_figures,
    person_groups,
)
from hanabi_rl.evaluation.measure.study_statistics import (
    across_agents,
    compare_agents,
    rating_curves,
)
from hanabi_rl.evaluation.measure.study_summary import report_of
from hanabi_rl.evaluation.reporting.study import report_dict, report_parts

AGENTS = ["person", "bot"]
GAMES = [  # two people and their score: pairs, one of which played twice, and a triangle
    *[((0, 1), 20), ((0, 1), 14), ((2, 3), 0), ((4, 5), 12), ((5, 6), 21), ((4, 6), 9)],
    *[((7, 8), 17), ((9, 10), 23), ((11, 12), 8), ((13, 14), 15)],
]
LEFT = [(2, 3)]
GROUP = [0, 0, 2, 2, 4, 4, 4, 7, 7, 9, 9, 11, 11, 13, 13]
RATINGS = [5, 6, 2, 3, 4, 6, 5, 6, 3, 7, 6, 2, 2, 4, 4]
OF_BOT = [(14, 4), (9, 3), (11, 4), (12, 3), (15, 5), (16, 4), (7, 4), (18, 5), (13, 6)]
# score and rating, one person each
OF_BOT += [(10, 4), (17, 5), (12, 4), (15, 1), (16, 3), (14, 5)]


def place_of(mine, other):
    return 1 + (mine < other)


def people():
    """The data that `blocks_of` builds for such a study."""
    blocks = []
    for person in range(len(GROUP)):
        shared = [(number, score) for number, (pair, score) in enumerate(GAMES) if person in pair]
        scores = tuple(score for _, score in shared)
        gone = [(len(GAMES) + number, None) for number, pair in enumerate(LEFT) if person in pair]
        score, rating = OF_BOT[person]
        places = place_of(RATINGS[person], rating), place_of(rating, RATINGS[person])
        mine = {"rating": float(RATINGS[person]), "rank": places[0]}
        mine |= {
            "abandoned": len(gone),
            "shared": tuple(SharedGame(*game) for game in shared + gone),
        }
        blocks.append(PersonAgentData(person, "person", scores, **mine))
        theirs = {"rating": float(rating), "rank": places[1]}
        blocks.append(PersonAgentData(person, "bot", (score,), **theirs))
    return blocks


def jackknife(statistic):
    """Jackknife estimate and standard error over groups."""
    groups = sorted(set(GROUP))
    without = np.array([statistic([k for k in groups if k != out]) for out in groups])
    count = len(groups)
    return statistic(groups), np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())


def test_shared_game_counts_once():
    of = agent_figures(people(), AGENTS)[0]
    assert (of.people, of.groups, of.games, of.left) == (15, 7, 10, 1)

    def points(groups):
        return np.mean([score for pair, score in GAMES if GROUP[pair[0]] in groups])

    def rating(groups):
        return np.mean([RATINGS[person] for person, group in enumerate(GROUP) if group in groups])

    for figure, statistic in ((of.score, points), (of.rating, rating)):
        estimate, error = jackknife(statistic)
        assert (figure.people, figure.groups) == (15, 7)
        assert figure.interval.mean == pytest.approx(estimate)
        assert figure.interval.std_error == pytest.approx(error)
        reach = 2.446912 * error  # t quantile, 6 degrees of freedom, 97.5%
        assert figure.interval.high == pytest.approx(estimate + reach, rel=1e-5)
    assert of.zero_rate.interval.mean == pytest.approx(1 / 10)


def test_groups_depend_on_counted_games():
    """People who played together played with the bot alone."""
    blocks = people()
    mine, theirs = ([each for each in blocks if each.agent == agent] for agent in AGENTS)
    assert person_groups(mine) == person_groups(blocks) == dict(enumerate(GROUP))
    assert person_groups(theirs) == {person: person for person in range(15)}
    of = agent_figures(blocks, AGENTS)[1]
    scores = np.array([score for score, _ in OF_BOT])
    assert (of.people, of.groups, of.games) == (15, 15, 15)
    assert of.score.interval.std_error == pytest.approx(scores.std(ddof=1) / np.sqrt(15))


def test_extreme_proportion_interval_uses_groups():
    lost = [each for each in people() if 0 not in each.scores]  # without the pair with 0
    never = agent_figures(lost, ["person"])[0].zero_rate
    assert (never.people, never.groups, never.interval.mean) == (13, 6, 0)
    assert never.interval.high == pytest.approx(1 - 0.025 ** (1 / 6))


def test_agents_are_compared_by_group_means():
    score, rating, preference = compare_agents(people(), AGENTS)
    own = [np.mean([score for pair, score in GAMES if person in pair]) for person in range(15)]
    gaps = {
        "score": np.array(own) - [score for score, _ in OF_BOT],
        "rating": np.array(RATINGS) - [rating for _, rating in OF_BOT],
    }
    for found in (score, rating):
        means = [gaps[found.kind][np.array(GROUP) == group].mean() for group in sorted(set(GROUP))]
        t = np.mean(means) / (np.std(means, ddof=1) / np.sqrt(7))
        assert (found.n, found.groups) == (15, 7)
        assert found.estimate.mean == pytest.approx(np.mean(means))
        assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 6))
    # preferences by group: + +, - and a tie, - + + (the triangle), + -, + +, - +, + -: three ties
    assert (preference.n, preference.groups) == (2 + 1 + 3 + 2, 4)
    assert preference.p is None


def test_group_has_one_vote():
    def votes(*groups):
        """Ranks of groups of people, True for those who put the person first."""
        blocks, number = [], 0
        for people in groups:
            for person, first in enumerate(people, number):
                together = (SharedGame(number, 20),)
                blocks.append(
                    PersonAgentData(person, "person", (20,), shared=together, rank=2 - first)
                )
                blocks.append(PersonAgentData(person, "bot", rank=1 + first))
            number += len(people)
        return compare_agents(blocks, AGENTS)[2]

    alone = votes(*[[True]] * 5, [False])
    together = votes([True] * 2, [True] * 9, [True, True, False], [True], [True], [False])
    torn = votes([True, False], *[[True]] * 5, [False])
    assert (together.n, together.groups) == (17, 6) and (torn.n, torn.groups) == (6, 6)
    for found in (alone, together, torn):
        assert found.p == pytest.approx(2 * (1 + math.comb(6, 1)) / 2**6)  # 5 of 6
        assert found.estimate == pytest.approx(clopper_pearson_interval(5, 6), nan_ok=True)


def test_line_jackknife_leaves_out_groups():
    blocks = people()
    curves = rating_curves(blocks)
    x, y = np.array([each.score for each in blocks]), np.array([each.rating for each in blocks])
    group = np.array([GROUP[each.person] for each in blocks])

    def slope(groups):
        return np.polyfit(x[np.isin(group, groups)], y[np.isin(group, groups)], 1)[0]

    estimate, error = jackknife(slope)
    assert (curves.line.n, curves.line.groups, len(curves.scores)) == (15, 7, 30)
    assert curves.slope == pytest.approx(estimate)
    assert curves.line.estimate.std_error == pytest.approx(error)
    assert curves.line.p == pytest.approx(2 * stats.t.sf(abs(estimate / error), 6))
    assert curves.parabola.p is None and curves.vertex is None  # a parabola needs 12 groups


def test_direct_preference_uses_group_means():
    values = np.array(
        [1.0, 2.5, -0.5, 0.0, 1.5, 2.0, 0.5, -1.0, 2.0, 0.0, 3.0, -2.0, 1.0, 0.5, 1.0]
    )
    blocks = [
        dataclasses.replace(
            each, preference=values[each.person] * (1 if each.agent == "bot" else -1)
        )
        for each in people()
    ]
    rather = compare_agents(blocks, ["bot", "person"])[-1]
    means = [values[np.array(GROUP) == group].mean() for group in sorted(set(GROUP))]
    assert (rather.kind, rather.n, rather.groups) == ("rather", 15, 7)
    assert rather.estimate == mean_interval(np.array(means))


def test_rho_interval_uses_groups():
    """Pairs of people count as one person with their mean ratings."""
    rng = np.random.default_rng(0)
    ratings_of = rng.normal(size=(35, 5)) + 0.3 * np.arange(5)
    apart, agents = rng.normal(size=(35, 5)), "abcde"

    def found(*copies):
        blocks = [
            PersonAgentData(
                100 * number + group,
                agent,
                abandoned=int(agent == "a"),
                shared=(SharedGame(group, None),) if agent == "a" else (),
                rating=float(ratings[group, place]),
            )
            for number, ratings in enumerate(copies)
            for group in range(35)
            for place, agent in enumerate(agents)
        ]
        return across_agents(blocks, {agent: k for k, agent in enumerate(agents)}, "x")[0]

    once, twice = found(ratings_of), found(ratings_of + apart, ratings_of - apart)
    assert 0 < once.estimate.std_error < np.inf
    assert twice.p == once.p and twice.estimate == pytest.approx(once.estimate)


def test_too_few_groups_give_no_interval():
    few = [each for each in people() if each.person < 11]
    report = report_of(few, AGENTS)
    person, bot = report.agents
    assert person.score.interval is None  # 5 groups of 11 people
    assert (bot.groups, bot.score.groups) == (11, 11) and bot.score.interval is not None
    assert all(each.p is None for each in report.findings)
    text = text_of(report_parts, report)
    assert "(11 people in 5 groups)" in text
    assert f"too few groups: at least {MIN_GROUPS}" in text
    figures = report_dict(report)["agents"][0]
    assert (figures["people"], figures["groups"], figures["games"]) == (11, 5, 8)
    assert (figures["score_people"], figures["score_groups"]) == (11, 5)
    assert figures["score"] == person.score.mean and figures["score_ci95"] is None
    unit = "People linked by games together count as one group."
    assert unit in text and unit in text_of(report_parts, report_of(people(), AGENTS))


def test_groups_of_one_match_people():
    """Bit-identical, for people in any order and with any numbers."""
    rng = np.random.default_rng(1)
    numbers = rng.choice(10**6, 35, replace=False).tolist()
    scores = {agent: rng.integers(0, 25, (35, 2)) for agent in AGENTS}
    ratings = {agent: rng.normal(4, 1, 35) for agent in AGENTS}
    blocks = [
        PersonAgentData(
            number,
            agent,
            tuple(scores[agent][row, : 1 + row % 2].tolist()),
            rating=float(ratings[agent][row]),
            rank=place_of(ratings[agent][row], sum(ratings[a][row] for a in AGENTS) / 2),
        )
        for agent in AGENTS
        for row, number in enumerate(numbers)
    ]
    report = report_of(blocks, AGENTS)
    for of in report.agents:
        games = 1 + np.arange(35) % 2
        points = scores[of.agent].cumsum(axis=1)[np.arange(35), games - 1]
        score, rating = (
            bootstrap_ratio(points, games),
            bootstrap_ratio(ratings[of.agent], np.ones(35)),
        )
        assert of.score == (35, 35, score.mean, score)
        assert of.rating == (35, 35, rating.mean, rating)
    rating, preference = report.comparisons[1:]
    assert rating.estimate == mean_interval(ratings["person"] - ratings["bot"])
    first = int((ratings["person"] > ratings["bot"]).sum())
    assert preference.p == stats.binomtest(first, 35).pvalue
    assert (preference.n, preference.groups) == (35, 35)
    assert "unit" not in text_of(report_parts, report) and "groups" not in text_of(
        report_parts, report
    )


def simulated(rng, together):
    """24 people in 12 pairs, whose shared games have a pair-specific level about 15 and who rate
    each other similarly; and each alone with a bot."""
    blocks = []
    for person in range(24):
        first = person % 2 == 0
        if first:
            level, liked = 15 + rng.normal(0, 2), 4 + rng.normal(0, 0.7)
            scores = tuple(int(s) for s in (level + rng.normal(0, 3, 3)).round())
        games = [
            SharedGame(3 * (person // 2) + number, score) for number, score in enumerate(scores)
        ]
        shared = tuple(games) if together else ()
        rating = liked + rng.normal(0, 0.7)
        blocks.append(PersonAgentData(person, "person", scores, shared=shared, rating=rating))
        own = tuple(int(s) for s in (15 + rng.normal(0, 2) + rng.normal(0, 3, 3)).round())
        blocks.append(PersonAgentData(person, "bot", own, rating=4 + rng.normal(0, 0.7)))
    return blocks


@pytest.mark.parametrize("together", [True, False])
def test_group_intervals_have_nominal_coverage(together):
    """400 studies, with pairs declared and, for comparison, treated as independent people."""
    cover, false = [], []
    for study in range(400):
        blocks = simulated(np.random.default_rng(study), together)
        of = agent_figures(blocks, ["person"])[0]
        truths = (of.score.interval, 15), (of.rating.interval, 4)
        cover.append([interval.low < truth < interval.high for interval, truth in truths])
        false.append([each.p < 0.05 for each in compare_agents(blocks, AGENTS)[:2]])
    (score, rating), (score_gap, rating_gap) = np.mean(cover, axis=0), np.mean(false, axis=0)
    if together:
        assert min(score, rating) > 0.92 and max(score_gap, rating_gap) < 0.08
    else:
        assert score < 0.83 and rating < 0.9 and min(score_gap, rating_gap) > 0.09
