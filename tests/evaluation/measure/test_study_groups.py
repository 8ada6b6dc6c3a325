"""A study in which people played with each other, against figures computed by hand and from
simulated people; and that of one in which nobody did, nothing is changed."""

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
GAMES = [  # two people and their score: pairs, of whom one played twice, and a triangle
    *[((0, 1), 20), ((0, 1), 14), ((2, 3), 0), ((4, 5), 12), ((5, 6), 21), ((4, 6), 9)],
    *[((7, 8), 17), ((9, 10), 23), ((11, 12), 8), ((13, 14), 15)],
]
LEFT = [(2, 3)]
GROUP = [0, 0, 2, 2, 4, 4, 4, 7, 7, 9, 9, 11, 11, 13, 13]
RATINGS = [5, 6, 2, 3, 4, 6, 5, 6, 3, 7, 6, 2, 2, 4, 4]
OF_BOT = [(14, 4), (9, 3), (11, 4), (12, 3), (15, 5), (16, 4), (7, 4), (18, 5), (13, 6)]
OF_BOT += [(10, 4), (17, 5), (12, 4), (15, 1), (16, 3), (14, 5)]  # score and rating, a person


def place_of(mine, other):
    return 1 + (mine < other)


def people():
    """What `blocks_of` makes of such a study."""
    blocks = []
    for person in range(len(GROUP)):
        shared = [(number, score) for number, (who, score) in enumerate(GAMES) if person in who]
        scores = tuple(score for _, score in shared)
        gone = [(len(GAMES) + number, None) for number, who in enumerate(LEFT) if person in who]
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
    """Estimate and standard error of a statistic of the groups that are kept."""
    groups = sorted(set(GROUP))
    without = np.array([statistic([k for k in groups if k != out]) for out in groups])
    count = len(groups)
    return statistic(groups), np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())


def test_a_game_of_two_people_counts_once_and_its_interval_is_over_groups():
    of = agent_figures(people(), AGENTS)[0]
    assert (of.people, of.groups, of.games, of.left) == (15, 7, 10, 1)

    def points(groups):
        return np.mean([score for who, score in GAMES if GROUP[who[0]] in groups])

    def rating(groups):
        return np.mean([RATINGS[who] for who, group in enumerate(GROUP) if group in groups])

    for figure, statistic in ((of.score, points), (of.rating, rating)):
        estimate, error = jackknife(statistic)
        assert (figure.people, figure.groups) == (15, 7)
        assert figure.interval.mean == pytest.approx(estimate)
        assert figure.interval.std_error == pytest.approx(error)
        reach = 2.446912 * error  # Student's t of 6 degrees of freedom at 97.5%
        assert figure.interval.high == pytest.approx(estimate + reach, rel=1e-5)
    assert of.zero_rate.interval.mean == pytest.approx(1 / 10)


def test_groups_are_of_the_games_that_a_figure_is_about():
    """Who played with each other played with the bot alone."""
    blocks = people()
    mine, theirs = ([each for each in blocks if each.agent == agent] for agent in AGENTS)
    assert person_groups(mine) == person_groups(blocks) == dict(enumerate(GROUP))
    assert person_groups(theirs) == {person: person for person in range(15)}
    of = agent_figures(blocks, AGENTS)[1]
    scores = np.array([score for score, _ in OF_BOT])
    assert (of.people, of.groups, of.games) == (15, 15, 15)
    assert of.score.interval.std_error == pytest.approx(scores.std(ddof=1) / np.sqrt(15))


def test_a_share_of_all_or_none_is_as_sure_as_the_groups_are_many():
    lost = [each for each in people() if 0 not in each.scores]  # without the one pair that had 0
    never = agent_figures(lost, ["person"])[0].zero_rate
    assert (never.people, never.groups, never.interval.mean) == (13, 6, 0)
    assert never.interval.high == pytest.approx(1 - 0.025 ** (1 / 6))


def test_agents_are_compared_by_the_means_of_groups():
    score, rating, preference = compare_agents(people(), AGENTS)
    own = [np.mean([score for who, score in GAMES if person in who]) for person in range(15)]
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
    # What they like more, by groups: + +, - and a tie, - + + (the triangle), + -, + +, - +, + -:
    # three are torn.
    assert (preference.n, preference.groups) == (2 + 1 + 3 + 2, 4)
    assert preference.p is None


