"""Predicted human ratings of an agent: regressions of Siu et al. 2025 (arXiv 2503.15516, Table
5)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval, t_interval
from hanabi_rl.evaluation.papers import siu2025

Pool = Literal["everyone", "without_random"]
POOLS: tuple[Pool, ...] = ("everyone", "without_random")


class RatingChange(NamedTuple):
    """Predicted deviation from the mean rating of the study's agents, in rating points.

    Intervals are those of the regression, clipped to the length of the scale: the largest
    difference of two ratings. The mean itself is not published.
    """

    change: Interval
    """Deviation of the mean rating; the interval is that of the line at this value."""
    person: Interval
    """Deviation of one person's rating, with its prediction interval."""
    clipped: bool
    """True if the line itself leaves the scale, and so does not hold there."""
    r: float
    significant: bool
    """True by the paper's threshold."""
    lowest: float
    """Minimum of the metric over the study's agents."""
    highest: float
    """Maximum of the metric over the study's agents; outside, the line is an extrapolation."""
    inside: bool


def predict_rating(metric: str, value: float, pool: Pool) -> RatingChange | None:
    """Predict an agent's rating relative to the mean over the study's agents, from one line of
    Table 5.

    Least squares, with the SD of the metric over ratings assumed equal to that over agents, the
    only one published. Metrics are correlated: do not add predictions.

    Args:
        metric: key of `siu2025.TABLE_5`.

    Returns:
        None if the line is unpublished, is the parabola of IC, or has an unknown number of ratings
            (intra-XP).
    """
    line: siu2025.Regression | None = getattr(siu2025.TABLE_5[metric], pool)
    if line is None or line.slope is None or line.p is None or metric == "intra":
        return None
    known = study_values(metric, pool)
    ratings = siu2025.RATINGS if pool == "everyone" else siu2025.RATINGS_WITHOUT_RANDOM
    distance, spread = value - float(known.mean()), float(known.std())
    # of the slope; that of the residuals is `spread * sqrt(ratings)` times as large
    error = abs(line.slope) * np.sqrt((1 - line.r**2) / (line.r**2 * (ratings - 2)))
    change = line.slope * distance
    of_line = float(error * np.hypot(spread, distance))
    of_person = float(error * np.hypot(spread * np.sqrt(ratings + 1), distance))
    low, high = siu2025.RATING_RANGE
    return RatingChange(
        _clip_to_scale(t_interval(change, of_line, ratings - 2)),
        _clip_to_scale(t_interval(change, of_person, ratings - 2)),
        abs(change) > high - low,
        line.r,
        line.p < siu2025.SIGNIFICANT,
        float(known.min()),
        float(known.max()),
        bool(known.min() <= value <= known.max()),
    )


def _clip_to_scale(change: Interval) -> Interval:
    length = siu2025.RATING_RANGE[1] - siu2025.RATING_RANGE[0]
    mean, low, high = np.clip([change.mean, *change.bounds], -length, length).tolist()
    return Interval(mean, low, high, change.std_error)


def study_values(metric: str, pool: Pool) -> np.ndarray:
    """Metric of every agent of the study, from Table 3: float[K]."""
    rows = [
        getattr(row, metric)
        for name, row in siu2025.TABLE_3.items()
        if pool == "everyone" or name != siu2025.RANDOM
    ]
    return np.array([spread.mean for spread in rows if spread is not None])
