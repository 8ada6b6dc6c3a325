"""Study report, against figures by hand and on simulated people."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from support.tables import text_of

from hanabi_rl.evaluation.measure.study import MIN_GROUPS, PersonAgentData, agent_figures
from hanabi_rl.evaluation.measure.study_statistics import (
    across_agents,
    compare_agents,
    corrected,
    holm,
    rating_curves,
)
from hanabi_rl.evaluation.measure.study_summary import report_of
from hanabi_rl.evaluation.reporting.study import report_dict, report_parts

SCORES = {"a": [20, 18, 15, 0, 22, 17, 19], "b": [14, 15, 13, 12, 16, 11, 15]}
RATINGS = {"a": [6, 5, 6, 3, 7, 6, 6], "b": [4, 4, 5, 4, 3, 5, 2]}


def people(count=7):
    """Two games with each agent, the second a point above the first unless that is 0."""
    return [
        PersonAgentData(
            person,
            agent,
            scores=(score, score + (score > 0)),
            rating=float(RATINGS[agent][person]),
            rank=1 + ((RATINGS["a"][person] > RATINGS["b"][person]) == (agent == "b")),
            partner_moves=50,
            flagged_moves=person if agent == "a" else 0,
        )
        for agent in ("a", "b")
        for person, score in enumerate(SCORES[agent][:count])
    ]


def test_agent_figures_have_intervals_over_people():
    first, second = agent_figures(people(), ["a", "b"])
    assert (first.people, first.games, first.left) == (7, 14, 0)
    scores = np.array(SCORES["a"]) + 0.5 * (np.array(SCORES["a"]) > 0)
    error = scores.std(ddof=1) / np.sqrt(7)  # equal numbers of games: the mean of means
    reach = 2.446912 * error  # t quantile, 6 degrees of freedom, 97.5%
    score = first.score.interval
    assert score.mean == pytest.approx(scores.mean())
    assert score.bounds == pytest.approx([scores.mean() - reach, scores.mean() + reach], rel=1e-5)
    assert first.zero_rate.interval.mean == pytest.approx(2 / 14)
    assert first.rating.interval.mean == pytest.approx(np.mean(RATINGS["a"]))
    assert first.first_share.interval.mean == pytest.approx(6 / 7)
    assert first.questioned.interval.mean == pytest.approx(21 / 350)
    assert second.questioned.interval.mean == 0
    # none of seven: 1 - 0.025^(1/7) is the exact upper bound
    assert second.questioned.interval.high == pytest.approx(1 - 0.025 ** (1 / 7))
    assert second.zero_rate.interval.low == 0


def test_more_games_do_not_narrow_intervals():
    once = people()
    thrice = [dataclasses.replace(each, scores=each.scores * 3) for each in once]
    assert agent_figures(thrice, ["a"])[0].score.interval == (
        agent_figures(once, ["a"])[0].score.interval
    )


def test_too_few_people_give_means_without_intervals():
    report = report_of(people(MIN_GROUPS - 1), ["a", "b"])
    for of in report.agents:
        games = [
            score
            for block in people(MIN_GROUPS - 1)
            for score in block.scores
            if block.agent == of.agent
        ]
        assert of.score == (MIN_GROUPS - 1, MIN_GROUPS - 1, pytest.approx(np.mean(games)), None)
    gaps = np.subtract(*([r[: MIN_GROUPS - 1] for r in (RATINGS["a"], RATINGS["b"])]))
    rating, before = report.comparisons[1:3]
    assert rating.estimate.mean == pytest.approx(gaps.mean()) and np.isnan(rating.estimate.low)
    assert before.estimate.mean == pytest.approx((gaps > 0).sum() / (gaps != 0).sum())
    assert all(each.p is None and not each.significant for each in report.findings)
    text = text_of(report_parts, report)
    assert f"In brackets: fewer than {MIN_GROUPS} people, no interval." in text
    assert text.count(f"too few people: at least {MIN_GROUPS}") == 4
    assert "too few people: at least 12" in text
    figures = report_dict(report)
    first = figures["agents"][0]
    assert first["score"] == report.agents[0].score.mean and first["score_ci95"] is None
    assert first["score_people"] == 5 and f"{first['score']:.2f} (5 people)" in text
    enough = report_of(people(MIN_GROUPS), ["a", "b"])
    assert all(of.score.interval is not None for of in enough.agents)
    assert report_of([], ["a"]).curves is None


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_pairs_are_compared_within_people():
    alone = PersonAgentData(
        99, "b", scores=(25,), rating=7.0
    )  # played with one of the two only, and so does not count
    score, rating, preference = compare_agents([*people(), alone], ["a", "b"])
    gaps = np.subtract(RATINGS["a"], RATINGS["b"]).astype(float)
    t = gaps.mean() / (gaps.std(ddof=1) / np.sqrt(7))
    assert rating.p == pytest.approx(student_p(t, 6), rel=1e-4)
    assert rating.estimate.mean == pytest.approx(gaps.mean())
    assert score.n == rating.n == preference.n == 7
    tails = sum(math.comb(7, k) for k in (0, 1, 6, 7)) / 2**7  # 6 of 7 put a first
    assert preference.p == pytest.approx(tails)
    assert preference.estimate.mean == pytest.approx(6 / 7)


def test_direct_preference_is_tested_against_0():
    values = [1.0, 2.5, -0.5, 0.0, 1.5, 2.0, 0.5]
    blocks = [
        dataclasses.replace(each, preference=values[each.person] * (1 if each.agent == "a" else -1))
        for each in people()
    ]
    rather = compare_agents(blocks, ["a", "b"])[-1]
    assert rather.kind == "rather" and rather.estimate.mean == pytest.approx(1.0)
    error = np.std(values, ddof=1) / np.sqrt(7)
    assert rather.p == pytest.approx(student_p(1 / error, 6), rel=1e-4)
    assert "direct preference: a - b" in text_of(report_parts, report_of(blocks, ["a", "b"]))


def student_p(t, freedom):
    """Two-sided p of Student's t: trapezoidal integral of its density."""
    at = np.linspace(0, abs(t), 100_001)
    density = (1 + at**2 / freedom) ** (-(freedom + 1) / 2)
    density *= math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * np.pi)
    return 1 - 2 * float(np.trapezoid(density, at))


