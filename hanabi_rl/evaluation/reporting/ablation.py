"""Tables and plots of a sweep over the KL weight, as AH2AC2's Tables 12, 13 and Figures 7, 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.intervals import bounds_text, mean_interval
from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.papers import ah2ac2 as paper
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Part, text_rows, to_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class WeightResult(NamedTuple):
    """One run of the sweep."""

    weight: float
    summary: Mapping[str, Any]  # content of summary.json
    prediction: Prediction | None  # of the policy on validation games
    metrics: Sequence[Mapping[str, Any]]  # lines of metrics.jsonl


Spread = tuple[float, Sequence[float]]
"""A mean and the two ends of its error bar."""
_SCORES = "KL weight", "self-play", "perfect", "zero", "min", "with BC"
_PREDICTIONS = "KL weight", "val accuracy", "val nats per decision"


def ablation_tables(
    results: Sequence[WeightResult], clone: Prediction | None, with_paper: bool = False
) -> str:
    """Both tables as text, one row per weight with means over seeds.

    with_paper: add AH2AC2's values in brackets.
    """
    published = paper.ABLATION if with_paper else {}
    weights = _by_weight(results)
    scores = [_score_row(weight, runs, published.get(weight)) for weight, runs in weights.items()]
    title = "final parameters in greedy self-play, and with the clone"
    first, seeds = results[0].summary, max(map(len, weights.values()))
    parts: list[Part] = [
        f"Table 12: {title} (paper in brackets)" if with_paper else title.capitalize(),
        text_rows([_SCORES, *scores], left=False),
        f"±: standard error over {seeds} seeds with the same clone, without variation of the clone"
        if seeds > 1
        else "±: half of the 95% interval over the games of the seed",
        f"Clone: self-play {first['bc_selfplay_mean']:.2f} "
        f"{bounds_text(first['bc_selfplay_ci95'])}",
    ]
    if clone is not None:
        title = "Table 13, validation columns: prediction of" if with_paper else "Prediction of"
        brackets = "paper in brackets; " if with_paper else ""
        rows: list[Sequence[str]] = [(*_PREDICTIONS, *["per timestep"] * with_paper)]
        for weight, runs in weights.items():
            row = published.get(weight)
            predictions = [run.prediction for run in runs]
            rows.append(_prediction_row(f"{weight:g}", predictions, row and row.validation))
        of_clone = paper.ABLATION_CLONE[0] if with_paper else None
        rows.append(_prediction_row("clone", [clone], of_clone))
        rows = [row[: len(rows[0])] for row in rows]
        parts += [
            "",
            f"{title} the clone's validation games [95% interval over games]",
            f"({brackets}for test games: hanabi-rl predict)",
            text_rows(rows, left=False),
        ]
    return to_text(*parts)


def _score_row(
    weight: float, runs: Sequence[WeightResult], published: paper.PaperAblation | None
) -> list[str]:
    perfect = f"{_mean(runs, 'selfplay_perfect_rate'):.1%}"
    minimum = f"{min(run.summary['selfplay_min'] for run in runs)}"
    if published:
        perfect += f" ({published.perfect / 5000:.1%})"
        minimum += f" ({published.minimum})"
    return [
        f"{weight:g}",
        _score_text(runs, "selfplay"),
        perfect,
        f"{_mean(runs, 'selfplay_zero_rate'):.1%}",
        minimum,
        _score_text(runs, "crossplay_with_bc"),
    ]


def _prediction_row(
    name: str, predictions: Sequence[Prediction | None], published: paper.PredictionRow | None
) -> list[str]:
    """Seeds are pooled per game, so that the interval is over games. The last cell, nats per
    timestep, is the paper's unit."""
    known = [prediction for prediction in predictions if prediction is not None]
    pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*known, strict=True)))
    accuracy = f"{pooled.accuracy():.3f}"
    per_timestep = f"{pooled.cross_entropy_per_timestep().mean:.3f}"
    if published:
        accuracy += f" ({published.accuracy:.3f})"
        per_timestep += f" ({published.loss_per_timestep:.3f})"
    return [name, accuracy, f"{pooled.cross_entropy():.3f}", per_timestep]


def _by_weight(results: Sequence[WeightResult]) -> dict[float, list[WeightResult]]:
    return {w: [r for r in results if r.weight == w] for w in sorted({r.weight for r in results})}


def _mean(runs: Sequence[WeightResult], key: str) -> float:
    return sum(float(run.summary[key]) for run in runs) / len(runs)


def _score_text(runs: Sequence[WeightResult], key: str) -> str:
    mean, (low, high) = _score(runs, key)
    return f"{mean:.2f} ± {(high - low) / 2:.2f}"


