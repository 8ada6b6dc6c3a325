"""A cross-play matrix by algorithm: self-play, cross-play between seeds of one algorithm, and between algorithms."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from hanabi_rl.evaluate.intervals import Interval, mean_interval


@dataclasses.dataclass(frozen=True)
class GroupSummary:
    """How one group of agents does; None where there is nothing to average.

    The intervals say how much another training seed could change the mean, not how many games were played. That of
    `selfplay` is over agents; those of `intra` and `inter` are over pairs of agents (with more than two players the
    two cells of a pair are averaged first). Pairs that share an agent are counted as independent, which makes these
    two too narrow where agents, rather than pairs, differ.
    """

    name: str
    agents: tuple[str, ...]
    selfplay: Interval  # cells (i, i)
    intra: Interval | None  # pairs of different agents of the group
    inter: Interval | None  # pairs of one agent of the group and one of another group


@dataclasses.dataclass(frozen=True)
class GroupedMatrix:
    """The groups, in the order in which they first come, and their matrix."""

    groups: tuple[GroupSummary, ...]
    means: np.ndarray
    """float64[G, G]: mean over the cells of a row agent of one group and a column agent of the other. The diagonal is
    over different agents of one group, NaN where it has only one."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready figures; every `*_ci95` is `[low, high]`."""
        rows = []
        for group in self.groups:
            row: dict[str, Any] = {"group": group.name, "agents": group.agents}
            for name in ("selfplay", "intra", "inter"):
                value: Interval | None = getattr(group, name)
                row[f"{name}_mean"] = None if value is None else value.mean
                row[f"{name}_ci95"] = None if value is None else value.bounds
            rows.append(row)
        return {"groups": rows, "group_means": self.means}


def group_matrix(means: np.ndarray, labels: tuple[str, ...], groups: tuple[str, ...]) -> GroupedMatrix:
    """Groups the matrix `means` float[A, A], whose agents have `labels` and belong to `groups`, [A] each."""
    names = tuple(dict.fromkeys(groups))
    members = {name: [i for i, group in enumerate(groups) if group == name] for name in names}
    both_ways = (means + means.T) / 2

    def over_pairs(pairs: list[tuple[int, int]]) -> Interval | None:
        return mean_interval(np.array([both_ways[i, j] for i, j in pairs])) if pairs else None

    summaries = []
    for name in names:
        inside = members[name]
        outside = [i for i in range(len(groups)) if i not in inside]
        summaries.append(
            GroupSummary(
                name=name,
                agents=tuple(labels[i] for i in inside),
                selfplay=mean_interval(means[inside, inside]),
                intra=over_pairs(list(itertools.combinations(inside, 2))),
                inter=over_pairs(list(itertools.product(inside, outside))),
            )
        )
    between = np.array([[_mean_cell(means, members[row], members[column]) for column in names] for row in names])
    return GroupedMatrix(groups=tuple(summaries), means=between)


def _mean_cell(means: np.ndarray, rows: list[int], columns: list[int]) -> float:
    cells = [means[i, j] for i in rows for j in columns if i != j]
    return float(np.mean(cells)) if cells else float("nan")
