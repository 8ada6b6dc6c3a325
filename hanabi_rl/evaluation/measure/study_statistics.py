"""What a study finds: agents compared within people, ratings against scores, agents against other
measurements of them; every p corrected together with all others (Holm 1979).

Siu et al. 2025 (arXiv 2503.15516, appendix D) regress ratings as if each were a person's only one.
Here a person is left out whole, and with them whoever they played with: what is counted everywhere
are groups of people (`person_groups`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import stdtr

from hanabi_rl.evaluation.measure.intervals import (
    MIN_BOOTSTRAP_GAMES,
    Interval,
    bootstrap_decks,
    clopper_pearson_interval,
    group_sums,
    jackknife_interval,
    mean_interval,
)
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.study import MIN_GROUPS, PersonAgentData, person_groups

ALPHA = 0.05
ENOUGH_FOR_A_PARABOLA = 12
ENOUGH_AGENTS = 5
"""Of four agents even a perfect order has p = 2 / 4! = 0.08, of five 2 / 5! = 0.02."""

TestKind = Literal["score", "rating", "preference", "rather", "line", "parabola", "agents"]


@dataclasses.dataclass(frozen=True)
class TestResult:
    """One question that was asked of the data, and what they say."""

    kind: TestKind
    about: tuple[str, ...]
    """The agents that are compared, or what goes with what."""
    n: int
    """People who say something of it; of kind `agents`, agents."""
    groups: int
    """Of people, what the test counts; of kind `agents`, agents."""
    min_groups: int
    """Groups for a test."""
    estimate: Interval | None = None
    p: float | None = None
    """Two-sided, of this question alone; None where there were not enough, or nothing varies."""
    p_adjusted: float | None = None
    """By Holm's method, over every p of the report."""

    @property
    def significant(self) -> bool:
        """Whether it holds after the correction."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA


class Curves(NamedTuple):
    """Ratings against scores, a point a person and agent: `rating = slope score + intercept`, and
    `rating = a score^2 + b score + c`."""

    scores: np.ndarray  # float[n]
    ratings: np.ndarray  # float[n]
    line: TestResult  # of the slope, points of rating a point of score
    parabola: TestResult  # of a
    slope: float
    intercept: float
    r: float  # Pearson's
    abc: tuple[float, float, float] | None
    vertex: Interval | None
    """Of the parabola, where it has one: a score."""

    @property
    def inside(self) -> bool | None:
        """Whether the vertex, with its interval, lies within the scores seen; None: it may."""
        if self.vertex is None:
            return False
        low, high = float(self.scores.min()), float(self.scores.max())
        if not low <= self.vertex.mean <= high:
            return False
        return True if low <= self.vertex.low and self.vertex.high <= high else None


def holm(p: Sequence[float]) -> list[float]:
    """The adjusted p values of tests that are all made (Holm 1979), in their order."""
    order = np.argsort(p)
    scaled = np.asarray(p, np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.tolist()


def corrected(results: Sequence[TestResult]) -> list[TestResult]:
    """The same, all of their p corrected together."""
    adjusted = iter(holm([each.p for each in results if each.p is not None]))
    return [
        each if each.p is None else dataclasses.replace(each, p_adjusted=next(adjusted))
        for each in results
    ]


def compare_agents(blocks: Sequence[PersonAgentData], agents: Sequence[str]) -> list[TestResult]:
    """Every pair of agents, within the people who met both: mean score and rating (paired t test),
    and which of them more people put before the other (exact binomial test); where people compared
    two of them directly, which they would rather have (t test). Each group says one thing: the mean
    of its people, or what more of them put first."""
    of = {(each.person, each.agent): each for each in blocks}
    found = []
    for first, second in itertools.combinations(agents, 2):
        pairs = [
            (block, of[person, second])
            for (person, agent), block in of.items()
            if agent == first and (person, second) in of
        ]
        both, group = (first, second), person_groups([block for pair in pairs for block in pair])
        who = [group[a.person] for a, _ in pairs]
        scores, ratings, places = (
            [
                (of, getattr(a, what), getattr(b, what))
                for of, (a, b) in zip(who, pairs, strict=True)
            ]
            for what in ("score", "rating", "rank")
        )
        found.append(_paired("score", both, scores))
        found.append(_paired("rating", both, ratings))
        found.append(_preference(both, places))
        if rather := [
            (group[a.person], a.preference, 0.0) for a, _ in pairs if a.preference is not None
        ]:
            found.append(_paired("rather", both, rather))
    return found


_GroupValues = tuple[int, float | None, float | None]
"""A person's group, and their values for the first and the second agent."""


