"""Objective metrics as a picture: one axis a metric, one line an agent. Matplotlib is imported when
it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanabi_rl.evaluation.reporting.plots import (
    COLORS,
    MARKERS,
    in_legend,
    legend_right,
    saved_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "-.", ":")
_PUBLISHED = "#a0a0a0"


class Line(NamedTuple):
    """One agent: its figure on each axis, None where it has none."""

    label: str
    values: tuple[float | None, ...]
    like: str | None = None
    """Of a published line: the label of the line that it takes its colour from, "" for none."""


def plot_parallel(digits: Mapping[str, int], lines: Sequence[Line], path: Path, title: str) -> None:
    """Draw `lines` over the axes `digits` (name -> digits of its numbers) and write an image to
    `path`. Each axis runs from the minimum of its values to the maximum."""

    with saved_figure(path, (1.15 * len(digits) + 3.0, 4.8)) as figure:
        axes = figure.add_subplot()
        ranges = [_range([line.values[place] for line in lines]) for place in range(len(digits))]
        ours = [line for line in lines if line.like is None]
        styles = {line.label: _own_style(number) for number, line in enumerate(ours)}
        published = [line for line in lines if line.like is not None]
        for number, line in enumerate(published):
            styles[line.label] = _published_style(number, styles.get(line.like or ""))
        drawn = []
        for line in (*published, *ours):  # our own on top
            heights = [_height(*of) for of in zip(line.values, ranges, strict=True)]
            drawn += axes.plot(heights, label=in_legend(line.label), **styles[line.label])
        _finish(axes, digits, ranges)
        handles = [*drawn[len(published) :], *drawn[: len(published)]]
        legend_right(axes, handles=handles, fontsize=8.5)
        axes.set_title(title, fontsize=11, pad=12)


def _published_style(number: int, like: dict[str, Any] | None) -> dict[str, Any]:
    # distinguishes grey and dashed lines
    marker = MARKERS[number % len(MARKERS)]
    if like is None:
        return dict(color=_PUBLISHED, marker=marker, markersize=5, linewidth=0.9)
    return dict(color=like["color"], marker=marker, markersize=5, linewidth=1.1, linestyle="--")


def _own_style(number: int) -> dict[str, Any]:
    return dict(
        color=COLORS[number % len(COLORS)],
        linestyle=_DASHES[number // len(COLORS) % len(_DASHES)],
        marker="o",
        markersize=4.5,
        linewidth=2.0,
    )


def _finish(axes: Axes, digits: Mapping[str, int], ranges: Sequence[tuple[float, float]]) -> None:
    """A vertical line for each metric, with its ends."""
    for place, (decimals, (low, high)) in enumerate(zip(digits.values(), ranges, strict=True)):
        axes.axvline(place, color="#cccccc", linewidth=1.0, zorder=0)
        style: dict[str, Any] = dict(ha="center", fontsize=8, color="#444444")
        axes.text(place, 1.03, f"{high:.{decimals}f}", va="bottom", **style)
        axes.text(place, -0.03, f"{low:.{decimals}f}", va="top", **style)
    axes.set_xticks(range(len(digits)), list(digits), fontsize=10)
    axes.tick_params(length=0, pad=12)
    axes.set_yticks([])
    axes.set_xlim(-0.35, len(digits) - 0.65)
    axes.set_ylim(-0.09, 1.1)
    axes.spines[:].set_visible(False)


def _range(values: Sequence[float | None]) -> tuple[float, float]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _height(value: float | None, ends: tuple[float, float]) -> float:
    """0 to 1 between the ends of an axis; NaN, which is not drawn, for none."""
    low, high = ends
    if value is None:
        return float("nan")
    return (value - low) / (high - low) if high > low else 0.5
