"""Cross-play matrix as text, CSV, JSON and a plot; short labels of agents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.evaluation.measure.groups import GroupedMatrix, group_matrix
from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.selfplay import summary_dict
from hanabi_rl.evaluation.reporting.plots import saved_figure
from hanabi_rl.evaluation.reporting.tables import Column, Part, csv_text, flat_record, table
from hanabi_rl.games.registry import game_label, game_to_text
from hanabi_rl.storage.files import write_json, write_text
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from rich.table import Table

    from hanabi_rl.evaluation.measure.matrix import CrossPlayMatrix

FORMAT_VERSION = 1
_TIME = re.compile(r"-\d{8}T\d{6}Z$")  # suffix of the names of run folders


def short_labels(names: Sequence[str]) -> list[str]:
    """Labels of agents: the shortest unique end of each path, or `bot:NAME`.

    A run's `policy/` has the run's label, its `policy-latest/` is `RUN/policy-latest`, a checkpoint
    `RUN@STEP`. The time in a run's name is omitted if labels are unique without it.
    """
    untimed = _unique_ends([_parts(name, timed=False) for name in names])
    if len(set(untimed)) == len(names):
        return untimed
    return _unique_ends([_parts(name, timed=True) for name in names])


def _parts(name: str, timed: bool) -> tuple[str, ...]:
    """Components of a name; a label has one or more of them from the end."""
    if name.startswith(("bot:", "agent:")):
        return (name,)
    place, question, options = name.partition("?")  # options may be paths: ?partner_games=FILE
    parts = [part if timed else _TIME.sub("", part) for part in Path(place).resolve().parts[1:]]
    if len(parts) > 2 and parts[-2] == "checkpoints":
        parts[-3:] = [f"{parts[-3]}@{parts[-1]}"]
    elif len(parts) > 1 and parts[-1] == "policy":
        del parts[-1]
    elif len(parts) > 1 and parts[-1].startswith("policy-"):
        parts[-2:] = [f"{parts[-2]}/{parts[-1]}"]
    return (*parts[:-1], parts[-1] + question + options)


def _unique_ends(parts: Sequence[tuple[str, ...]]) -> list[str]:
    labels = []
    for own in parts:
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        labels.append("/".join(own[-length:]))
    return labels


def grouped(matrix: CrossPlayMatrix) -> GroupedMatrix:
    """The matrix with agents summarised by group."""
    labels, groups = zip(*((agent.label, agent.group) for agent in matrix.agents), strict=True)
    return group_matrix(matrix.means, labels, groups, matrix.rules.max_score)


def cell_rows(matrix: CrossPlayMatrix) -> list[dict[str, Any]]:
    """One record per cell, row by row, as in `matrix.csv`."""
    return [
        {
            "row": row.label,
            "column": column.label,
            "row_group": row.group,
            "column_group": column.group,
            **flat_record(summary_dict(cell)),
            "row_hash": row.hash,
            "column_hash": column.hash,
        }
        for row, cells in zip(matrix.agents, matrix.cells, strict=True)
        for column, cell in zip(matrix.agents, cells, strict=True)
    ]


def matrix_csv(matrix: CrossPlayMatrix) -> str:
    """Content of `matrix.csv`."""
    return csv_text(cell_rows(matrix))


def matrix_dict(matrix: CrossPlayMatrix) -> dict[str, Any]:
    """Content of `matrix.json`: means, medians, cells and groups."""
    return {
        "format_version": FORMAT_VERSION,
        "game": game_to_text(matrix.rules),
        "players": matrix.rules.num_players,
        "seats": "row 0, column 1" if matrix.has_fixed_seats else "mean",
        "decks": matrix.setting.games,
        "seed": matrix.setting.seed,
        "seed_names": list(matrix.setting.seed_names),
        "sampled": _is_sampled(matrix),
        "agents": [
            {"label": agent.label, "group": agent.group, "hash": agent.hash}
            for agent in matrix.agents
        ],
        "means": matrix.means,
        "medians": medians(matrix),
        "cells": cell_rows(matrix),
        **grouped(matrix).as_dict(),
    }


def _is_sampled(matrix: CrossPlayMatrix) -> bool:
    return matrix.setting.sample or not matrix.rules.is_greedy


def medians(matrix: CrossPlayMatrix) -> np.ndarray:
    """float[A, A]: median score of each cell over all seatings of its decks."""
    return np.array([[cell.median for cell in row] for row in matrix.cells])


def write_matrix(matrix: CrossPlayMatrix, out: Path) -> None:
    """Write `matrix.csv`, `matrix.json` and `matrix.png` to the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "matrix.csv", matrix_csv(matrix))
    write_json(out / "matrix.json", matrix_dict(matrix))
    players, games = matrix.rules.num_players, matrix.setting.games
    decks = count(games, "deck" if matrix.rules.name == "hanabi" else "game")
    labels = ("one seat", "other seat" if players == 2 else "other seats")
    plot_matrix(
        matrix.means,
        [agent.label for agent in matrix.agents],
        out / "matrix.png",
        medians=medians(matrix),
        title=f"Cross-play, {game_label(matrix.rules)}, {decks}",
        seat_labels=("seat 0", "seat 1") if matrix.has_fixed_seats else labels,
    )


_GROUPS = (
    Column("", lambda group: group.name),
    Column("self-play", lambda group: _interval(group.selfplay), left=True, width=22),
    Column("same group, other agents", lambda group: _interval(group.intra), left=True, width=22),
    Column("with other groups", lambda group: _interval(group.inter), left=True),
)


