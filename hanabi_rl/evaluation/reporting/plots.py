"""Plots: learning curves from the lines of `metrics.jsonl`, action prediction, parallel axes.

Matplotlib is imported when a plot is drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Metrics = Sequence[Mapping[str, Any]]
XY = tuple[list[float], list[float]]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, distinct for all types of colour vision."""
MARKERS = "os^vDPX*<>"
"""Markers for more lines than colours."""
DASHES = ("-", "--", "-.", ":")
"""Dashes, which also distinguish lines in black and white."""
NOISY_POINTS = 200
"""Points from which a line is smoothed."""

_COLORS = COLORS[:4]
_REFERENCE: dict[str, Any] = dict(color="#555555", linestyle=(0, (4, 3)), linewidth=1.2)
_MARKERS_BELOW = 30  # points in a series: shorter ones get markers
_PUBLISHED_COLOR = "#a0a0a0"
_PANEL_INCHES = (4.6, 3.4)
_MAX_TICK_CHARACTERS = 45  # of a panel's labels without rotation


@contextmanager
def saved_figure(path: Path, size: tuple[float, float], dpi: int = 150) -> Iterator[Figure]:
    """New figure of `size` inches, saved to `path` at the end.

    Independent of the user's Matplotlib settings: no window, and text is literal (`$` starts no
    formula).
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(
        {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
    ):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dpi)


def plain_axes(axes: Axes, grid: Literal["x", "y", "both"] = "both") -> None:
    """Light grid below the data, no frame at the top and right."""
    axes.grid(color="#dddddd", linewidth=0.6, axis=grid)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


_NEAR_ZERO = 0.3  # fraction of the highest value


def begin_at_data(axes: Axes, low: float, high: float) -> None:
    """Begin the y axis at 0 if non-negative data from `low` to `high` come near 0, otherwise at the
    data."""
    if 0 <= low <= _NEAR_ZERO * high:
        axes.set_ylim(bottom=0)


def legend_right(axes: Axes, **settings: Any) -> None:
    """Legend to the right of the axes."""
    axes.legend(
        frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), **{"fontsize": 8} | settings
    )


def in_legend(name: str) -> str:
    """Label of a name; Matplotlib omits labels that start with `_` from the legend."""
    return f" {name}" if name.startswith("_") else name


@dataclasses.dataclass(frozen=True)
class Panel:
    """One set of axes with its metrics (key -> label)."""

    title: str
    unit: str
    series: Mapping[str, str]
    reference: tuple[float, str] | None = None  # a horizontal line and its label


def plot_bc(metrics: Metrics, path: Path, max_score: int = 25) -> None:
    """Draw cross-entropy, accuracy and greedy self-play of a BC run against the epoch.

    Raises ValueError if none of these were logged.
    """
    train, val = "training games", "validation games"
    accuracy = {"train_accuracy": train, "val_accuracy": val}
    panels = [
        Panel("Cross-entropy", "nats per decision", {"train_loss": train, "val_loss": val}),
        Panel("Accuracy", "fraction of decisions", accuracy),
        _selfplay_panel(max_score),
    ]
    draw_panels(metrics, panels, path, x_key="epoch", x_label="epoch")


def plot_ppo(
    metrics: Metrics,
    path: Path,
    bc_selfplay: float | None = None,
    max_score: float | None = 25,
    curves: Sequence[str] = (),
) -> None:
    """Draw greedy self-play, cross-play with the clone, KL and entropy of a PPO run.

    bc_selfplay: self-play score of the clone, drawn as a line. curves: other metrics to draw.
    Raises ValueError if none of these were logged.
    """
    reference = None if bc_selfplay is None else (bc_selfplay, f"BC self-play {bc_selfplay:.2f}")
    panels = [
        _selfplay_panel(max_score, reference),
        Panel(
            f"Cross-play with BC{_out_of(max_score)}",
            "points per game",
            {"crossplay_with_bc_mean": "mean score"},
        ),
        Panel("KL(BC || policy) in training", "nats", {"kl_to_bc": "KL"}),
        Panel("Entropy in training", "nats", {"entropy": "entropy"}),
        *(Panel(name, "value", {name: name}) for name in curves),
    ]
    draw_panels(metrics, panels, path, x_key="env_steps", x_label="environment steps")


def error_bars(means: Sequence[float], bounds: Sequence[Sequence[float]]) -> np.ndarray:
    """Error bars float64[2, N], the distances from `means` down and up to `bounds`.

    NaN, for which Matplotlib draws no bar, if an interval has no bounds.
    """
    reach = np.array([[m - low, high - m] for m, (low, high) in zip(means, bounds, strict=True)]).T
    return np.where(np.isfinite(reach), reach.clip(min=0), np.nan)  # negative by rounding


def draw_intervals(
    axes: Axes,
    places: Sequence[float] | np.ndarray,
    means: Sequence[float],
    bounds: Sequence[Sequence[float]],
    *,
    horizontal: bool = False,
    **settings: Any,
) -> None:
    """Draw points with error bars at `places`, by Matplotlib's `errorbar` with `settings`."""
    xy, bars = ((means, places), "xerr") if horizontal else ((places, means), "yerr")
    style: dict[str, Any] = {"fmt": "o", "capsize": 3, bars: error_bars(means, bounds)} | settings
    axes.errorbar(*xy, **style)