def _paired(kind: TestKind, about: tuple[str, str], values: Sequence[_GroupValues]) -> TestResult:
    """A t test of the groups' means, which stays within its level where these vary unequally, as
    those of groups of different sizes do (Ibragimov and Mueller 2010)."""
    whole = [(group, a - b) for group, a, b in values if a is not None and b is not None]
    groups, differences = np.array(whole, np.float64).reshape(-1, 2).T
    result = TestResult(kind, about, len(whole), len(np.unique(groups)), MIN_GROUPS)
    if result.groups < MIN_GROUPS:
        return result
    of_groups = Ratio(differences, np.ones(len(differences)), min_value=-np.inf).group_by(groups)
    means = of_groups.numerator / of_groups.denominator
    if np.ptp(means) < 1e-9:
        return result
    interval = mean_interval(means)
    return dataclasses.replace(result, estimate=interval, p=_student_p(interval, len(means) - 1))


def _student_p(interval: Interval, freedom: int) -> float:
    """The two-sided p of the t test that belongs to an interval of Student's t: whether it is of
    0."""
    return float(2 * stdtr(freedom, -abs(interval.mean) / interval.std_error))


def _preference(about: tuple[str, str], values: Sequence[_GroupValues]) -> TestResult:
    """The share of groups more of whose people put the first one before the second than the other
    way round; ties, of a person or of a group, say nothing."""
    votes: dict[int, list[bool]] = {}
    for group, a, b in values:
        if a is not None and b is not None and a != b:
            votes.setdefault(group, []).append(a < b)
    decided = [each for each in votes.values() if 2 * sum(each) != len(each)]
    apart = [2 * sum(each) > len(each) for each in decided]
    result = TestResult("preference", about, sum(map(len, decided)), len(apart), MIN_GROUPS)
    if len(apart) < MIN_GROUPS:
        return result
    p = stats.binomtest(sum(apart), len(apart)).pvalue
    interval = clopper_pearson_interval(sum(apart), len(apart))
    return dataclasses.replace(result, estimate=interval, p=float(p))


def rating_curves(blocks: Sequence[PersonAgentData]) -> Curves | None:
    """Ratings regressed on scores, a point a person and agent; None where nobody gave both."""
    group = person_groups(blocks)
    both = [(each.person, group[each.person], each.score, each.rating) for each in blocks]
    whole = np.array([row for row in both if None not in row], np.float64).reshape(-1, 4)
    people, groups, x, y = whole.T
    if len(np.unique(x)) < 2 or np.ptp(y) == 0:
        return None
    line = stats.linregress(x, y)
    abc = None
    if len(np.unique(x)) > 2:
        a, b, c = (float(k) for k in np.polyfit(x, y, 2))
        abc = a, b, c
    lines, parabolas = (_leave_out(groups, x, y, degree) for degree in (1, 2))
    number = len(np.unique(groups))
    about, count = ("rating", "score"), (len(np.unique(people)), number)
    of_line = TestResult("line", about, *count, MIN_GROUPS)
    of_parabola = TestResult("parabola", about, *count, ENOUGH_FOR_A_PARABOLA)
    return Curves(
        scores=x,
        ratings=y,
        line=_coefficient(of_line, line.slope, lines),
        parabola=_coefficient(of_parabola, abc and abc[0], parabolas),
        slope=float(line.slope),
        intercept=float(line.intercept),
        r=float(line.rvalue),
        abc=abc,
        vertex=_vertex(abc, parabolas) if number >= ENOUGH_FOR_A_PARABOLA else None,
    )


