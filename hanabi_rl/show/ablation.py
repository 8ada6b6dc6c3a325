"""The ablation over the KL weight: AH2AC2's Tables 12 and 13, ours beside theirs, and its curves of
the KL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.measure.intervals import bounds_text, mean_interval
from hanabi_rl.measure.prediction import Prediction
from hanabi_rl.papers import ah2ac2 as paper
from hanabi_rl.show.plots import Curve, plot_curves


class WeightResult(NamedTuple):
    """One run of the ablation."""

    weight: float
    summary: Mapping[str, Any]  # of its summary.json
    prediction: Prediction | None  # of its policy on held-out games
    metrics: Sequence[Mapping[str, Any]]  # lines of its metrics.jsonl


def ablation_tables(results: Sequence[WeightResult], clone: Prediction | None) -> str:
    """Both tables as text, one line a weight, means over its seeds."""
    lines = [
        "Table 12: final weights in greedy self-play, and with the clone (the paper's figures in "
        "brackets)",
        f"{'KL weight':<12}{'self-play':>16}{'perfect':>16}{'zero':>9}{'min':>10}{'with BC':>16}",
    ]
    for weight, runs in _by_weight(results).items():
        published = paper.ABLATION.get(weight)
        perfect = f"{_mean(runs, 'selfplay_perfect_share'):.1%}" + (
            f" ({published.perfect / 5000:.1%})" if published else ""
        )
        minimum = f"{min(run.summary['selfplay_min'] for run in runs)}" + (
            f" ({published.minimum})" if published else ""
        )
        lines.append(
            f"{weight:<12g}{_over_seeds(runs, 'selfplay_mean'):>16}{perfect:>16}"
            f"{_mean(runs, 'selfplay_zero_share'):>9.1%}{minimum:>10}"
            f"{_over_seeds(runs, 'crossplay_with_bc_mean'):>16}"
        )
    first = results[0].summary
    lines.append(
        "±: the standard error over seeds; of one seed half of the 95% interval over its games"
    )
    bounds = bounds_text(first["bc_selfplay_ci95"])
    lines.append(f"The clone: self-play {first['bc_selfplay_mean']:.2f} {bounds}")
    if clone is not None:
        lines += [
            "",
            "Table 13, its validation columns: on the games that the clone was validated on [95% "
            "over games]",
            "(the paper's validation figures in brackets; for test games: hanabi-rl predict)",
        ]
        lines.append(
            f"{'KL weight':<12}{'val accuracy':>30}{'val loss per timestep':>34}"
            f"{'per decision':>15}"
        )
        for weight, runs in _by_weight(results).items():
            row = paper.ABLATION.get(weight)
            read = [run.prediction for run in runs]
            lines.append(_prediction_line(f"{weight:g}", read, row and row.validation))
        lines.append(_prediction_line("clone", [clone], paper.ABLATION_CLONE[0]))
    return "\n".join(lines)


def _prediction_line(
    name: str, predictions: Sequence[Prediction | None], published: paper.Predicted | None
) -> str:
    """Seeds are pooled game by game, so that the interval is over games."""
    read = [prediction for prediction in predictions if prediction is not None]
    pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*read, strict=True)))
    accuracy, loss = f"{pooled.accuracy():.3f}", f"{pooled.cross_entropy_per_timestep():.3f}"
    if published:
        accuracy, loss = (
            f"{accuracy} ({published.accuracy:.3f})",
            f"{loss} ({published.loss_per_timestep:.3f})",
        )
    return f"{name:<12}{accuracy:>30}{loss:>34}{pooled.cross_entropy().mean:>15.3f}"


def _by_weight(results: Sequence[WeightResult]) -> dict[float, list[WeightResult]]:
    return {w: [r for r in results if r.weight == w] for w in sorted({r.weight for r in results})}


def _mean(runs: Sequence[WeightResult], key: str) -> float:
    return sum(float(run.summary[key]) for run in runs) / len(runs)


def _over_seeds(runs: Sequence[WeightResult], key: str) -> str:
    """The mean over seeds with its standard error; of one seed, with the interval over games as
    half its width."""
    values = [float(run.summary[key]) for run in runs]
    if len(values) == 1:
        low, high = runs[0].summary[key.replace("_mean", "_ci95")]
        return f"{values[0]:.2f} ± {(high - low) / 2:.2f}"
    interval = mean_interval(np.array(values))
    return f"{interval.mean:.2f} ± {interval.std_error:.2f}"


def plot_kl(results: Sequence[WeightResult], path: Path, without: Sequence[float] = ()) -> None:
    """KL(BC || policy) against environment steps, a line a weight (its first seed): Figure 7, or
    `without` the weights that hide the others, Figure 8. Nothing is drawn where no weight is
    left."""
    curves = []
    for weight, runs in _by_weight(results).items():
        lines = [line for line in runs[0].metrics if line.get("kl_to_bc") is not None]
        if weight not in without and lines:
            curves.append(
                Curve(
                    f"{weight:g}",
                    [line["env_steps"] for line in lines],
                    [line["kl_to_bc"] for line in lines],
                )
            )
    title = "KL(BC || policy) in training"
    if curves:
        plot_curves(curves, path, title, "environment steps", "nats per decision", "KL weight")
