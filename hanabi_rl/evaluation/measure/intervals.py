"""Confidence intervals over games, decks or training seeds, in NumPy.

Percentile bootstraps are too narrow for few games: a nominal 95% interval covers 87% of the time
with five games and 80% with three. Below `MIN_BOOTSTRAP_GAMES` the interval is therefore a
jackknife with Student's t, which for a mean is the classical t interval; one game has no bounds.
`benchmarks/coverage.py` prints the coverage of each method.

Student's t intervals are symmetric and can leave the range of the estimate. `Interval.within` clips
them to a known range, which does not change their coverage.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

MIN_BOOTSTRAP_GAMES = 30
"""Minimum number of games for a bootstrap; with fewer, intervals are jackknifes."""
_RESAMPLES_AT_ONCE = 256  # rows of one count per game; bounds the memory of a bootstrap


NO_BOUNDS = "n/a"
"""Printed for an interval without bounds; `explained` adds the reason."""
_REASON = (
    f"{NO_BOUNDS}: no interval: a mean or ratio needs at least 2 independent games (or decks, "
    "series), a median 6; infinite figures have none"
)


class Interval(NamedTuple):
    """An estimate with its two-sided confidence interval; `f"{interval:.3f}"` reads `0.412 [0.398,
    0.426]`, or `0.412 n/a` without bounds."""

    mean: float
    low: float
    high: float
    std_error: float

    @property
    def bounds(self) -> list[float]:
        """`[low, high]`, the form of every `*_ci95` key in JSON files."""
        return [self.low, self.high]

    def within(self, min_value: float = -np.inf, max_value: float = np.inf) -> Interval:
        """Clip the interval to [`min_value`, `max_value`], the possible values of the estimate. The
        estimate stays inside; an interval without bounds is unchanged."""
        if not np.isfinite([self.low, self.high]).all():
            return self
        low, high = (
            max(self.low, min(min_value, self.mean)),
            min(self.high, max(max_value, self.mean)),
        )
        return self._replace(low=float(low), high=float(high))

    def __format__(self, spec: str) -> str:
        spec = spec or ".2f"
        return f"{self.mean:{spec}} {bounds_text(self.bounds, spec)}"


def bounds_text(bounds: Sequence[float | None], spec: str = ".2f") -> str:
    """Format `[low, high]` as `[0.398, 0.426]`; `n/a` if a bound is infinite, NaN or None."""
    known = [bound for bound in bounds if bound is not None and np.isfinite(bound)]
    if len(known) < 2:
        return NO_BOUNDS
    return f"[{known[0]:{spec}}, {known[1]:{spec}}]"


def interval_dict(name: str, interval: Interval | None) -> dict[str, Any]:
    """JSON-ready: `name` and `name_ci95` of an interval; None without one."""
    mean, bounds = (None, None) if interval is None else (interval.mean, interval.bounds)
    return {name: mean, f"{name}_ci95": bounds}


def explained(text: str) -> str:
    """`text`, plus a line that explains `n/a` if the text contains it and no such line yet."""
    needed = _REASON not in text and re.search(rf"(?<!\S){NO_BOUNDS}(?!\S)", text)
    return f"{text}\n{_REASON}" if needed else text


def mean_interval(
    values: np.ndarray, level: float = 0.95, min_value: float = -np.inf, max_value: float = np.inf
) -> Interval:
    """Student's t interval for the mean of independent `values` float[N], clipped to their possible
    range [`min_value`, `max_value`]. One value: no bounds. Raises ValueError without values."""
    values = _games(values, "values")
    count = len(values)
    mean = float(values.mean())
    if count == 1:
        return _unbounded(mean)
    error = float(values.std(ddof=1) / np.sqrt(count))
    return t_interval(mean, error, count - 1, level).within(min_value, max_value)


def score_bounds(max_score: float | None) -> tuple[float, float]:
    """Lowest and highest possible score of a game; `max_score` None: a game without bounds."""
    return (-np.inf, np.inf) if max_score is None else (0, max_score)


def t_interval(estimate: float, std_error: float, freedom: int, level: float = 0.95) -> Interval:
    """Student's t interval of an estimate; `freedom` >= 1: degrees of freedom."""
    from scipy.special import stdtrit  # lazy import: web workers show standings without SciPy

    reach = float(stdtrit(freedom, _upper_tail(level))) * std_error
    return Interval(estimate, estimate - reach, estimate + reach, std_error)