def _leave_out(groups: np.ndarray, x: np.ndarray, y: np.ndarray, degree: int) -> np.ndarray | None:
    """float[groups, degree + 1]: the fit without each group in turn, the highest power first; None
    where without one of them there are too few scores for it."""
    values, which = np.unique(x, return_inverse=True)
    gives = group_sums(np.eye(len(values))[which], groups) > 0  # bool[groups, values]
    only_they = gives & (gives.sum(axis=0) == 1)
    if (len(values) - only_they.sum(axis=1) <= degree).any():
        return None
    # Least squares in an orthonormal basis of the powers of all scores: without a group the normal
    # equations lack the group's part of the unit matrix.
    basis, of_powers = np.linalg.qr(np.vander(x, degree + 1))
    theirs = group_sums(basis[:, :, None] * basis[:, None, :], groups)
    given = basis * y[:, None]
    rest = given.sum(axis=0) - group_sums(given, groups)
    fits = np.linalg.solve(np.eye(degree + 1) - theirs, rest[..., None])
    return np.linalg.solve(of_powers, fits)[..., 0]


def _coefficient(
    result: TestResult, estimate: float | None, without: np.ndarray | None
) -> TestResult:
    """Whether the leading coefficient is 0: its jackknife interval over groups, and the same t
    test."""
    if result.groups < result.min_groups or estimate is None or without is None:
        return result
    interval = jackknife_interval(float(estimate), [without[:, 0]])
    p = _student_p(interval, result.groups - 1)
    return dataclasses.replace(result, estimate=interval, p=p)


def _vertex(abc: tuple[float, float, float] | None, without: np.ndarray | None) -> Interval | None:
    if abc is None or without is None or abc[0] == 0 or (without[:, 0] == 0).any():
        return None
    return jackknife_interval(-abc[1] / (2 * abc[0]), [-without[:, 1] / (2 * without[:, 0])])


def across_agents(
    blocks: Sequence[PersonAgentData], figures: Mapping[str, float], name: str
) -> list[TestResult]:
    """Spearman's rho of the agents' mean rating, and of their mean score, with another figure of
    them (`figures`: agent -> value). The test permutes agents; the interval is over groups of
    people, the agents as they are."""
    agents = [agent for agent in dict.fromkeys(each.agent for each in blocks) if agent in figures]
    values = np.array([figures[agent] for agent in agents])
    found = []
    for outcome in ("rating", "score"):
        sums = _sums_by_group(blocks, agents, outcome)
        counted = (sums[:, len(agents) :].sum(axis=0) > 0) if len(sums) else np.zeros(0, bool)
        number = int(counted.sum())
        result = TestResult("agents", (outcome, name), number, number, ENOUGH_AGENTS)
        if len(agents) >= ENOUGH_AGENTS and counted.all() and np.ptp(values) > 0:
            found.append(_rank_correlation(result, sums, values))
        else:
            found.append(result)
    return found


def _sums_by_group(
    blocks: Sequence[PersonAgentData], agents: Sequence[str], outcome: str
) -> np.ndarray:
    """float[groups, 2 K]: what each gives each agent, then how many of its people gave anything."""
    blocks = [each for each in blocks if each.agent in agents]
    group = person_groups(blocks)
    groups = list(dict.fromkeys(group[each.person] for each in blocks))
    sums = np.zeros((len(groups), 2 * len(agents)))
    for each in blocks:
        value = each.rating if outcome == "rating" else each.score
        if value is not None:
            row, column = groups.index(group[each.person]), agents.index(each.agent)
            sums[row, [column, len(agents) + column]] += value, 1
    return sums


def _rank_correlation(result: TestResult, sums: np.ndarray, values: np.ndarray) -> TestResult:
    count, ranks = len(values), stats.rankdata(values)

    def rho(means: np.ndarray) -> np.ndarray:
        given = means[:, count:].min(axis=1) > 0
        of_agents = means[given, :count] / means[given, count:]
        of_agents = of_agents[np.ptp(of_agents, axis=1) > 0]
        ranked = stats.rankdata(of_agents, axis=1)
        return np.asarray(stats.pearsonr(ranked, ranks[None], axis=1).statistic)

    means = sums.mean(axis=0)
    ours = stats.rankdata(means[:count] / means[count:])
    if np.ptp(ours) == 0:
        return result
    permuted = stats.PermutationMethod(n_resamples=9999, rng=np.random.default_rng(0))
    test = stats.pearsonr(ours, ranks, method=permuted)
    estimate = float(test.statistic)
    interval = Interval(estimate, float("nan"), float("nan"), float("nan"))
    if len(sums) >= MIN_BOOTSTRAP_GAMES:
        interval = bootstrap_decks(sums, rho, num_resamples=2000).within(-1, 1)
    return dataclasses.replace(result, estimate=interval, p=float(test.pvalue))
