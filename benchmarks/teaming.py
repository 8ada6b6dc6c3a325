r"""Effect of a reward for constructive links, from a sweep over `teaming_weight`.

    python train/sweep.py --algorithm ippo --preset small \
        --grid 'shaping.teaming_weight=[0.0, 0.3]' --seeds 0 1 2 3 4 --run-dir DIR
    python benchmarks/teaming.py --sweep DIR --plot docs/teaming.png --json

One line per weight: greedy self-play of every run's policy on the report decks, mean and 95%
interval over seeds, and for score and links the difference from the first weight (Welch). The plot
has the score of the training games, and the links where they are rewarded (runs of weight 0 do not
log them).
"""

import sys
from pathlib import Path
from typing import Any

import common
import numpy as np
from scipy import stats

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.interdependence import (
    constructive,
    constructive_per_point,
    hinted_points,
    nonconstructive,
    not_helpful,
)
from hanabi_rl.evaluation.measure.intervals import mean_interval
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.plots import COLORS, DASHES
from hanabi_rl.runs.tracking import read_metrics

LINKS = {
    "constructive": constructive,
    "constructive_per_point": constructive_per_point,
    "nonconstructive": nonconstructive,
    "not_helpful": not_helpful,
    "hinted_points": hinted_points,
}
_COMPARED = ("score", "constructive", "constructive_per_point")
_SMOOTH = 15  # updates that a point of a curve is the mean of


def runs_of(sweep: Path) -> dict[float, list[Path]]:
    """The finished runs of each weight."""
    found: dict[float, list[Path]] = {}
    for summary in sorted(sweep.glob("*teaming_weight=*/s*/summary.json")):
        weight = float(summary.parent.parent.name.split("=")[1])
        found.setdefault(weight, []).append(summary.parent)
    if not found:
        raise SystemExit(f"--sweep {sweep}: expected runs in *teaming_weight=*/s*, found none")
    return found


def figures_of(run: Path, games: int) -> dict[str, float]:
    """The score of one run's policy, and what its hints lead to."""
    played = evaluate_selfplay(load_policy(str(run)), games, 0)
    record = GameAnalysis(played.records)
    links = {name: measure(record).interval.mean for name, measure in LINKS.items()}
    return {"score": played.summary.mean.mean, **links}


def difference(name: str, values: list[float], base: list[float]) -> common.Record:
    """Of two means over seeds, with Welch's interval."""
    result = stats.ttest_ind(values, base, equal_var=False).confidence_interval()
    return {
        f"{name}_difference": round(float(np.mean(values) - np.mean(base)), 3),
        f"{name}_difference_ci95": [round(float(bound), 3) for bound in (result.low, result.high)],
    }


def draw(runs: dict[float, list[Path]], path: Path) -> None:
    """Training curves, one line a run."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, key in zip(axes, ("train_score", "teaming"), strict=True):
        for (weight, folders), color, dash in zip(runs.items(), COLORS, DASHES, strict=False):
            for number, folder in enumerate(folders):
                lines = [line for line in read_metrics(folder / "metrics.jsonl") if key in line]
                if not lines:
                    continue
                count = len(lines) // _SMOOTH * _SMOOTH
                steps, values = (
                    np.array([line[name] for line in lines[:count]]).reshape(-1, _SMOOTH).mean(1)
                    for name in ("env_steps", key)
                )
                label = None if number else f"teaming_weight {weight:g}"
                axis.plot(steps / 1e6, values, dash, color=color, linewidth=1, label=label)
        axis.set_xlabel("million environment steps")
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_title("true score of training games")
    axes[1].set_title("constructive links, a training game")
    figure.savefig(path, dpi=110)


def measure(sweep: str = "runs/sweep-ippo-small", games: int = 1000, plot: str = "") -> Any:
    """Reads and plays; returns the JSON record."""
    runs = runs_of(Path(sweep))
    found = {
        weight: [figures_of(run, games) for run in folders] for weight, folders in runs.items()
    }
    base, record = next(iter(found)), {}
    for weight, rows in found.items():
        line: common.Record = {"seeds": len(rows)}
        for name in rows[0]:
            over = mean_interval(np.array([row[name] for row in rows]))
            line |= {name: round(over.mean, 3), f"{name}_ci95": np.round(over.bounds, 3).tolist()}
        for name in _COMPARED if weight != base else ():
            both = ([row[name] for row in of] for of in (rows, found[base]))
            line |= difference(name, *both)
        record[f"teaming_weight={weight:g}"] = line
    if plot:
        draw(runs, Path(plot))
        print(f"Plot: {plot}", file=sys.stderr)
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)