def test_all_p_values_are_corrected_together():
    report = report_of(people(), ["a", "b"])
    p = [each.p for each in report.findings if each.p is not None]
    assert len(p) == 4  # score, rating, preference, line
    adjusted = [each.p_adjusted for each in report.findings if each.p is not None]
    assert adjusted == holm(p)
    assert report.curves.parabola.p_adjusted is None


def curved(top, noise=0.3, count=40, seed=0):
    """Ratings that fall quadratically with the distance from a score, two agents per person."""
    rng = np.random.default_rng(seed)
    blocks = []
    for person, agent in itertools.product(range(count), "ab"):
        score = int(rng.integers(5, 21))
        rating = 6 - 0.04 * (score - top) ** 2 + noise * rng.normal()
        blocks.append(PersonAgentData(person, agent, scores=(score,), rating=float(rating)))
    return blocks


def test_line_jackknife_leaves_out_people():
    blocks = curved(20, noise=2, count=8)
    curves = rating_curves(blocks)
    x, y, persons = (
        np.array([f(each) for each in blocks]) for f in (score_of, rating_of, person_of)
    )

    def slope(rows):
        of_x = x[rows] - x[rows].mean()
        return (of_x * y[rows]).sum() / (of_x**2).sum()

    without = np.array([slope(persons != person) for person in range(8)])
    error = np.sqrt(7 / 8 * ((without - without.mean()) ** 2).sum())
    assert curves.slope == pytest.approx(slope(persons >= 0))
    assert curves.line.estimate.std_error == pytest.approx(error)
    reach = 2.364624 * error  # t quantile, 7 degrees of freedom, 97.5%
    assert curves.line.estimate.high == pytest.approx(curves.slope + reach, rel=1e-5)
    assert curves.line.p == pytest.approx(student_p(curves.slope / error, 7), abs=1e-6)
    assert curves.line.n == 8 and curves.parabola.p is None  # a parabola needs 12 people


