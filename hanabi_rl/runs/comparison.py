"""Comparison of runs: learning curves with bands over seeds, scores with intervals, config fields
that differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import Interval, mean_interval, score_bounds
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Part, text_rows
from hanabi_rl.runs.found_runs import (
    FINISHED,
    SELFPLAY_SCORES,
    FoundRun,
    SeedGroup,
    differing_fields,
    final_score,
    find_runs,
    game_text,
    group_seeds,
    read_run,
)
from hanabi_rl.storage.words import count, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = {  # metric -> title, unit
    "selfplay_mean": ("Self-play", "points per game"),
    "crossplay_with_partners_mean": ("With training partners", "points per game"),
    "crossplay_with_bc_mean": ("Cross-play with BC", "points per game"),
    "val_loss": ("Validation cross-entropy", "nats per decision"),
    "val_accuracy": ("Validation accuracy", "fraction of decisions"),
    "kl_to_bc": ("KL(BC || policy) in training", "nats"),
    "entropy": ("Entropy in training", "nats"),
}
_SCORES = {  # column -> summary keys, without `_mean`
    "self-play": SELFPLAY_SCORES,
    "with partners": ("crossplay_with_partners",),
    "with BC": ("crossplay_with_bc",),
}
UNITS = {"env_steps": "environment steps", "epoch": "epochs"}
"""Metric that counts progress -> its unit."""


def read_groups(places: Sequence[Path]) -> list[SeedGroup]:
    """Groups of the runs at or below `places`. Clones in a folder with other runs are left out.

    Raises ValueError for a folder without runs, runs of different games or units of progress, or
    without any metrics.
    """
    runs: dict[Path, FoundRun] = {}
    for place in places:
        if not (found := [*find_runs(place)]):
            got = place if place.exists() else f"{place}, which does not exist"
            raise ValueError(f"expected a run's folder or a folder of runs, got {got}")
        read = [read_run(folder) for folder in found]
        if any(run.metrics and run.unit == "env_steps" for run in read):  # without a sweep's clone
            read = [run for run in read if run.unit == "env_steps" or run.folder == place]
        runs |= {run.folder.resolve(): run for run in read}
    of = [run for run in runs.values() if run.metrics]
    if not of:
        raise ValueError(f"expected runs with metrics, got none in {count(len(runs), 'run')}")
    first = of[0]
    for run in of:
        if run.game != first.game:
            raise ValueError(
                f"expected runs of one game, got {game_text(first.game)} ({first.folder}) and "
                f"{game_text(run.game)} ({run.folder})"
            )
        if run.unit != first.unit:
            raise ValueError(
                f"expected runs with one unit of progress, got {UNITS[first.unit]} "
                f"({first.folder}) and {UNITS[run.unit]} ({run.folder})"
            )
    return group_seeds(of)


class Band(NamedTuple):
    """A metric over the seeds of a group."""

    x: np.ndarray  # [K], places that every seed logged
    mean: np.ndarray  # float[K]
    std_error: np.ndarray  # float[K], 0 for one seed


def metric_band(runs: Sequence[FoundRun], key: str) -> Band | None:
    """Mean and standard error of a metric over seeds; None if no place is common to all of them.

    Lines of `plots.NOISY_POINTS` are smoothed, one by one.
    """
    curves = [dict(plots.logged_values(run.metrics, run.unit, key)) for run in runs]
    x = sorted(set.intersection(*map(set, curves)))
    if not x:
        return None
    lines: list[Sequence[float]] = [[curve[place] for place in x] for curve in curves]
    if len(x) >= plots.NOISY_POINTS:
        lines = [plots.smoothed(x, line)[1] for line in lines]
    values = np.array(lines)
    error = np.zeros(values.shape[1])
    if len(runs) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return Band(np.array(x[-values.shape[1] :]), values.mean(axis=0), error)


class GroupScore(NamedTuple):
    """Score of a group's finished runs."""

    seeds: list[float]
    interval: Interval
    """Over seeds; for one seed, over its games."""


def group_score(group: SeedGroup, names: Sequence[str]) -> GroupScore | None:
    """The first score in `names` that the summaries have; None without finished runs."""
    finished = [run for run in group.runs if run.summary is not None]
    for name in names:
        found = [final_score(run.summary or {}, name) for run in finished]
        known = [score for score in found if score is not None]
        if not known:
            continue
        means = [mean for mean, _ in known]
        if len(known) > 1:
            max_score = group.runs[0].max_score
            low, high = score_bounds(max_score)
            interval = mean_interval(np.array(means), min_value=low, max_value=high)
            return GroupScore(means, interval)
        low, high = known[0][1] or (np.nan, np.nan)
        return GroupScore(means, Interval(means[0], low, high, np.nan))
    return None


