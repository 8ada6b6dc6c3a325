"""A study's report as a picture: scores and ratings by agent, and ratings against scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hanabi_rl.evaluation.measure.study_statistics import Curves
from hanabi_rl.evaluation.measure.study_summary import StudyReport
from hanabi_rl.evaluation.reporting.plots import COLORS, error_bars, plain_axes, saved_figure
from hanabi_rl.evaluation.reporting.study import too_few

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_report(report: StudyReport, path: Path, title: str, max_score: int) -> None:
    """Draw points and rating of every agent with 95% intervals over people, and a point for each
    person and agent with the line and the parabola, if it is significant."""

    height = max(3.2, 1.6 + 0.45 * len(report.agents))
    with saved_figure(path, (11.5, height)) as figure:
        scores, ratings, curves = figure.subplots(1, 3, width_ratios=[1, 1, 1.3])
        _draw_agents(scores, report, "score", "points per game", (0, max_score))
        _draw_agents(ratings, report, "rating", "rating (1-7)", (1, 7))
        ratings.set_yticklabels([])
        _draw_curves(curves, report.curves)
        figure.suptitle(title, fontsize=11)


def _draw_agents(
    axes: Axes, report: StudyReport, name: str, label: str, ends: tuple[float, float]
) -> None:
    for row, of in enumerate(report.agents):
        figure = getattr(of, name)
        if figure.interval is None:
            axes.text(sum(ends) / 2, row, too_few(figure), ha="center")
            continue
        reach = error_bars([figure.interval.mean], [figure.interval.bounds])
        color = COLORS[row % len(COLORS)]
        axes.errorbar([figure.interval.mean], [row], xerr=reach, fmt="o", color=color, capsize=3)
    axes.set_yticks(range(len(report.agents)), [of.agent for of in report.agents])
    axes.set_ylim(len(report.agents) - 0.5, -0.5)
    axes.set_xlim(*ends)
    axes.set_xlabel(f"{label}, 95% interval")
    plain_axes(axes, "x")


def _draw_curves(axes: Axes, curves: Curves | None) -> None:
    axes.set_xlabel("points per game, a person with an agent")
    axes.set_ylabel("rating")
    axes.set_ylim(0.8, 7.2)
    axes.spines[["top", "right"]].set_visible(False)
    if curves is None:
        return
    axes.plot(curves.scores, curves.ratings, "o", color="#555555", alpha=0.35, markersize=4)
    x = np.linspace(curves.scores.min(), curves.scores.max(), 100)
    if curves.line.p is not None:
        style = "-" if curves.line.significant else ":"
        verdict = "significant" if curves.line.significant else "not significant"
        y = curves.intercept + curves.slope * x
        axes.plot(x, y, style, color=COLORS[0], label=f"line: {verdict}")
    if curves.parabola.significant and curves.abc is not None:
        axes.plot(
            x, np.polyval(curves.abc, x), "--", color=COLORS[1], label="parabola: significant"
        )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="upper left")
