"""BR-Prox as text, JSON and a plot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.br_prox import BRProx, by_strength, is_expert, ratios
from hanabi_rl.evaluation.measure.br_prox import Part as Strength
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Column, Part, table

MAX_CLIPPED = 0.1
"""Fraction of ratios above 1 from which a warning is printed."""
_PARTS: tuple[Strength, ...] = ("all", "moderate", "expert")
_COLORS = dict(zip(_PARTS, plots.COLORS, strict=False))
_MARKERS = {"all": "o", "moderate": "s", "expert": "^"}


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Returns of methods (one or more runs each) with M partners, in scores or in points."""

    unit: str
    partners: Sequence[str]
    best: np.ndarray  # float[M, S], J_BR by seat
    selfplay: np.ndarray  # float[M], self-play return of each partner
    methods: Mapping[str, np.ndarray]  # name -> float[R, M, S, N], returns of its runs
    seed: int = 0

    def parts(self) -> dict[str, dict[Strength, BRProx]]:
        """Method -> BR-Prox with all, moderate and expert partners."""
        return {
            name: by_strength(returns, self.best, self.selfplay, self.seed)
            for name, returns in self.methods.items()
        }

    def by_partner(self) -> dict[str, np.ndarray]:
        """Method -> float[M], mean of the clipped ratios with each partner."""
        return {
            name: ratios(returns.mean(axis=-1), self.best).clip(max=1.0).mean(axis=(0, 2))
            for name, returns in self.methods.items()
        }


def br_prox_dict(
    comparison: Comparison, parts: Mapping[str, Mapping[Strength, BRProx]]
) -> dict[str, Any]:
    """JSON-ready."""
    by_partner = comparison.by_partner()
    strong = is_expert(comparison.selfplay)
    columns = comparison.partners, comparison.best, comparison.selfplay.tolist(), strong.tolist()
    keys = "agent", "best_response_return", "selfplay_return", "expert"
    return {
        "partners": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)],
        "methods": {
            name: {part: found.as_dict() for part, found in of_method.items()}
            | {"mean_by_partner": by_partner[name]}
            for name, of_method in parts.items()
        },
    }


_METHODS = (
    Column("method", 0),
    Column("runs", lambda row: row[2].runs),
    Column("partners", 1, left=True),
    Column("BR-Prox", lambda row: row[2].iqm.mean, ".3f"),
    Column("95% interval", lambda row: row[2].iqm.bounds, ".3f", left=True),
    Column("mean", lambda row: row[2].mean, ".3f"),
    Column("25%-75%", lambda row: "{:.2f}-{:.2f}".format(*row[2].quartiles)),
    Column("ratio > 1", lambda row: row[2].clipped, ".1%"),
    Column("J_BR 0", lambda row: row[2].best_zero, ".1%"),
)


def comparison_parts(
    comparison: Comparison, parts: Mapping[str, Mapping[Strength, BRProx]]
) -> list[Part]:
    """One row per method and strength of partners, and one per partner."""
    strong = is_expert(comparison.selfplay)
    counts = {"all": len(strong), "moderate": int((~strong).sum()), "expert": int(strong.sum())}
    rows = [
        (name, f"{part} ({counts[part]})", found)
        for name, of_method in parts.items()
        for part, found in of_method.items()
    ]
    ratio_of = comparison.by_partner()
    partners = zip(
        comparison.partners,
        np.where(strong, "expert", "moderate").tolist(),
        comparison.selfplay,
        comparison.best.mean(axis=1),
        *ratio_of.values(),
        strict=True,
    )
    columns = (
        Column("partner", 0),
        Column("", 1, left=True),
        Column("self-play", 2, ".2f"),
        Column("J_BR", 3, ".2f"),
        *(Column(name, place, ".3f") for place, name in enumerate(ratio_of, start=4)),
    )
    over = {found["all"].over for found in parts.values()}
    return [
        "",
        table(rows, _METHODS),
        "",
        table(partners, columns),
        "",
        f"{comparison.unit.capitalize()}. BR-Prox: interquartile mean of J / J_BR over runs, "
        "partners and seats, clipped at 1.",
        "J_BR 0: fraction of partners and seats with J_BR at most 0; their ratio is 1, as in the "
        "authors' code.",
        "Expert: partners with a self-play score above the median of the partners.",
        "95% intervals resample runs"
        + ("." if over == {"runs"} else "; for one run they resample decks, without other runs."),
        *(
            f"Warning: {of_method['all'].clipped:.0%} of the ratios of {name} are above 1: train "
            "the best responses longer."
            for name, of_method in parts.items()
            if of_method["all"].clipped > MAX_CLIPPED
        ),
    ]


def plot_br_prox(parts: Mapping[str, Mapping[Strength, BRProx]], path: Path, title: str) -> None:
    """Draw BR-Prox of each method with intervals, for all, moderate and expert partners."""
    with plots.saved_figure(path, (6.4, 1.6 + 0.55 * len(parts))) as figure:
        axes = figure.add_subplot()
        rows = np.arange(len(parts))
        for index, part in enumerate(_PARTS):
            found = [
                (row, of[part]) for row, of in zip(rows, parts.values(), strict=True) if part in of
            ]
            if not found:
                continue
            plots.draw_intervals(
                axes, [row + 0.2 * (index - 1) for row, _ in found],
                [prox.iqm.mean for _, prox in found], [prox.iqm.bounds for _, prox in found],
                horizontal=True, fmt=_MARKERS[part], color=_COLORS[part], markersize=5,
                label=f"{part} partners",
            )  # fmt: skip
        axes.set_yticks(rows, list(parts))
        axes.set_ylim(len(parts) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("BR-Prox, with 95% intervals")
        axes.set_title(title, fontsize=10, wrap=True)
        plots.plain_axes(axes, "x")
        plots.legend_right(axes)
