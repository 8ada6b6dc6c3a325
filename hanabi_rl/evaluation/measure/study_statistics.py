"""Statistical tests of a study, with all p values corrected together (Holm 1979).

Agents are compared within people, ratings are regressed on scores, agents are correlated with other
measurements. Siu et al. 2025 (arXiv 2503.15516, appendix D) treat all ratings as independent. Here
the unit is the group of people (`person_groups`): a person is left out with everyone they played
with.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
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
"""With four agents even a perfect order has p = 2 / 4! = 0.08, with five 2 / 5! = 0.02."""

TestKind = Literal["score", "rating", "preference", "rather", "line", "parabola", "agents"]


@dataclasses.dataclass(frozen=True)
class TestResult:
    """Result of one test."""

    kind: TestKind
    about: tuple[str, ...]
    """Compared agents, or the two correlated variables."""
    n: int
    """Number of people with data; for kind `agents`, of agents."""
    groups: int
    """Number of groups of people, the unit of the test; for kind `agents`, of agents."""
    min_groups: int
    """Minimum groups for the test."""
    estimate: Interval | None = None
    """None without data; bounds are NaN without a test."""
    p: float | None = None
    """Two-sided, uncorrected; None for too few groups or constant data."""
    p_adjusted: float | None = None
    """Corrected by Holm's method over all p values of the report."""

    @property
    def significant(self) -> bool:
        """True if significant after the correction."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA


class Curves(NamedTuple):
    """Ratings against scores, one point per person and agent: `rating = slope score + intercept`,
    and `rating = a score^2 + b score + c`."""

    scores: np.ndarray  # float[n]
    ratings: np.ndarray  # float[n]
    line: TestResult  # test of the slope, in rating points per point
    parabola: TestResult  # test of a
    slope: float
    intercept: float
    r: float  # Pearson's
    abc: tuple[float, float, float] | None
    vertex: Interval | None
    """Score at the vertex of the parabola, if it has one."""

    @property
    def inside(self) -> bool | None:
        """True if vertex and interval lie in the range of scores; None if only the vertex does."""
        if self.vertex is None:
            return False
        low, high = float(self.scores.min()), float(self.scores.max())
        if not low <= self.vertex.mean <= high:
            return False
        return True if low <= self.vertex.low and self.vertex.high <= high else None


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p values of a family of tests (Holm 1979), in the given order."""
    order = np.argsort(p)
    scaled = np.asarray(p, np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.tolist()


def corrected(results: Sequence[TestResult]) -> list[TestResult]:
    """The same results, with all p values corrected together."""
    adjusted = iter(holm([each.p for each in results if each.p is not None]))
    return [
        each if each.p is None else dataclasses.replace(each, p_adjusted=next(adjusted))
        for each in results
    ]


def compare_agents(
    blocks: Sequence[PersonAgentData],
    agents: Sequence[str],
    games: Mapping[str, str] = MappingProxyType({}),
) -> list[TestResult]:
    """Compare every pair of agents, within the people who played with both: mean score and rating
    (paired t test), rank (exact binomial test), and direct preference if asked (t test). Each group
    counts once: the mean of its people, or their majority. `games`: game of each agent, if not the
    same; only agents of one game are compared."""
    of = {(each.person, each.agent): each for each in blocks}
    found = []
    for first, second in itertools.combinations(agents, 2):
        if games.get(first) != games.get(second):
            continue
        pairs = [
            (block, of[person, second])
            for (person, agent), block in of.items()
            if agent == first and (person, second) in of
        ]
        both, group = (first, second), person_groups([block for pair in pairs for block in pair])
        groups_of_pairs = [group[a.person] for a, _ in pairs]
        scores, ratings, places = (
            [
                (of, getattr(a, what), getattr(b, what))
                for of, (a, b) in zip(groups_of_pairs, pairs, strict=True)
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
"""Group of a person, and the person's values for the first and second agent."""


def _paired(kind: TestKind, about: tuple[str, str], values: Sequence[_GroupValues]) -> TestResult:
    """t test of group means, valid for means of unequal variance (Ibragimov and Mueller 2010), as
    from groups of different sizes."""
    whole = [(group, a - b) for group, a, b in values if a is not None and b is not None]
    groups, differences = np.array(whole, np.float64).reshape(-1, 2).T
    result = TestResult(kind, about, len(whole), len(np.unique(groups)), MIN_GROUPS)
    if not whole:
        return result
    of_groups = Ratio(differences, np.ones(len(differences)), min_value=-np.inf).group_by(groups)
    means = of_groups.numerator / of_groups.denominator
    if result.groups < MIN_GROUPS or np.ptp(means) < 1e-9:
        return dataclasses.replace(result, estimate=_without_bounds(float(means.mean())))
    interval = mean_interval(means)
    return dataclasses.replace(result, estimate=interval, p=_student_p(interval, len(means) - 1))


def _without_bounds(mean: float) -> Interval:
    return Interval(mean, np.nan, np.nan, np.nan)


def _student_p(interval: Interval, freedom: int) -> float:
    return float(2 * stdtr(freedom, -abs(interval.mean) / interval.std_error))


def _preference(about: tuple[str, str], values: Sequence[_GroupValues]) -> TestResult:
    """Fraction of groups with a majority for the first agent, by rank; ties are dropped."""
    votes: dict[int, list[bool]] = {}
    for group, a, b in values:
        if a is not None and b is not None and a != b:
            votes.setdefault(group, []).append(a < b)
    decided = [each for each in votes.values() if 2 * sum(each) != len(each)]
    apart = [2 * sum(each) > len(each) for each in decided]
    result = TestResult("preference", about, sum(map(len, decided)), len(apart), MIN_GROUPS)
    if not apart:
        return result
    if len(apart) < MIN_GROUPS:
        return dataclasses.replace(result, estimate=_without_bounds(sum(apart) / len(apart)))
    p = stats.binomtest(sum(apart), len(apart)).pvalue
    interval = clopper_pearson_interval(sum(apart), len(apart))
    return dataclasses.replace(result, estimate=interval, p=float(p))


def rating_curves(blocks: Sequence[PersonAgentData]) -> Curves | None:
    """Regress ratings on scores, one point per person and agent; None if either is constant."""
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
    """Fit without each group, float[groups, degree + 1]; None if underdetermined."""
    values, which = np.unique(x, return_inverse=True)
    gives = group_sums(np.eye(len(values))[which], groups) > 0  # bool[groups, values]
    only_they = gives & (gives.sum(axis=0) == 1)
    if (len(values) - only_they.sum(axis=1) <= degree).any():
        return None
    # Least squares in an orthonormal basis of the powers of all scores: leaving out a group
    # subtracts its part from the identity matrix of the normal equations.
    basis, of_powers = np.linalg.qr(np.vander(x, degree + 1))
    theirs = group_sums(basis[:, :, None] * basis[:, None, :], groups)
    projected = basis * y[:, None]
    rest = projected.sum(axis=0) - group_sums(projected, groups)
    fits = np.linalg.solve(np.eye(degree + 1) - theirs, rest[..., None])
    return np.linalg.solve(of_powers, fits)[..., 0]


def _coefficient(
    result: TestResult, estimate: float | None, without: np.ndarray | None
) -> TestResult:
    """t test of the leading coefficient, with its jackknife interval over groups."""
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
    """Spearman's rho of the agents' mean rating, and mean score, with another figure of them.

    The test permutes agents; the interval is over groups of people, with agents fixed. figures:
    agent -> value.
    """
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
    """Sums of values per agent, then numbers of people with a value, float[groups, 2 K]."""
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
        complete = means[:, count:].min(axis=1) > 0
        of_agents = means[complete, :count] / means[complete, count:]
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
    interval = _without_bounds(estimate)
    if len(sums) >= MIN_BOOTSTRAP_GAMES:
        interval = bootstrap_decks(sums, rho, num_resamples=2000).within(-1, 1)
    return dataclasses.replace(result, estimate=interval, p=float(test.pvalue))