def test_parabola_jackknife_leaves_out_people():
    """Against NumPy's fit of the rest; people give one to three points."""
    blocks = [b for b in curved(13, noise=2, count=14) if b.agent == "a" or b.person % 3]
    blocks += [dataclasses.replace(b, scores=(7,)) for b in blocks[:5]]
    curves = rating_curves(blocks)
    persons = np.array([each.person for each in blocks])
    without = np.array(
        [
            np.polyfit(curves.scores[persons != p], curves.ratings[persons != p], 2)
            for p in range(14)
        ]
    )
    error = np.sqrt(13 * without[:, 0].var())
    assert curves.parabola.estimate.std_error == pytest.approx(error)
    tops = -without[:, 1] / (2 * without[:, 0])
    assert curves.vertex.std_error == pytest.approx(np.sqrt(13 * tops.var()))


def test_no_curve_depends_on_one_person():
    blocks = [
        PersonAgentData(person, agent, scores=(score,), rating=1.0 + person % 5)
        for person in range(14)
        for agent, score in zip("ab", (10, 20 if person == 3 else 12), strict=True)
    ]  # without the fourth person only two scores remain: a line, but no parabola
    curves = rating_curves(blocks)
    assert curves.line.p is not None
    assert curves.parabola.p is None and curves.parabola.n == 14


def score_of(block):
    return block.score


def rating_of(block):
    return block.rating


def person_of(block):
    return block.person


@pytest.mark.parametrize(
    ("top", "inside", "words"),
    [
        (13, True, "inside the range of scores (5.0 to 20.0)."),
        (19.9, None, "possibly outside the range of scores"),
        (26, False, "outside the range of scores"),
    ],
)
def test_vertex_is_recovered(top, inside, words):
    report = report_of(curved(top, noise=0.3), ["a", "b"])
    curves = report.curves
    assert curves.parabola.significant and curves.abc[0] == pytest.approx(-0.04, abs=0.01)
    assert curves.vertex.low < top < curves.vertex.high
    assert curves.inside is inside
    assert words in text_of(report_parts, report) and "top" in text_of(report_parts, report)


def test_linear_data_has_no_vertex():
    rng = np.random.default_rng(1)
    blocks = [
        PersonAgentData(person, agent, scores=(score,), rating=0.2 * score + rng.normal())
        for person, agent in itertools.product(range(30), "ab")
        for score in [int(rng.integers(5, 21))]
    ]
    report = report_of(blocks, ["a", "b"])
    assert report.curves.line.significant and not report.curves.parabola.significant
    assert "parabola does not differ significantly from a line" in text_of(report_parts, report)
    assert report_dict(report)["rating_on_score"]["vertex"] is None


def test_agents_are_ranked_against_other_figures():
    agents = "abcde"
    blocks = [
        PersonAgentData(person, agent, scores=(10 + place,), rating=1 + place + 0.01 * person)
        for place, agent in enumerate(agents)
        for person in range(35)
    ]
    gauntlet = {agent: 2.0 * place for place, agent in enumerate(agents)}
    rating, score = across_agents(blocks, gauntlet, "gauntlet")
    assert rating.estimate.mean == score.estimate.mean == pytest.approx(1)
    assert rating.p == pytest.approx(2 / math.factorial(5))  # exact: both perfect orders
    assert rating.estimate.bounds == [1, 1]  # every resample has this order
    worse = across_agents(blocks, {k: -v for k, v in gauntlet.items()}, "gauntlet")[0]
    assert worse.estimate.mean == pytest.approx(-1)
    four = across_agents(blocks, dict(list(gauntlet.items())[:4]), "gauntlet")
    assert [each.p for each in four] == [None, None] and four[0].n == 4
    assert "too few agents: at least 5" in text_of(
        report_parts, dataclasses.replace(report_of(blocks, list(agents)), across=corrected(four))
    )
