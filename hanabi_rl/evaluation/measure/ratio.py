"""What every measure of a `GameAnalysis` (`game_analysis.py`) comes to: sums for each game."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hanabi_rl.evaluation.measure.intervals import (
    Interval,
    bootstrap_ratio,
    bootstrap_ratios,
    clopper_pearson_interval,
    group_sums,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Ratio:
    """`sum(numerator) / sum(denominator)` over N games, one number of each a game, so that
    intervals resample whole games; `f"{ratio:.3f}"` reads `0.412 [0.398, 0.426]`."""

    numerator: np.ndarray  # float[N]
    denominator: np.ndarray  # float[N], what is counted: decisions, turns, games
    is_proportion: bool = False
    """Of what is counted: in every game from 0 to the denominator."""
    min_value: float = 0.0
    """The lowest value that the ratio can have; of a difference -inf."""
    max_value: float = np.inf
    """The highest value that the ratio can have; of a share 1."""

    @classmethod
    def masked_mean(
        cls, values: np.ndarray, counted: np.ndarray, is_proportion: bool = False
    ) -> Ratio:
        """The mean of `values` [N, T] where `counted` bool[N, T]."""
        total = np.where(counted, values, 0).sum(axis=1, dtype=np.float64)
        return cls(total, counted.sum(axis=1), is_proportion)

    def group_by(self, groups: np.ndarray) -> Ratio:
        """The same ratio of whole groups of games, as `Games.deck_numbers` int[N] tells them apart:
        its interval resamples groups."""
        if len(groups) == len(set(groups.tolist())):
            return self
        sums = group_sums(self.numerator, groups), group_sums(self.denominator, groups)
        return dataclasses.replace(self, numerator=sums[0], denominator=sums[1])

    @property
    def defined(self) -> bool:
        """Whether anything was counted; the rest raises ValueError where nothing was."""
        return bool(self.denominator.sum() > 0)

    @property
    def mean(self) -> float:
        """The ratio itself."""
        if not self.defined:
            raise ValueError("expected something to count, got no denominator in any game")
        return float(self.numerator.sum() / self.denominator.sum())

    @cached_property
    def interval(self) -> Interval:
        """The ratio with its 95% interval, games resampled, within the range of the ratio."""
        return self._within(bootstrap_ratio(self.numerator, self.denominator))

    def _within(self, interval: Interval) -> Interval:
        """Where a share is 0 or 1 resamples say that it always will be: the interval is then the
        exact one of as many tries as there are games (or groups) with something to count. Of
        shares of moves that is conservative: a game of thirty counts as one."""
        mean = interval.mean
        if (
            self.is_proportion and mean in (0, 1) and np.isfinite(interval.low)
        ):  # of one game: no bounds
            count = int((self.denominator > 0).sum())
            low, high = clopper_pearson_interval(round(mean * count), count).bounds
            interval = Interval(mean, low, high, interval.std_error)
        return interval.within(self.min_value, 1.0 if self.is_proportion else self.max_value)

    @property
    def bounds(self) -> list[float]:
        """`[low, high]`, the form every `*_ci95` key of a JSON file has."""
        return self.interval.bounds

    def __format__(self, spec: str) -> str:
        return format(self.interval, spec)


def intervals_of(ratios: Sequence[Ratio]) -> list[Interval | None]:
    """`Ratio.interval` of ratios of the same games, which are resampled once for all of them; None
    where nothing was counted."""
    defined = [ratio for ratio in ratios if ratio.defined]
    found = iter(bootstrap_ratios([(ratio.numerator, ratio.denominator) for ratio in defined]))
    return [ratio._within(next(found)) if ratio.defined else None for ratio in ratios]