def check_metrics(groups: Sequence[SeedGroup], metrics: Sequence[str]) -> None:
    """Raise ValueError for a metric that no run has logged as a number."""
    lines = (line for group in groups for run in group.runs for line in run.metrics)
    logged = {name for line in lines for name in line if isinstance(line[name], int | float)}
    for name in metrics:
        if name not in logged:
            raise ValueError(
                f"--metrics: expected logged metrics, got {name!r}{did_you_mean(name, logged)}; "
                f"logged: {', '.join(sorted(logged))}"
            )


def _panels(metrics: Sequence[str]) -> dict[str, tuple[str, str]]:
    return {name: (name, "value") for name in metrics} | _PANELS


def comparison_parts(groups: Sequence[SeedGroup], metrics: Sequence[str] = ()) -> Iterator[Part]:
    """Final scores of each group, last values of `metrics`, and the config fields that differ."""
    scores = {
        name: [group_score(group, keys) for group in groups] for name, keys in _SCORES.items()
    }
    shown = {name: of for name, of in scores.items() if any(of)}
    rows = [["", "seeds", "finished", "progress"]]
    for name in shown:
        rows[0] += [name, "95% interval"]
    rows[0] += metrics
    for place, group in enumerate(groups):
        finished = sum(run.state == FINISHED for run in group.runs)
        done = min(run.done for run in group.runs)
        row = [group.label, seeds_text(group.runs), f"{finished}", f"{done:,}"]
        for of in shown.values():
            score = of[place]
            row += ["-", "-"] if score is None else format(score.interval, ".2f").split(" ", 1)
        bands = (metric_band(group.runs, name) for name in metrics)
        row += ["-" if band is None else f"{band.mean[-1]:.4g}" for band in bands]
        rows.append(row)
    yield text_rows(rows)
    unit = UNITS[groups[0].runs[0].unit]
    yield (
        "Scores: mean of the finished seeds. Intervals: over seeds, for one seed over its games. "
        f"Progress: {unit} of the shortest run."
    )
    if metrics:
        yield f"{', '.join(metrics)}: mean over seeds at the last progress that all have logged."
    fields = dict.fromkeys(name for group in groups for name in group.values)
    differing = [
        [name, *(group.values.get(name, "-") for group in groups)]
        for name in fields
        if len({group.values.get(name) for group in groups}) > 1
    ]
    yield ""
    if differing:
        yield text_rows([["field", *(group.label for group in groups)], *differing])
    else:
        yield "No config field differs."


def seeds_text(runs: Sequence[FoundRun]) -> str:
    """`0..4`, or `0 3 7`."""
    seeds = [run.seed for run in runs]
    if len(seeds) > 2 and seeds == [*range(seeds[0], seeds[-1] + 1)]:
        return f"{seeds[0]}..{seeds[-1]}"
    return " ".join(map(str, seeds))


def comparison_dict(groups: Sequence[SeedGroup], metrics: Sequence[str] = ()) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "game": game_text(groups[0].runs[0].game),
        "unit": groups[0].runs[0].unit,
        "groups": [
            {
                "label": group.label,
                "fields": dict(group.values),
                "runs": [str(run.folder) for run in group.runs],
                "seeds": [run.seed for run in group.runs],
                "scores": {
                    keys[0]: {
                        "seeds": score.seeds,
                        "mean": score.interval.mean,
                        "mean_ci95": score.interval.bounds,
                    }
                    for keys in _SCORES.values()
                    if (score := group_score(group, keys))
                },
                "curves": {
                    key: dict(zip(("x", "mean", "std_error"), band, strict=True))
                    for key in _panels(metrics)
                    if (band := metric_band(group.runs, key))
                },
            }
            for group in groups
        ],
    }


_CHARACTERS_PER_INCH = 14  # of the legend


def plot_comparison(groups: Sequence[SeedGroup], path: Path, metrics: Sequence[str] = ()) -> None:
    """Draw each logged metric, one line per group with a band over seeds, and the final scores."""
    panels = _panels(metrics)
    bands = {key: [metric_band(group.runs, key) for group in groups] for key in panels}
    bands = {key: found for key, found in bands.items() if any(found)}
    scores = [group_score(group, _SCORES["self-play"]) for group in groups]
    if not bands and not any(scores):
        raise ValueError("--plot: expected a metric that can be drawn, got none")
    with plots.panel_grid(path, len(bands) + any(scores)) as all_axes:
        for axes, (key, found) in zip(all_axes, bands.items(), strict=False):
            _draw_bands(axes, groups, found, *panels[key])
            plots.label_progress(axes, UNITS[groups[0].runs[0].unit])
        if any(scores):
            _draw_scores(all_axes[-1], groups, scores)
        figure = all_axes[0].get_figure(root=True)
        assert figure is not None
        handles, labels = all_axes[0].get_legend_handles_labels()
        if bands:  # scores name their groups themselves
            width = max(map(len, labels)) + 8
            fitting = int(_CHARACTERS_PER_INCH * figure.get_figwidth() / width)
            figure.legend(
                handles, labels, loc="outside lower center", ncols=max(1, min(fitting, 4)),
                fontsize=8, frameon=False,
            )  # fmt: skip
        if any(len(group.runs) > 1 for group in groups):
            figure.suptitle("Mean over seeds; band: ± standard error", fontsize=10)