BY_TURN = {"by_turn": "turn", "by_move": "recorded move"}
BY_STEP = {"by_step": "step", "by_action": "recorded action"}
"""Parts of figures of prediction -> axis label, in Hanabi and in other games."""


def plot_prediction(
    figures: Mapping[str, Any], path: Path, title: str, parts: Mapping[str, str] = BY_TURN
) -> None:
    """Draw `prediction_figures` or `prediction_slices`: accuracy and cross-entropy of each part,
    with 95% intervals."""
    with saved_figure(path, (_PANEL_INCHES[0] * 2, _PANEL_INCHES[1] * 2)) as figure:
        figure.suptitle(title, fontsize=10, wrap=True)
        measures = (
            ("accuracy", "fraction of decisions"),
            ("cross_entropy", "nats per decision"),
        )
        for row, (measure, unit) in enumerate(measures):
            for column, (part, name) in enumerate(parts.items()):
                axes = figure.add_subplot(2, 2, 2 * row + column + 1)
                groups = figures[part]
                means = [group[measure] for group in groups.values()]
                bounds = [group[f"{measure}_ci95"] for group in groups.values()]
                places = np.arange(len(groups))
                draw_intervals(axes, places, means, bounds, color=_COLORS[row], markersize=4)
                overall = figures[measure]
                axes.axhline(overall, **_REFERENCE, label=f"all: {overall:.3f}")
                for place in places[np.isinf(means)]:  # Matplotlib omits infinite values
                    at = axes.get_xaxis_transform()
                    axes.text(place, 0.02, "inf", transform=at, ha="center", color=_COLORS[row])
                angled: dict[str, Any] = dict(rotation=30, ha="right", rotation_mode="anchor")
                is_crowded = sum(map(len, groups)) > _MAX_TICK_CHARACTERS
                axes.set_xticks(places, list(groups), **(angled if is_crowded else {}))
                axes.set_xlim(-0.5, len(places) - 0.5)
                axes.set_xlabel(name)
                axes.set_ylabel(unit)
                axes.set_ylim(bottom=0)
                plain_axes(axes, "y")
                axes.legend(fontsize=8, framealpha=0.9, edgecolor="none")  # readable over a line


def _selfplay_panel(max_score: float | None, reference: tuple[float, str] | None = None) -> Panel:
    series = {"selfplay_mean": "mean score", "selfplay_points": "points, lost lives ignored"}
    greedy = "Self-play" if max_score is None else "Greedy self-play"
    return Panel(f"{greedy}{_out_of(max_score)}", "points per game", series, reference)


def _out_of(max_score: float | None) -> str:
    return "" if max_score is None else f" (of {max_score})"


def draw_panels(
    metrics: Metrics, panels: Sequence[Panel], path: Path, x_key: str, x_label: str
) -> None:
    """Draw the panels with logged metrics, three per row (four panels: two per row).

    A line of `metrics` is skipped for a metric that is missing, null or NaN. Raises ValueError if
    nothing was logged.
    """
    drawn = [(panel, lines) for panel in panels if (lines := _lines(metrics, panel, x_key))]
    if not drawn:
        wanted = ", ".join(key for panel in panels for key in panel.series)
        raise ValueError(
            f"{path}: expected metrics with {x_key!r} and one of {wanted}, got none in "
            f"{len(metrics)} lines"
        )

    with panel_grid(path, len(drawn)) as all_axes:
        for axes, (panel, lines) in zip(all_axes, drawn, strict=True):
            _draw(axes, panel, lines)
            label_progress(axes, x_label)