def clopper_pearson_interval(successes: int, count: int, level: float = 0.95) -> Interval:
    """Exact interval of a proportion of `count` >= 1 trials (Clopper and Pearson 1934)."""
    from scipy.stats import binomtest

    low, high = binomtest(successes, count).proportion_ci(level)
    return Interval(successes / count, float(low), float(high), np.nan)


def jackknife_interval(
    estimate: float, left_out: Sequence[np.ndarray], level: float = 0.95
) -> Interval:
    """Jackknife interval for a statistic of independent samples (Arvesen 1969, for U-statistics).

    Args:
        estimate: the statistic of the full samples.
        left_out: per sample of n >= 2 members, the statistic without each member, float[n]. Without
            samples the interval is infinite.
        level: confidence level; degrees of freedom are the smallest n - 1.
    """
    if not left_out:
        return _unbounded(estimate)
    samples = [_games(values, "left_out") for values in left_out]
    std_error = float(np.sqrt(sum((len(values) - 1) * values.var() for values in samples)))
    freedom = min(len(values) for values in samples) - 1
    return t_interval(estimate, std_error, freedom, level)


def bootstrap_median(
    values: np.ndarray, level: float = 0.95, num_resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval for the median of `values` float[N]; `mean` holds the median.
    With fewer than `MIN_BOOTSTRAP_GAMES` values, the interval between two order statistics, which
    has the nominal coverage for any distribution; with fewer than six, no bounds at 95%."""
    values = _games(values, "values")
    if len(values) < MIN_BOOTSTRAP_GAMES:
        return _between_order_statistics(values, level)

    def medians(rng: np.random.Generator, size: int) -> np.ndarray:
        return np.median(values[rng.integers(len(values), size=(size, len(values)))], axis=1)

    return _percentile_interval(float(np.median(values)), medians, level, num_resamples, seed)


def bootstrap_ratio(
    numerators: np.ndarray,
    denominators: np.ndarray,
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval for `sum(numerators) / sum(denominators)`.

    Whole games are resampled, because decisions within a game are dependent. A jackknife if fewer
    than `MIN_BOOTSTRAP_GAMES` games have a positive denominator.

    Args:
        numerators, denominators: float[N], one entry per game.

    Raises:
        ValueError: lengths differ, or the denominators sum to 0.
    """
    return bootstrap_ratios([(numerators, denominators)], level, num_resamples, seed)[0]


def bootstrap_ratios(
    ratios: Sequence[tuple[np.ndarray, np.ndarray]],
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> list[Interval]:
    """`bootstrap_ratio` of several (numerators, denominators) over the same N games. Resamples are
    shared, for speed; each interval equals that of a separate call. No bounds where a numerator is
    infinite. Raises ValueError as `bootstrap_ratio` does, and if N differs."""
    games = [_checked_ratio(*ratio) for ratio in ratios]
    if len({len(numerators) for numerators, _ in games}) > 1:
        raise ValueError("expected ratios over the same games, got different numbers of games")
    many = [ratio for ratio in games if _resampled(*ratio)]
    resampled: list[list[np.ndarray]] = [[] for _ in many]
    for counts in _resamples(len(many[0][0]), num_resamples, seed) if many else ():
        for (numerators, denominators), found in zip(many, resampled, strict=True):
            sampled = counts @ denominators
            found.append((counts @ numerators)[sampled > 0] / sampled[sampled > 0])
    bootstrapped = iter(resampled)
    intervals = []
    for numerators, denominators in games:
        estimate = float(numerators.sum() / denominators.sum())
        if not np.isfinite(estimate):
            intervals.append(_unbounded(estimate))
        elif _resampled(numerators, denominators):
            intervals.append(_interval(estimate, np.concatenate(next(bootstrapped)), level))
        else:
            intervals.append(_jackknife_ratio(estimate, numerators, denominators, level))
    return intervals


def _resampled(numerators: np.ndarray, denominators: np.ndarray) -> bool:
    return (denominators > 0).sum() >= MIN_BOOTSTRAP_GAMES and bool(np.isfinite(numerators).all())


def _jackknife_ratio(
    estimate: float, numerators: np.ndarray, denominators: np.ndarray, level: float
) -> Interval:
    """Jackknife over the games with a positive denominator; other games do not affect the ratio."""
    counts = denominators > 0
    if counts.sum() < 2:
        return _unbounded(estimate)
    left_out = (numerators.sum() - numerators[counts]) / (denominators.sum() - denominators[counts])
    return jackknife_interval(estimate, [left_out], level)


def _checked_ratio(
    numerators: np.ndarray, denominators: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    numerators, denominators = (
        _games(numerators, "numerators"),
        _games(denominators, "denominators"),
    )
    if len(numerators) != len(denominators):
        raise ValueError(
            f"expected as many denominators as numerators, got {len(denominators)} and "
            f"{len(numerators)}"
        )
    if not denominators.sum() > 0:
        raise ValueError("expected denominators with a positive sum, got 0")
    return numerators, denominators


def _resamples(count: int, num_resamples: int, seed: int) -> Iterable[np.ndarray]:
    """Count of each of `count` games in each resample, in batches of rows: float64[B, count]."""
    # cached up to some megabytes: a report has many ratios over the same number of games
    if count * num_resamples <= 2**22:
        return (part.astype(np.float64) for part in _cached_resamples(count, num_resamples, seed))
    return (_sample_counts(rng, size, count) for rng, size in _blocks(num_resamples, seed))


@functools.lru_cache(maxsize=8)
def _cached_resamples(count: int, num_resamples: int, seed: int) -> list[np.ndarray]:
    blocks = _blocks(num_resamples, seed)
    return [_sample_counts(rng, size, count).astype(np.uint16) for rng, size in blocks]


def _sample_counts(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Count of each of `count` games in each of `size` resamples, float64[size, count]."""
    return rng.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)


def bootstrap_correlation(
    first: np.ndarray,
    second: np.ndarray,
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> Interval:
    """Percentile bootstrap interval for Pearson's r of `first` and `second`, float[N].

    Resamples in which either is constant are dropped. With fewer than `MIN_BOOTSTRAP_GAMES` games,
    a jackknife of Fisher's z; no bounds if any leave-one-out r is undefined or |r| is 1.

    Args:
        first, second: one value per game.
        groups: int[N], games that are resampled together; None: each game separately.

    Raises:
        ValueError: lengths differ, or `first` or `second` is constant.
    """
    first, second = _games(first, "first"), _games(second, "second")
    if len(first) != len(second) or not first.std() * second.std() > 0:
        raise ValueError(
            "expected two non-constant arrays of the same length, got standard deviations "
            f"{first.std():.3g} of {len(first)} and {second.std():.3g} of {len(second)}"
        )
    first, second = first - first.mean(), second - second.mean()
    one = np.ones(len(first))
    products = np.stack([first, second, first**2, second**2, first * second, one], axis=1)
    if groups is not None:
        products = group_sums(products, groups)

    def correlations(means: np.ndarray) -> np.ndarray:
        x, y, xx, yy, xy = means.T[:-1] / means.T[-1]
        spread = np.sqrt(np.maximum(xx - x**2, 0) * np.maximum(yy - y**2, 0))
        varied = spread > 1e-12 * first.std() * second.std()
        return (xy - x * y)[varied] / spread[varied]

    if len(products) >= MIN_BOOTSTRAP_GAMES:
        return bootstrap_decks(products, correlations, level, num_resamples, seed)
    estimate = float(correlations(products.mean(axis=0)[None])[0])
    left_out = correlations(_leave_one_out(products)) if len(products) > 2 else np.empty(0)
    if len(left_out) < max(len(products), 3) or np.abs([estimate, *left_out]).max() > 1 - 1e-9:
        return _unbounded(estimate)
    z = jackknife_interval(float(np.arctanh(estimate)), [np.arctanh(left_out)], level)
    low, high = np.tanh(z.bounds)
    slope = 1 - estimate**2  # dr / dz
    return Interval(estimate, float(low), float(high), slope * z.std_error)


def group_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum `values` [N, ...] by group `groups` int[N]: [G, ...], by group number."""
    which = np.unique(groups, return_inverse=True)[1]
    sums = np.zeros((int(which.max()) + 1, *values.shape[1:]), values.dtype)
    np.add.at(sums, which, values)
    return sums


def bootstrap_decks(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    level: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval for a statistic of column means, resampling rows. With fewer
    than `MIN_BOOTSTRAP_GAMES` rows, a jackknife; no bounds if a leave-one-out statistic is
    undefined.

    Args:
        values: float[N, C], the same N decks (or games) in each of C columns.
        statistic: maps column means float[B, C] to float[B], fewer where undefined.
    """
    decks = len(values)
    estimate = float(statistic(values.mean(axis=0)[None])[0])
    if decks < MIN_BOOTSTRAP_GAMES:
        left_out = statistic(_leave_one_out(values)) if decks > 1 else np.empty(0)
        return jackknife_interval(estimate, [left_out] if len(left_out) == decks else [], level)

    resampled = [
        statistic(sampled @ values / decks) for sampled in _resamples(decks, num_resamples, seed)
    ]
    return _interval(estimate, np.concatenate(resampled), level)


def bootstrap_runs(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    level: float = 0.95,
    num_resamples: int = 50_000,
    seed: int = 0,
) -> Interval:
    """Stratified percentile bootstrap interval (Agarwal et al. 2021, rliable): runs are resampled
    separately in each column.

    Args:
        values: float[R, C], R training runs on each of C tasks.
        statistic: maps all values of each resample, float[B, R * C], to float[B].
    """
    runs, columns = values.shape

    def resample(rng: np.random.Generator, size: int) -> np.ndarray:
        sampled = rng.integers(runs, size=(size, runs, columns))
        return statistic(values[sampled, np.arange(columns)].reshape(size, -1))

    estimate = float(statistic(values.reshape(1, -1))[0])
    return _percentile_interval(estimate, resample, level, num_resamples, seed)


def _leave_one_out(values: np.ndarray) -> np.ndarray:
    """Column means of `values` [N, C], N >= 2, without each row in turn: float[N, C]."""
    return (values.sum(axis=0) - values) / (len(values) - 1)


def _between_order_statistics(values: np.ndarray, level: float) -> Interval:
    """Narrowest interval between the k-th smallest and k-th largest of `values` float[N] that
    contains the median with probability >= `level` (binomial). Its standard error is NaN."""
    from scipy.special import bdtr  # `quantile_test` is slow to import, and wrong at exact tails

    median, count = float(np.median(values)), len(values)
    tails = bdtr(np.arange(count, dtype=np.float64), count, 0.5)  # P(at most 0, 1, ... below)
    outside = int((tails <= 1 - _upper_tail(level)).sum())
    if not outside:
        return _unbounded(median)
    ordered = np.sort(values)
    return Interval(median, float(ordered[outside - 1]), float(ordered[-outside]), np.nan)


def _unbounded(estimate: float) -> Interval:
    return Interval(mean=estimate, low=-np.inf, high=np.inf, std_error=np.inf)


def _percentile_interval(
    estimate: float,
    resample: Callable[[np.random.Generator, int], np.ndarray],
    level: float,
    num_resamples: int,
    seed: int,
) -> Interval:
    """Percentile bootstrap interval; `resample(rng, size)` returns `size` resampled statistics."""
    blocks = [resample(rng, size) for rng, size in _blocks(num_resamples, seed)]
    return _interval(estimate, np.concatenate(blocks), level)


def _blocks(num_resamples: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Batches of resamples as (generator, size)."""
    rng = np.random.default_rng(seed)
    for first in range(0, num_resamples, _RESAMPLES_AT_ONCE):
        yield rng, min(_RESAMPLES_AT_ONCE, num_resamples - first)


def _interval(estimate: float, resampled: np.ndarray, level: float) -> Interval:
    tail = 1 - _upper_tail(level)
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Interval(
        mean=estimate, low=float(low), high=float(high), std_error=float(resampled.std(ddof=1))
    )


def _games(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"expected {name} float[N] with at least one game, got shape {values.shape}"
        )
    return values


def _upper_tail(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"expected a confidence level between 0 and 1, got {level}")
    return (1 + level) / 2