def _draw_bands(
    axes: Axes, groups: Sequence[SeedGroup], bands: Sequence[Band | None], title: str, unit: str
) -> None:
    low, high = np.inf, -np.inf
    for number, (group, band) in enumerate(zip(groups, bands, strict=True)):
        color, dash = _style(number)
        label = plots.in_legend(f"{group.label} ({count(len(group.runs), 'seed')})")
        if band is None:
            axes.plot([], [], dash, color=color, label=label, linewidth=1.6)
            continue
        x, mean, error = band
        axes.plot(x, mean, dash, color=color, label=label, linewidth=1.6)
        below, above = mean - error, mean + error
        if len(group.runs) > 1:
            axes.fill_between(x, below, above, color=color, alpha=0.2, linewidth=0)
        low, high = min(low, mean.min()), max(high, mean.max())
    axes.set_title(title, fontsize=11)
    axes.set_ylabel(unit)
    plots.plain_axes(axes)
    axes.margins(x=0.02)
    plots.begin_at_data(axes, low, high)


def _draw_scores(
    axes: Axes, groups: Sequence[SeedGroup], scores: Sequence[GroupScore | None]
) -> None:
    """Final scores in self-play: the mean with its interval, each seed a dot."""
    for row, score in enumerate(scores):
        if score is None:
            continue
        color, _ = _style(row)
        if len(score.seeds) > 1:
            axes.plot(score.seeds, [row + 0.22] * len(score.seeds), ".", color=color, alpha=0.6)
        mean, bounds = score.interval.mean, score.interval.bounds
        plots.draw_intervals(axes, [row], [mean], [bounds], horizontal=True, color=color)
    for row, group in enumerate(groups):
        axes.text(0.01, row - 0.2, group.label, fontsize=8, transform=axes.get_yaxis_transform())
    axes.set_yticks([])
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_title("Final self-play", fontsize=11)
    axes.set_xlabel("points per game, 95% interval; dots: seeds")
    plots.plain_axes(axes, "x")


def _style(number: int) -> tuple[str, str]:
    """Colour and dash of a group's line."""
    colors, dashes = plots.COLORS, plots.DASHES
    return colors[number % len(colors)], dashes[number // len(colors) % len(dashes)]


def index_parts(runs: Sequence[FoundRun], place: Path) -> Iterator[Part]:
    """One row per run, by algorithm, game, differing fields and seed."""
    yield text_rows([_INDEX, *([row[name] for name in _INDEX] for row in index_rows(runs, place))])
    yield (
        "Fields: those that differ between runs of the same algorithm and game. Score: self-play, "
        "of an unfinished run at the last evaluation."
    )


_INDEX = ["run", "algorithm", "game", "preset", "seed", "progress", "score", "state", "fields"]


def index_rows(runs: Sequence[FoundRun], place: Path) -> list[dict[str, str]]:
    """Rows of the index; folders are relative to `place`."""
    kinds: dict[tuple[str, str], list[FoundRun]] = {}
    for run in runs:
        kinds.setdefault((run.algorithm, game_text(run.game)), []).append(run)
    rows = []
    for (algorithm, game), of in sorted(kinds.items()):
        fields = differing_fields(of)
        for run in sorted(of, key=lambda run: (_order(run, fields), run.seed, str(run.folder))):
            score = run.score()
            total = run.fields.get("total_steps" if run.unit == "env_steps" else "epochs")
            goal = f" of {int(float(total)):,}" if total and run.state != FINISHED else ""
            rows.append(
                {
                    "run": os.path.relpath(run.folder, place),
                    "algorithm": algorithm,
                    "game": game,
                    "preset": Path(run.preset or "-").stem,
                    "seed": str(run.seed),
                    "progress": f"{run.done:,}{goal} {UNITS[run.unit]}",
                    "score": "-" if score is None else f"{score[0]:.2f}",
                    "state": run.state,
                    "fields": ", ".join(f"{n}={run.fields[n]}" for n in fields if n in run.fields),
                }
            )
    return rows


def _order(run: FoundRun, fields: Sequence[str]) -> list[tuple[float, str]]:
    """Values of fields in the order of numbers, then of text."""

    def place(text: str) -> tuple[float, str]:
        try:
            return float(text), ""
        except ValueError:
            return np.inf, text

    return [place(run.fields.get(name, "")) for name in fields]
