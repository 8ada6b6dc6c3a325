"""A cross-play matrix as an annotated heatmap. Matplotlib is imported when it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_CELL_INCHES = 0.62
_LEAST_INCHES = 3.2  # of the matrix, so that a small one has room for its title
_ANGLED_FROM = 7  # characters of the longest label from which the columns' labels are turned
_DARK_BELOW = 0.6  # share of the colour scale below which the text is white


def plot_matrix(
    means: np.ndarray,
    labels: Sequence[str],
    path: Path,
    *,
    medians: np.ndarray,
    title: str,
    max_score: int,
    column_label: str,
) -> None:
    """Draws `means` float[A, A] (row: the single agent) with a colour scale from 0 to `max_score`,
    and under each the median of its games, `medians` float[A, A]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(labels)
    side = max(_CELL_INCHES * count, _LEAST_INCHES)
    longest = max(map(len, labels))
    room = 0.085 * longest + 0.6  # inches for the labels
    figure = Figure(
        figsize=(side + room + 1.3, side + min(room, 0.06 * longest + 0.9) + 0.6),
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(means, cmap="viridis", vmin=0, vmax=max_score)
    size = 10 if count <= 8 else 8.5
    for (row, column), mean in np.ndenumerate(means):
        color = "white" if mean < _DARK_BELOW * max_score else "black"
        text, middle = f"{mean:.1f}", medians[row, column]
        axes.text(column, row, text, ha="center", va="bottom", color=color, fontsize=size)
        axes.text(
            column, row, f"({middle:g})", ha="center", va="top", color=color, fontsize=size - 2
        )
    angled = longest >= _ANGLED_FROM
    turn: dict[str, Any] = (
        {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if angled else {}
    )
    axes.set_xticks(range(count), labels, fontsize=size, **turn)
    axes.set_yticks(range(count), labels, fontsize=size)
    axes.set_xlabel(column_label)
    axes.set_ylabel("one seat")
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(count - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(count - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="mean score (median)")
    bar.outline.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
