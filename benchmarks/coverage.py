"""Coverage of 95% intervals over few games, many games, and training runs.

    python benchmarks/coverage.py --json

`N_games_KIND`: `ratio`, accuracy over games of 5 to 34 decisions with a level per game (beta 6, 4),
next to the coverage of bootstrap percentiles, used from `intervals.FEW` games on; `count`, the mean
of a skewed count (Poisson, 1 per game); `median`, of scores from 0 to 25 with ties; `correlation`,
Pearson's r of normal numbers, 0.8.

`N_runs_KIND`: BR-Prox of N training runs with eight partners at two seats, entries normal around
0.5; `apart`, without a common effect of a run on all partners (as the bootstrap assumes); `shared`,
with a common effect as large as the rest.
"""

from collections.abc import Callable

import common
import numpy as np

from hanabi_rl.evaluation.measure import intervals
from hanabi_rl.evaluation.measure.br_prox import interquartile_mean
from hanabi_rl.evaluation.measure.intervals import Interval

GAMES = (2, 3, 5, 10, 20, 29, 30, 100)
RUNS = (2, 3, 5, 10)
_CORRELATED = 0.8


def games_kinds(
    count: int, rng: np.random.Generator
) -> dict[str, tuple[float, Callable[[], Interval]]]:
    """Kind -> the truth, and one interval from games that are drawn for it."""

    def accuracy() -> tuple[np.ndarray, np.ndarray]:
        decisions = rng.integers(5, 35, count)
        return rng.binomial(decisions, rng.beta(6, 4, count)), decisions

    def percentiles() -> Interval:
        right, decisions = accuracy()
        drawn = intervals._sample_counts(rng, 2000, count)
        return intervals._interval(0.0, (drawn @ right) / (drawn @ decisions), 0.95)

    def correlation() -> Interval:
        first, other = rng.normal(size=(2, count))
        second = _CORRELATED * first + (1 - _CORRELATED**2) ** 0.5 * other
        return intervals.bootstrap_correlation(first, second)

    return {
        "ratio": (0.6, lambda: intervals.bootstrap_ratio(*accuracy())),
        "percentiles": (0.6, percentiles),
        "count": (1.0, lambda: intervals.bootstrap_ratio(rng.poisson(1, count), np.ones(count))),
        "median": (20.0, lambda: intervals.bootstrap_median(rng.binomial(25, 0.8, count))),
        "correlation": (_CORRELATED, correlation),
    }


def runs_kinds(
    count: int, rng: np.random.Generator
) -> dict[str, tuple[float, Callable[[], Interval]]]:
    """The same of training runs."""

    def interval(shared: float) -> Interval:
        entries = 0.5 + 0.05 * rng.normal(size=(count, 16)) + shared * rng.normal(size=(count, 1))
        return intervals.bootstrap_runs(entries, interquartile_mean, num_resamples=2000)

    return {"apart": (0.5, lambda: interval(0.0)), "shared": (0.5, lambda: interval(0.05))}


def measure(trials: int = 1000) -> common.Record:
    """Draws `trials` sets of each size and kind; returns the share of intervals that cover."""
    record: common.Record = {"trials": trials}
    for unit, sizes, kinds in (("games", GAMES, games_kinds), ("runs", RUNS, runs_kinds)):
        for count in sizes:
            for kind, (truth, draw) in kinds(count, np.random.default_rng(count)).items():
                found = [draw() for _ in range(trials)]
                covered = np.mean([interval.low <= truth <= interval.high for interval in found])
                record[f"{count}_{unit}_{kind}"] = round(float(covered), 3)
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)
