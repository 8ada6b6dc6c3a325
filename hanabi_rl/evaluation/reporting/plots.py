"""PNG files: learning curves from the lines of `metrics.jsonl`, and how recorded games were
predicted.

Matplotlib is imported when a figure is drawn.
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

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, distinct with any colour vision."""
MARKERS = "os^vDPX*<>"
"""Markers, where there are more lines than colours."""
DASHES = ("-", "--", "-.", ":")
"""Dashes, which repeat the difference for print."""

_COLORS = COLORS[:4]
_REFERENCE_COLOR = "#555555"
_MARKERS_BELOW = 30  # points in a series: shorter ones get markers
_NOISY_POINTS = 200  # points in a series: longer ones are smoothed
_PANEL_INCHES = (4.6, 3.4)


@contextmanager
def saved_figure(path: Path, size: tuple[float, float], dpi: int = 150) -> Iterator[Figure]:
    """A new figure of `size` inches, written to `path` at the end: to a file, never a window,
    whatever the user's backend. Text is literal (`$` begins no formula), whatever the user's
    Matplotlib settings."""
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
    """Light grid lines below the data, no frame above and to the right."""
    axes.grid(color="#dddddd", linewidth=0.6, axis=grid)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend_right(axes: Axes, **settings: Any) -> None:
    """A legend to the right of the axes."""
    axes.legend(
        frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), **{"fontsize": 8} | settings
    )


def in_legend(name: str) -> str:
    """The label of a name: Matplotlib leaves those that begin with `_` out of the legend."""
    return f" {name}" if name.startswith("_") else name


@dataclasses.dataclass(frozen=True)
class Panel:
    """One set of axes: which metrics it draws (key -> label) and what they are measured in."""

    title: str
    unit: str
    series: Mapping[str, str]
    reference: tuple[float, str] | None = None  # a horizontal line and its label


def plot_bc(metrics: Metrics, path: Path, max_score: int = 25) -> None:
    """Draw a behavioural-cloning run: loss, accuracy and greedy self-play against the epoch.

    Raises ValueError where none of these were logged.
    """
    panels = [
        Panel(
            "Cross-entropy",
            "nats per decision",
            {"train_loss": "training games", "val_loss": "validation games"},
        ),
        Panel(
            "Accuracy",
            "fraction of decisions",
            {"train_accuracy": "training games", "val_accuracy": "validation games"},
        ),
        _selfplay_panel(max_score, None),
    ]
    draw_panels(metrics, panels, path, x_key="epoch", x_label="epoch")


def plot_ppo(
    metrics: Metrics, path: Path, bc_selfplay: float | None = None, max_score: int = 25
) -> None:
    """Draw a PPO run: greedy self-play (a clone's as a line), with the clone, KL and entropy,
    against steps.

    Raises ValueError where none of these were logged.
    """
    panels = [
        _selfplay_panel(
            max_score,
            None if bc_selfplay is None else (bc_selfplay, f"BC self-play {bc_selfplay:.2f}"),
        ),
        Panel(
            f"Cross-play with BC (of {max_score})",
            "points per game",
            {"crossplay_with_bc_mean": "mean score"},
        ),
        Panel("KL(BC || policy) in training", "nats", {"kl_to_bc": "KL"}),
        Panel("Entropy in training", "nats", {"entropy": "entropy"}),
    ]
    draw_panels(metrics, panels, path, x_key="env_steps", x_label="environment steps")


def error_bars(means: Sequence[float], bounds: Sequence[Sequence[float]]) -> np.ndarray:
    """float64[2, N], what each interval reaches below and above its mean, as Matplotlib takes it;
    NaN, which draws no bar, of one without bounds."""
    reach = np.array([[m - low, high - m] for m, (low, high) in zip(means, bounds, strict=True)]).T
    return np.where(np.isfinite(reach), reach.clip(min=0), np.nan)  # rounding may make it negative


def plot_prediction(figures: Mapping[str, Any], path: Path, title: str) -> None:
    """Draw accuracy and cross-entropy by turn and by kind of move, with 95% intervals, from
    `prediction_figures`."""

    with saved_figure(path, (_PANEL_INCHES[0] * 2, _PANEL_INCHES[1] * 2)) as figure:
        figure.suptitle(title, fontsize=10, wrap=True)
        parts = (("by_turn", "turn"), ("by_move", "recorded move"))
        measures = (
            ("accuracy", "fraction of decisions guessed right"),
            ("cross_entropy", "nats per decision"),
        )
        for row, (measure, unit) in enumerate(measures):
            for column, (part, name) in enumerate(parts):
                axes = figure.add_subplot(2, 2, 2 * row + column + 1)
                shares = figures[part]
                means = [share[measure] for share in shares.values()]
                bounds = [share[f"{measure}_ci95"] for share in shares.values()]
                places = np.arange(len(shares))
                axes.errorbar(
                    places,
                    means,
                    yerr=error_bars(means, bounds),
                    fmt="o",
                    color=_COLORS[row],
                    markersize=4,
                    capsize=3,
                )
                overall = figures[measure]
                axes.axhline(
                    overall,
                    color=_REFERENCE_COLOR,
                    linestyle=(0, (4, 3)),
                    linewidth=1.2,
                    label=f"all: {overall:.3f}",
                )
                for place in places[np.isinf(means)]:  # Matplotlib would leave it out
                    at = axes.get_xaxis_transform()
                    axes.text(place, 0.02, "inf", transform=at, ha="center", color=_COLORS[row])
                axes.set_xticks(places, list(shares))
                axes.set_xlim(-0.5, len(places) - 0.5)
                axes.set_xlabel(name)
                axes.set_ylabel(unit)
                axes.set_ylim(bottom=0)
                plain_axes(axes, "y")
                axes.legend(fontsize=8, framealpha=0.9, edgecolor="none")  # readable over a line