def plot_trade_off(results: Sequence[WeightResult], clone: Prediction | None, path: Path) -> None:
    """Draw mean score in self-play and with the clone against cross-entropy on validation games.

    Each weight has a point with error bars, each seed a dot, the clone a star. Without validation
    games (`clone` is None) the x axis is KL(BC || policy).
    """
    seeds = max(map(len, _by_weight(results).values()))
    measure = "validation cross-entropy" if clone else "KL(BC || policy)"
    label = "one seed, 95% interval over games"
    if seeds > 1:
        label = f"mean of {seeds} seeds, ± standard error"
    with plots.saved_figure(path, (9.2, 4.4)) as figure:
        figure.suptitle("Score and prediction by KL weight (number at each point)", fontsize=11)
        panels = {"selfplay": "with itself", "crossplay_with_bc": "with the clone (BC)"}
        for axes, (key, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            _draw_trade_off(axes, results, key, label)
            of_clone = 0.0 if clone is None else clone.cross_entropy().mean
            score = float(results[0].summary["bc_selfplay_mean"])
            axes.plot(of_clone, score, "k*", markersize=11, label="clone, self-play", zorder=4)
            axes.set_title(title, fontsize=10)
            axes.set(xlabel=f"{measure} [nats per decision]", ylabel="points per game")
            plots.plain_axes(axes)
            axes.margins(0.1)
        handles = axes.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _draw_trade_off(axes: Axes, results: Sequence[WeightResult], key: str, label: str) -> None:
    """The score `key` of each weight, connected in the order of weights."""
    weights = _by_weight(results)
    places = [(_distance(runs), _score(runs, key)) for runs in weights.values()]
    (x, x_bounds), (y, y_bounds) = (zip(*part, strict=True) for part in zip(*places, strict=True))
    if len(results) > len(weights):
        seeds = [(_distance([run])[0], _score([run], key)[0]) for run in results]
        axes.plot(
            *zip(*seeds, strict=True), ".", color=plots.COLORS[5], markersize=5, label="each seed"
        )
    axes.errorbar(
        x, y, xerr=plots.error_bars(x, x_bounds), yerr=plots.error_bars(y, y_bounds), fmt="o-",
        color=plots.COLORS[0], markersize=5, linewidth=1.4, capsize=3, label=label,
    )  # fmt: skip
    for weight, place in zip(weights, zip(x, y, strict=True), strict=True):
        axes.annotate(f"{weight:g}", place, (6, 6), textcoords="offset points", fontsize=8)


def _score(runs: Sequence[WeightResult], key: str) -> Spread:
    means = [float(run.summary[f"{key}_mean"]) for run in runs]
    return _spread(means, runs[0].summary[f"{key}_ci95"])


def _distance(runs: Sequence[WeightResult]) -> Spread:
    """Cross-entropy on validation games; KL to the clone without them. Nats per decision."""
    predictions = [run.prediction for run in runs if run.prediction is not None]
    if not predictions:
        kl = [float(run.summary["kl_to_bc"]) for run in runs]
        return _spread(kl, runs[0].summary["kl_to_bc_ci95"])
    nats = [prediction.cross_entropy().mean for prediction in predictions]
    return _spread(nats, predictions[0].cross_entropy().bounds)


def _spread(values: Sequence[float], of_one: Sequence[float]) -> Spread:
    """Mean ± standard error over seeds; for one seed, the interval `of_one` over games."""
    if len(values) == 1:
        return values[0], of_one
    interval = mean_interval(np.array(values))
    mean, error = interval.mean, interval.std_error
    return mean, (mean - error, mean + error)


def plot_kl(results: Sequence[WeightResult], path: Path, without: Sequence[float] = ()) -> None:
    """Draw KL(BC || policy) against environment steps, one line per weight (first seed).

    This is AH2AC2's Figure 7; `without` the weights that hide the others, Figure 8. Draws nothing
    if no weight remains or if none of `without` is in the results.
    """
    if without and not set(without) & {result.weight for result in results}:
        return
    curves = []
    for weight, runs in _by_weight(results).items():
        lines = [line for line in runs[0].metrics if line.get("kl_to_bc") is not None]
        if weight not in without and lines:
            steps, kl = ([line[key] for line in lines] for key in ("env_steps", "kl_to_bc"))
            curves.append(plots.Curve(f"{weight:g}", steps, kl))
    title = "KL(BC || policy) in training, first seed"
    if curves:
        plots.plot_curves(
            curves, path, title, "environment steps", "nats per decision", "KL weight"
        )
