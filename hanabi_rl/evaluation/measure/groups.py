"""Cross-play matrix by algorithm: self-play, between seeds of one algorithm, between algorithms."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.intervals import (
    Interval,
    jackknife_interval,
    mean_interval,
    score_bounds,
)


@dataclasses.dataclass(frozen=True)
class GroupSummary:
    """Mean scores of one group of agents; None if there is nothing to average.

    Intervals are over training seeds, not games. Pairs share agents, so `intra` and `inter` are
    jackknifed over agents, other groups' agents included; the only agent of a group is not left
    out. A group of two agents has one pair and an infinite interval.
    """

    name: str
    agents: tuple[str, ...]
    selfplay: Interval  # cells (i, i)
    intra: Interval | None  # pairs of different agents of the group
    inter: Interval | None  # pairs of one agent of the group and one of another group


@dataclasses.dataclass(frozen=True)
class GroupedMatrix:
    """Summary and mean matrix of groups, in order of first appearance."""

    groups: tuple[GroupSummary, ...]
    means: np.ndarray
    """float64[G, G], mean over cells of row-group agents and column-group agents. The diagonal is
    over pairs of different agents of the group, NaN for a single agent."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; every `*_ci95` is `[low, high]`."""
        rows = []
        for group in self.groups:
            row: dict[str, Any] = {"group": group.name, "agents": group.agents}
            for name in ("selfplay", "intra", "inter"):
                value: Interval | None = getattr(group, name)
                row[f"{name}_mean"] = None if value is None else value.mean
                row[f"{name}_ci95"] = None if value is None else value.bounds
            rows.append(row)
        return {"groups": rows, "group_means": self.means}


def group_matrix(
    means: np.ndarray,
    labels: tuple[str, ...],
    groups: tuple[str, ...],
    max_score: float | None = None,
) -> GroupedMatrix:
    """Group the matrix `means` float[A, A] of agents with `labels` and `groups`, [A] each.
    Intervals are clipped to [0, `max_score`]; None: a game without bounds."""
    low, high = score_bounds(max_score)
    names = tuple(dict.fromkeys(groups))
    members = {name: [i for i, group in enumerate(groups) if group == name] for name in names}
    summaries = []
    for name in names:
        inside = members[name]
        outside = [i for i in range(len(groups)) if i not in inside]
        summaries.append(
            GroupSummary(
                name=name,
                agents=tuple(labels[i] for i in inside),
                selfplay=mean_interval(means[inside, inside], min_value=low, max_value=high),
                intra=_over_pairs(means, [inside], low, high),
                inter=_over_pairs(means, [inside, outside], low, high),
            )
        )
    between = np.array(
        [[_mean_cell(means, members[row], members[column]) for column in names] for row in names]
    )
    return GroupedMatrix(groups=tuple(summaries), means=between)


def _over_pairs(
    means: np.ndarray, samples: list[list[int]], low: float, high: float
) -> Interval | None:
    """Mean over pairs within one sample of agents, or between two samples; None without pairs."""

    def mean_without(agent: int | None) -> float:
        rows, columns = (
            [member for member in sample if member != agent] for sample in (samples[0], samples[-1])
        )
        return (_mean_cell(means, rows, columns) + _mean_cell(means, columns, rows)) / 2

    estimate = mean_without(None)
    if np.isnan(estimate):
        return None
    enough = 3 if len(samples) == 1 else 2  # leaves a pair when one agent is left out
    left_out = [
        np.array([mean_without(agent) for agent in sample])
        for sample in samples
        if len(sample) >= enough
    ]
    return jackknife_interval(estimate, left_out).within(low, high)


def _mean_cell(means: np.ndarray, rows: list[int], columns: list[int]) -> float:
    cells = [means[i, j] for i in rows for j in columns if i != j]
    return float(np.mean(cells)) if cells else float("nan")