def matrix_parts(matrix: CrossPlayMatrix) -> list[Part]:
    """Meaning of a cell, means with the largest standard error, medians, zero rates, and the
    summary by group."""
    players, labels = matrix.rules.num_players, [agent.label for agent in matrix.agents]
    worst = max(cell.mean.std_error for row in matrix.cells for cell in row)
    others = "the other seat" if players == 2 else f"the other {players - 1} seats"
    how, names = "sampled" if _is_sampled(matrix) else "greedy", matrix.setting.seed_names
    is_hanabi = matrix.rules.name == "hanabi"
    unit = "hanab.live deal" if names else "deck" if is_hanabi else "game"
    games = matrix.setting.games
    decks = count(games, unit) + (f" ({' '.join(names)})" if names else "")
    where = game_label(matrix.rules)
    cell = f"The row's agent has one seat, the column's agent {others}"
    of_cell = f"{decks} x {players} seats of the row's agent = {games * players:,}"
    if matrix.has_fixed_seats:
        cell = "The row's agent is at seat 0, the column's agent at seat 1"
        of_cell = f"{games:,}"
    parts: list[Part] = [
        f"Mean scores, {how} play, {where}. {cell}.",
        f"Games of a cell: {of_cell}; on the diagonal (self-play): {games:,}.",
        square_table(labels, matrix.means),
        f"Standard errors are at most {worst:.2f}."
        if np.isfinite(worst)
        else f"One {unit}: no standard errors.",
        "",
        "Medians of the same games",
        square_table(labels, medians(matrix), ".1f"),
    ]
    zeros = np.array([[cell.zero_rate for cell in row] for row in matrix.cells])
    parts += ["", "Zero rates: fractions of games with score 0"]
    parts += [square_table(labels, zeros, ".1%")] if zeros.any() else ["No game has score 0."]
    groups = grouped(matrix)
    if len(groups.groups) == len(labels):  # each group is one agent
        return parts
    parts += [
        "",
        table(groups.groups, _GROUPS),
        "95% intervals over agents (jackknife for pairs); missing for one agent or one pair.",
    ]
    if len(groups.groups) > 1:
        parts += ["", "By group (diagonal: different agents of the same group)"]
        parts.append(square_table([group.name for group in groups.groups], groups.means))
    return parts


def square_table(names: Sequence[str], values: np.ndarray, spec: str = ".2f") -> Table:
    """Table of a matrix [N, N]; rows have number and name, columns the number."""
    rows = [
        (f"{number:>{len(str(len(names)))}}  {name}", *row)
        for number, (name, row) in enumerate(zip(names, values, strict=True), start=1)
    ]
    columns = (Column(f"{k}", k, spec, missing="-", width=5) for k in range(1, len(names) + 1))
    return table(rows, [Column("", 0), *columns])


def _interval(value: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if np.isfinite(value.low) else f"{value.mean:.2f}"


_CELL_INCHES = 0.62
_MIN_INCHES = 3.2  # size of a small matrix, with room for the title
_ANGLED_FROM = 7  # characters in the longest label from which column labels are rotated
_WHITE_BELOW = 0.179
"""Relative luminance of a cell (WCAG 2) below which white text has more contrast than black."""


def _text_color(cell: np.ndarray) -> str:
    """Black or white, whichever has more contrast with a cell's RGB."""
    rgb = cell[:3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return "white" if linear @ (0.2126, 0.7152, 0.0722) < _WHITE_BELOW else "black"


def plot_matrix(
    means: np.ndarray,
    labels: Sequence[str],
    path: Path,
    *,
    medians: np.ndarray,
    title: str,
    seat_labels: tuple[str, str],
) -> None:
    """Draw `means` float[A, A] in colours from the lowest to the highest mean, at least one point
    apart; `seat_labels`: of rows and of columns.

    The text in a cell is the mean and, below it, the entry of `medians` float[A, A].
    """
    count, longest = len(labels), max(map(len, labels))
    low, high = means.min(), max(means.max(), means.min() + 1)
    side = max(_CELL_INCHES * count, _MIN_INCHES)
    room = 0.085 * longest + 0.6  # inches for the labels
    height = side + min(room, 0.06 * longest + 0.9) + 0.6
    with saved_figure(path, (side + room + 1.3, height)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(means, cmap="viridis", vmin=low, vmax=high)
        size = 10 if count <= 8 else 8.5
        for (row, column), mean in np.ndenumerate(means):
            style: dict[str, Any] = dict(
                ha="center", color=_text_color(np.array(image.to_rgba(mean)))
            )
            median = f"({medians[row, column]:g})"
            axes.text(column, row, f"{mean:.1f}", va="bottom", fontsize=size, **style)
            axes.text(column, row, median, va="top", fontsize=size - 2, **style)
        angled = dict(rotation=40, ha="right", rotation_mode="anchor")
        rotation: dict[str, Any] = angled if longest >= _ANGLED_FROM else {}
        axes.set_xticks(range(count), labels, fontsize=size, **rotation)
        axes.set_yticks(range(count), labels, fontsize=size)
        axes.set_xlabel(seat_labels[1])
        axes.set_ylabel(seat_labels[0])
        axes.set_title(title, fontsize=11)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.arange(count - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(count - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="minor", length=0)
        bar = figure.colorbar(image, ax=axes, shrink=0.8, label="mean score (median)")
        bar.outline.set_visible(False)