def _selfplay_panel(max_score: int, reference: tuple[float, str] | None) -> Panel:
    series = {
        "selfplay_mean": "mean score",
        "selfplay_points": "points before the last life was lost",
    }
    return Panel(f"Greedy self-play (of {max_score})", "points per game", series, reference)


def draw_panels(
    metrics: Metrics, panels: Sequence[Panel], path: Path, x_key: str, x_label: str
) -> None:
    """Draws the panels of which something was logged, three or (for four) two a row, and writes
    them to `path`.

    `metrics` are dictionaries with `x_key`; a metric skips the lines that lack it or have null or
    NaN for it.
    """
    drawn = [(panel, lines) for panel in panels if (lines := _lines(metrics, panel, x_key))]
    if not drawn:
        wanted = ", ".join(key for panel in panels for key in panel.series)
        raise ValueError(
            f"{path}: expected metrics with {x_key!r} and one of {wanted}, found none in "
            f"{len(metrics)} lines"
        )

    from matplotlib.ticker import EngFormatter, MaxNLocator

    columns = 2 if len(drawn) == 4 else min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    with saved_figure(path, (_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows)) as figure:
        for position, (panel, lines) in enumerate(drawn, start=1):
            axes = figure.add_subplot(rows, columns, position)
            _draw(axes, panel, lines)
            axes.set_xlabel(x_label)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10M, not 1e7


Line = tuple[list[float], list[float]]


def _lines(metrics: Metrics, panel: Panel, x_key: str) -> dict[str, Line]:
    """label -> (x, y) of the panel's metrics that were logged at all."""
    lines: dict[str, Line] = {}
    for key, label in panel.series.items():
        points = [(line[x_key], line.get(key)) for line in metrics if line.get(x_key) is not None]
        points = [(x, y) for x, y in points if y is not None and y == y]
        if points:
            xs, ys = zip(*points, strict=True)
            lines[label] = (list(xs), list(ys))
    return lines


def _draw(axes: Axes, panel: Panel, lines: Mapping[str, Line]) -> None:
    for index, (label, (x, y)) in enumerate(lines.items()):
        color, dash = _COLORS[index % len(_COLORS)], DASHES[index % len(DASHES)]
        marker = "o" if len(x) <= _MARKERS_BELOW else None
        if len(y) >= _NOISY_POINTS:
            axes.plot(x, y, color=color, alpha=0.25, linewidth=0.8)
            label = f"{label} (mean of {len(y) // 50})"
            x, y = _smoothed(x, y)
        axes.plot(
            x,
            y,
            color=color,
            linestyle=dash,
            marker=marker,
            markersize=3.5,
            linewidth=1.6,
            label=label,
        )
    if panel.reference is not None:
        value, label = panel.reference
        axes.axhline(
            value, color=_REFERENCE_COLOR, linestyle=(0, (4, 3)), linewidth=1.2, label=label
        )
    axes.set_title(panel.title, fontsize=11)
    axes.set_ylabel(panel.unit)
    plain_axes(axes)
    axes.margins(x=0.02)
    axes.set_ylim(
        bottom=min(0.0, axes.get_ylim()[0]) if min(min(y) for _, y in lines.values()) >= 0 else None
    )
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
    """Draw an ordered family of curves, dark to light, and writes it to `path`."""
    from matplotlib import colormaps
    from matplotlib.ticker import EngFormatter

    with saved_figure(path, (7.2, 4.4)) as figure:
        axes = figure.add_subplot()
        shades = colormaps["viridis"]
        for number, curve in enumerate(curves):
            x, y = _smoothed(curve.x, curve.y)
            axes.plot(
                x,
                y,
                color=shades(0.92 * number / max(len(curves) - 1, 1)),
                linewidth=1.6,
                label=in_legend(curve.label),
            )
        axes.set(title=title, xlabel=x_label, ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        plain_axes(axes)
        legend_right(axes, title=legend)


def _smoothed(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """A noisy line as running means: a point is the mean of a fiftieth of the line before it."""
    width = max(1, len(y) // 50)
    return list(x[width - 1 :]), list(np.convolve(y, np.ones(width) / width, mode="valid"))
