"""What people's ratings of a partner are expected to be from its metrics: the regressions of Siu et
al. 2025 (arXiv 2503.15516, Table 5)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval, t_interval
from hanabi_rl.evaluation.papers import siu2025

Pool = Literal["everyone", "without_random"]
POOLS: tuple[Pool, ...] = ("everyone", "without_random")


class RatingChange(NamedTuple):
    """How far from the mean rating of the study's agents a metric puts one, in rating points.

    Both are held to what the scale allows: two ratings are at most its length apart, and since the
    mean is not printed no more can be said. Their intervals are the regression's own.
    """

    change: Interval
    """What people give on average; the interval is that of the line at this value."""
    person: Interval
    """What one person gives; the interval is that of a single rating (prediction interval)."""
    clipped: bool
    """The line itself leads beyond the scale: it says nothing but that it does not hold there."""
    r: float
    significant: bool
    """By the paper's own threshold."""
    lowest: float
    """The metric of the study's agents ranges from here ..."""
    highest: float
    """... to here; beyond them a line is a guess."""
    inside: bool


def predict_rating(metric: str, value: float, pool: Pool) -> RatingChange | None:
    """The rating that one line of Table 5 predicts for a partner, relative to the mean of the
    study's agents (each once), and how far off one person's may be: least squares, with the spread
    of the metric over ratings taken to be that over agents, as no other is printed. One metric at a
    time: the metrics go together, the lines may not be summed.

    `metric` is a key of `siu2025.TABLE_5`. None where nothing that predicts is printed: no such
    line, the parabola of IC, or a number of ratings that cannot be told (intra-XP).
    """
    line: siu2025.Regression | None = getattr(siu2025.TABLE_5[metric], pool)
    if line is None or line.slope is None or line.p is None or metric == "intra":
        return None
    known = study_values(metric, pool)
    ratings = siu2025.RATINGS if pool == "everyone" else siu2025.RATINGS_WITHOUT_RANDOM
    distance, spread = value - float(known.mean()), float(known.std())
    # of the slope; that of the residuals is `spread * sqrt(ratings)` times as much
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
    """The difference of two ratings, no further than one end of the scale is from the other."""
    length = siu2025.RATING_RANGE[1] - siu2025.RATING_RANGE[0]
    mean, low, high = np.clip([change.mean, *change.bounds], -length, length).tolist()
    return Interval(mean, low, high, change.std_error)


def study_values(metric: str, pool: Pool) -> np.ndarray:
    """float[K]: the metric of every agent of the study, from Table 3."""
    rows = [
        getattr(row, metric)
        for name, row in siu2025.TABLE_3.items()
        if pool == "everyone" or name != siu2025.RANDOM
    ]
    return np.array([spread.mean for spread in rows if spread is not None])
