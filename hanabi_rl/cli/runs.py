"""`hanabi-rl runs` and `compare`: index and comparison of training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from hanabi_rl.cli.output import Parts, Plot, measure_command
from hanabi_rl.storage.words import count

Runs = Annotated[
    tuple[Path, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="RUN [RUN ...]", help="run folders, or folders of runs (a sweep)"),
]


@measure_command
def compare(runs: Runs, metrics: tuple[str, ...] = (), plot: Plot = None) -> Parts:
    """Compare training runs: learning curves, final scores, config fields that differ.

    Runs that differ only by seed are one line, the mean with a band of one standard error. All
    runs play the same game.

    Args:
        metrics: other logged metrics to compare, such as those of your own objective.
    """
    from hanabi_rl.runs.comparison import (
        check_metrics,
        comparison_dict,
        comparison_parts,
        plot_comparison,
        read_groups,
    )

    if not runs:
        raise ValueError("expected at least one run, got none; see `hanabi-rl runs`")
    groups = read_groups(runs)
    check_metrics(groups, metrics)
    yield from comparison_parts(groups, metrics)
    if plot is not None:
        plot_comparison(groups, plot, metrics)
    yield comparison_dict(groups, metrics)


@measure_command
def list_runs(folder: tyro.conf.Positional[Path] = Path("runs")) -> Parts:
    """List the training runs below a folder, by algorithm, game and config.

    Columns: config fields that differ, seed, progress, score in self-play, state (finished,
    resumable or no checkpoint).
    """
    from hanabi_rl.runs.comparison import index_parts, index_rows
    from hanabi_rl.runs.found_runs import find_runs, read_run

    found, unreadable = [], []
    for place in find_runs(folder):
        try:
            run = read_run(place)
            _ = run.metrics, run.summary  # read here, where errors are listed
            found.append(run)
        except ValueError as error:
            unreadable.append(str(error))
    if not found and not unreadable:
        raise ValueError(f"expected a folder with runs, got none below {folder}")
    yield f"{folder}: {count(len(found), 'run')}"
    if found:
        yield from index_parts(found, folder)
    yield from (f"Not readable: {error}" for error in unreadable)
    yield {"folder": str(folder), "runs": index_rows(found, folder), "not_readable": unreadable}