@contextmanager
def panel_grid(path: Path, count: int) -> Iterator[list[Axes]]:
    """Axes of `count` panels, three per row (four panels: two per row), saved to `path`."""
    columns = 2 if count == 4 else min(3, count)
    rows = -(-count // columns)
    with saved_figure(path, (_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows)) as figure:
        yield [figure.add_subplot(rows, columns, place) for place in range(1, count + 1)]


def label_progress(axes: Axes, label: str) -> None:
    """Label the x axis of a learning curve: 10M, not 1e7."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def logged_values(metrics: Metrics, x_key: str, key: str) -> list[tuple[float, float]]:
    """(x, y) of a metric; lines in which either is missing, null or NaN are skipped."""
    points = [(line.get(x_key), line.get(key)) for line in metrics]
    return [(x, y) for x, y in points if x is not None and y is not None and y == y]


def _lines(metrics: Metrics, panel: Panel, x_key: str) -> dict[str, XY]:
    """Label -> (x, y) of the panel's logged metrics."""
    lines: dict[str, XY] = {}
    for key, label in panel.series.items():
        if points := logged_values(metrics, x_key, key):
            xs, ys = zip(*points, strict=True)
            lines[label] = (list(xs), list(ys))
    return lines


def _draw(axes: Axes, panel: Panel, lines: Mapping[str, XY]) -> None:
    for index, (label, (x, y)) in enumerate(lines.items()):
        color, dash = _COLORS[index % len(_COLORS)], DASHES[index % len(DASHES)]
        marker = "o" if len(x) <= _MARKERS_BELOW else None
        if len(y) >= NOISY_POINTS:
            axes.plot(x, y, color=color, alpha=0.25, linewidth=0.8)
            label = f"{label} (mean of {len(y) // 50})"
            x, y = smoothed(x, y)
        axes.plot(
            x, y, color=color, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.6,
            label=label,
        )  # fmt: skip
    if panel.reference is not None:
        value, label = panel.reference
        axes.axhline(value, **_REFERENCE, label=label)
    axes.set_title(panel.title, fontsize=11)
    axes.set_ylabel(panel.unit)
    plain_axes(axes)
    axes.margins(x=0.02)
    values = [value for _, y in lines.values() for value in y]
    begin_at_data(axes, min(values), max(values))
    if len(lines) > 1 or panel.reference is not None:
        axes.legend(fontsize=8, framealpha=0.9, edgecolor="none")  # readable over a line


class Curve(NamedTuple):
    """One line of a figure."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


def plot_curves(
    curves: Sequence[Curve], path: Path, title: str, x_label: str, unit: str, legend: str
) -> None:
    """Draw an ordered family of curves, dark to light."""
    from matplotlib import colormaps
    from matplotlib.ticker import EngFormatter

    with saved_figure(path, (7.2, 4.4)) as figure:
        axes = figure.add_subplot()
        shades = colormaps["viridis"]
        for number, curve in enumerate(curves):
            color = shades(0.92 * number / max(len(curves) - 1, 1))
            x, y = smoothed(curve.x, curve.y)
            axes.plot(x, y, color=color, linewidth=1.6, label=in_legend(curve.label))
        axes.set(title=title, xlabel=x_label, ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        plain_axes(axes)
        legend_right(axes, title=legend)


def smoothed(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """Running means of a noisy line over windows of a fiftieth of its length."""
    width = max(1, len(y) // 50)
    return list(x[width - 1 :]), list(np.convolve(y, np.ones(width) / width, mode="valid"))


class Line(NamedTuple):
    """Line of one agent: its value on each axis, None if missing."""

    label: str
    values: tuple[float | None, ...]
    like: str | None = None
    """None: own line. Otherwise published, in the colour of the line with this label ("": grey)."""


def plot_parallel(digits: Mapping[str, int], lines: Sequence[Line], path: Path, title: str) -> None:
    """Draw `lines` over the axes `digits` (name -> decimal places), each from its minimum value to
    its maximum."""
    with saved_figure(path, (1.15 * len(digits) + 3.0, 4.8)) as figure:
        axes = figure.add_subplot()
        ranges = [_ends([line.values[place] for line in lines]) for place in range(len(digits))]
        ours = [line for line in lines if line.like is None]
        styles = {line.label: _own_style(number) for number, line in enumerate(ours)}
        published = [line for line in lines if line.like is not None]
        for number, line in enumerate(published):
            styles[line.label] = _published_style(number, styles.get(line.like or ""))
        drawn = []
        for line in (*published, *ours):  # our own on top
            heights = [_height(*of) for of in zip(line.values, ranges, strict=True)]
            drawn += axes.plot(heights, label=in_legend(line.label), **styles[line.label])
        _draw_axes(axes, digits, ranges)
        handles = [*drawn[len(published) :], *drawn[: len(published)]]
        legend_right(axes, handles=handles, fontsize=8.5)
        axes.set_title(title, fontsize=11, pad=12)


def _published_style(number: int, like: dict[str, Any] | None) -> dict[str, Any]:
    marker = MARKERS[number % len(MARKERS)]  # distinguishes grey and dashed lines
    if like is None:
        return dict(color=_PUBLISHED_COLOR, marker=marker, markersize=5, linewidth=0.9)
    return dict(color=like["color"], marker=marker, markersize=5, linewidth=1.1, linestyle="--")


def _own_style(number: int) -> dict[str, Any]:
    dash = ("-", "-.", ":")[number // len(COLORS) % 3]
    color = COLORS[number % len(COLORS)]
    return dict(color=color, linestyle=dash, marker="o", markersize=4.5, linewidth=2.0)


def _draw_axes(
    axes: Axes, digits: Mapping[str, int], ranges: Sequence[tuple[float, float]]
) -> None:
    """Draw a vertical line per metric, labelled with its minimum and maximum."""
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


def _ends(values: Sequence[float | None]) -> tuple[float, float]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _height(value: float | None, ends: tuple[float, float]) -> float:
    """Position from 0 to 1 on an axis; NaN, which is not drawn, for None."""
    low, high = ends
    if value is None:
        return float("nan")
    return (value - low) / (high - low) if high > low else 0.5