def test_a_group_has_one_vote():
    def votes(*groups):
        """Groups of people, each True who puts the person first."""
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


def test_a_line_is_fitted_with_groups_left_out_whole():
    blocks = people()
    curves = rating_curves(blocks)
    x, y = np.array([each.score for each in blocks]), np.array([each.rating for each in blocks])
    who = np.array([GROUP[each.person] for each in blocks])

    def slope(groups):
        return np.polyfit(x[np.isin(who, groups)], y[np.isin(who, groups)], 1)[0]

    estimate, error = jackknife(slope)
    assert (curves.line.n, curves.line.groups, len(curves.scores)) == (15, 7, 30)
    assert curves.slope == pytest.approx(estimate)
    assert curves.line.estimate.std_error == pytest.approx(error)
    assert curves.line.p == pytest.approx(2 * stats.t.sf(abs(estimate / error), 6))
    assert curves.parabola.p is None and curves.vertex is None  # 12 groups for a parabola


def test_direct_comparisons_are_tested_by_the_means_of_groups():
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


def test_a_rho_over_agents_has_its_interval_over_groups():
    """Pairs tell no more than as many people who say what the two say on average."""
    rng = np.random.default_rng(0)
    said = rng.normal(size=(35, 5)) + 0.3 * np.arange(5)
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

    once, twice = found(said), found(said + apart, said - apart)
    assert 0 < once.estimate.std_error < np.inf
    assert twice.p == once.p and twice.estimate == pytest.approx(once.estimate)


def test_too_few_groups_give_no_figure_and_words_that_say_so():
    few = [each for each in people() if each.person < 11]
    report = report_of(few, AGENTS)
    person, bot = report.agents
    assert person.score.interval is None  # 5 groups of 11 people
    assert (bot.groups, bot.score.groups) == (11, 11) and bot.score.interval is not None
    assert all(each.p is None for each in report.findings)
    text = text_of(report_parts, report)
    assert "too few people: 11 in 5 groups" in text
    assert f"too few groups: at least {MIN_GROUPS}" in text
    figures = report_dict(report)["agents"][0]
    assert (figures["people"], figures["groups"], figures["games"]) == (11, 5, 8)
    assert (figures["score"], figures["score_people"], figures["score_groups"]) == (None, 11, 5)
    unit = "People who played together, directly or through others, are one unit."
    assert unit in text and unit in text_of(report_parts, report_of(people(), AGENTS))


def test_where_nobody_played_with_another_person_figures_are_as_of_people():
    """To the last bit, people in the order in which they came, whatever their numbers are."""
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
        assert of.score == (35, 35, bootstrap_ratio(points, games))
        assert of.rating == (35, 35, bootstrap_ratio(ratings[of.agent], np.ones(35)))
    rating, preference = report.comparisons[1:]
    assert rating.estimate == mean_interval(ratings["person"] - ratings["bot"])
    first = int((ratings["person"] > ratings["bot"]).sum())
    assert preference.p == stats.binomtest(first, 35).pvalue
    assert (preference.n, preference.groups) == (35, 35)
    assert "unit" not in text_of(report_parts, report) and "groups" not in text_of(
        report_parts, report
    )


def drawn(rng, together):
    """24 people in 12 pairs, whose games with each other are on a level of their own about 15, who
    like them about as well as each other; and each with a bot, alone."""
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
def test_intervals_of_pairs_cover_and_those_of_their_people_would_not(together):
    """400 studies, each read as it is, and as if the people of a pair had nothing in common."""
    cover, false = [], []
    for study in range(400):
        blocks = drawn(np.random.default_rng(study), together)
        of = agent_figures(blocks, ["person"])[0]
        truths = (of.score.interval, 15), (of.rating.interval, 4)
        cover.append([interval.low < truth < interval.high for interval, truth in truths])
        false.append([each.p < 0.05 for each in compare_agents(blocks, AGENTS)[:2]])
    (score, rating), (score_gap, rating_gap) = np.mean(cover, axis=0), np.mean(false, axis=0)
    if together:
        assert min(score, rating) > 0.92 and max(score_gap, rating_gap) < 0.08
    else:
        assert score < 0.83 and rating < 0.9 and min(score_gap, rating_gap) > 0.09
