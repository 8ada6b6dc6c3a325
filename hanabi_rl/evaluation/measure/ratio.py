"""Ratio of per-game sums: the result type of every measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.intervals import (
    Interval,
    bootstrap_ratio,
    bootstrap_ratios,
    clopper_pearson_interval,
    group_sums,
    interval_dict,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Ratio:
    """`sum(numerator) / sum(denominator)` over N games, one entry each per game, so that intervals
    resample whole games; `f"{ratio:.3f}"` reads `0.412 [0.398, 0.426]`."""

    numerator: np.ndarray  # float[N]
    denominator: np.ndarray  # float[N], number of counted decisions, turns or games
    is_proportion: bool = False
    """True if, in every game, the numerator is a part of the denominator."""
    min_value: float = 0.0
    """Minimum possible value; -inf for a difference."""
    max_value: float = np.inf
    """Maximum possible value; a proportion's is 1 regardless."""

    @classmethod
    def masked_mean(
        cls, values: np.ndarray, counted: np.ndarray, is_proportion: bool = False
    ) -> Ratio:
        """Mean of `values` [N, T] where `counted` bool[N, T]."""
        total = np.where(counted, values, 0).sum(axis=1, dtype=np.float64)
        return cls(total, counted.sum(axis=1), is_proportion)

    def group_by(self, groups: np.ndarray) -> Ratio:
        """Sum over groups of games, int[N]: the interval resamples groups."""
        if len(groups) == len(set(groups.tolist())):
            return self
        sums = group_sums(self.numerator, groups), group_sums(self.denominator, groups)
        return dataclasses.replace(self, numerator=sums[0], denominator=sums[1])

    @property
    def defined(self) -> bool:
        """True if anything was counted; otherwise `mean` and `interval` raise ValueError."""
        return bool(self.denominator.sum() > 0)

    @property
    def mean(self) -> float:
        """The ratio."""
        if not self.defined:
            raise ValueError("expected a positive denominator, got 0 in every game")
        return float(self.numerator.sum() / self.denominator.sum())

    @cached_property
    def interval(self) -> Interval:
        """The ratio with its 95% interval, resampling games, clipped to the possible range."""
        return self._within(bootstrap_ratio(self.numerator, self.denominator))

    def _within(self, interval: Interval) -> Interval:
        """A proportion of 0 or 1 has the same value in every resample. Its interval is therefore
        exact, with one trial per game (or group) with anything counted: conservative, since a game
        of 30 moves counts as one trial."""
        mean = interval.mean
        if (
            self.is_proportion and mean in (0, 1) and np.isfinite(interval.low)
        ):  # one game: no bounds
            count = int((self.denominator > 0).sum())
            low, high = clopper_pearson_interval(round(mean * count), count).bounds
            interval = Interval(mean, low, high, interval.std_error)
        return interval.within(self.min_value, 1.0 if self.is_proportion else self.max_value)

    @property
    def bounds(self) -> list[float]:
        """`[low, high]`, the form of every `*_ci95` key in JSON files."""
        return self.interval.bounds

    def __format__(self, spec: str) -> str:
        return format(self.interval, spec)


def intervals_of(ratios: Sequence[Ratio]) -> list[Interval | None]:
    """`Ratio.interval` of ratios over the same games, with shared resamples; None if undefined."""
    defined = [ratio for ratio in ratios if ratio.defined]
    found = iter(bootstrap_ratios([(ratio.numerator, ratio.denominator) for ratio in defined]))
    return [ratio._within(next(found)) if ratio.defined else None for ratio in ratios]


def ratios_dict(ratios: Mapping[str, Ratio]) -> dict[str, Any]:
    """JSON-ready: `name` and `name_ci95` of each ratio, over the same games; None if undefined."""
    intervals = zip(ratios, intervals_of([*ratios.values()]), strict=True)
    return {key: x for each in intervals for key, x in interval_dict(*each).items()}
