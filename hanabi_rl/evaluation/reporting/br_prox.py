"""BR-Prox as text, as figures for programs and as a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.br_prox import BRProx, Part, by_strength, is_expert, ratios
from hanabi_rl.evaluation.measure.intervals import explained
from hanabi_rl.evaluation.reporting.plots import COLORS, error_bars, plain_text

MANY_CLIPPED = 0.1
_PARTS: tuple[Part, ...] = ("all", "moderate", "expert")
_COLORS = dict(zip(_PARTS, COLORS, strict=False))
_MARKERS = {"all": "o", "moderate": "s", "expert": "^"}


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Methods of one or more runs with M partners, by their scores or by their points."""

    unit: str
    partners: Sequence[str]
    best: np.ndarray  # float[M, S], J_BR by seat
    selfplay: np.ndarray  # float[M], of each partner with copies of itself
    methods: Mapping[str, np.ndarray]  # name -> float[R, M, S, N], the returns of its runs
    seed: int = 0

    def parts(self) -> dict[str, dict[Part, BRProx]]:
        """Method -> its BR-Prox with all partners and with the moderate and the expert ones."""
        return {
            name: by_strength(returns, self.best, self.selfplay, self.seed)
            for name, returns in self.methods.items()
        }

    def by_partner(self) -> dict[str, np.ndarray]:
        """Method -> float[M], the mean of its clipped ratios with each partner."""
        means = {name: returns.mean(axis=-1) for name, returns in self.methods.items()}
        return {
            name: ratios(of_runs, self.best).clip(max=1.0).mean(axis=(0, 2))
            for name, of_runs in means.items()
        }


def br_prox_figures(
    comparison: Comparison, parts: Mapping[str, Mapping[Part, BRProx]]
) -> dict[str, Any]:
    """JSON-ready."""
    by_partner = comparison.by_partner()
    strong = is_expert(comparison.selfplay)
    return {
        "partners": [
            {
                "agent": name,
                "best_response_return": best,
                "selfplay_return": float(alone),
                "expert": bool(expert),
            }
            for name, best, alone, expert in zip(
                comparison.partners, comparison.best, comparison.selfplay, strong, strict=True
            )
        ],
        "methods": {
            name: {part: found.as_dict() for part, found in of_method.items()}
            | {"mean_by_partner": by_partner[name]}
            for name, of_method in parts.items()
        },
    }


def br_prox_table(comparison: Comparison, parts: Mapping[str, Mapping[Part, BRProx]]) -> str:
    """A line a method and kind of partners, and one a partner."""
    width = max(len(name) for name in ("method", *parts))
    strong = is_expert(comparison.selfplay)
    counts = {"all": len(strong), "moderate": int((~strong).sum()), "expert": int(strong.sum())}
    lines = [
        f"{'method':<{width}}  {'runs':>4}  {'partners':<12}  {'BR-Prox':<20}  {'mean':>5}  "
        f"{'25%-75%':<9}  {'clipped':>7}  {'J_BR 0':>6}"
    ]
    for name, of_method in parts.items():
        for part, found in of_method.items():
            low, high = found.quartiles
            lines.append(
                f"{name:<{width}}  {found.runs:>4}  {f'{part} ({counts[part]})':<12}  "
                f"{f'{found.iqm:.3f}':<20}  {found.mean:>5.3f}  {low:.2f}-{high:.2f}  "
                f"{found.clipped:>7.1%}  {found.best_zero:>6.1%}"
            )
    lines += ["", *_partner_lines(comparison), ""]
    over = {found["all"].over for found in parts.values()}
    lines += [
        f"{comparison.unit.capitalize()}. BR-Prox: the mean of the middle half of J / J_BR over "
        "runs, partners and seats, clipped at 1.",
        "J_BR 0: fraction of partners and seats whose best response returns at most 0; each counts "
        "as reached (1), as in the authors' code.",
        "Expert: partners that score more with copies of themselves (self-play) than the median of "
        "them.",
        "95% intervals resample runs"
        + (
            "." if over == {"runs"} else "; of one run its decks, which says nothing of other ones."
        ),
    ]
    for name, of_method in parts.items():
        if of_method["all"].clipped > MANY_CLIPPED:
            lines.append(
                f"Warning: {of_method['all'].clipped:.0%} of the entries of {name} are above 1: "
                "the best responses are not best ones, train them longer."
            )
    return explained("\n".join(lines))


def _partner_lines(comparison: Comparison) -> list[str]:
    """Self-play, J_BR and each method's mean ratio, partner by partner."""
    by_partner, strong = comparison.by_partner(), is_expert(comparison.selfplay)
    width = max(len(name) for name in ("partner", *comparison.partners))
    columns = [max(len(name), 5) for name in by_partner]
    lines = [
        f"{'partner':<{width}}  {'':<8}  {'self-play':>9}  {'J_BR':>6}"
        + "".join(f"  {name:>{size}}" for name, size in zip(by_partner, columns, strict=True))
    ]
    for row, partner in enumerate(comparison.partners):
        cells = (
            f"  {by_partner[n][row]:>{s}.3f}" for n, s in zip(by_partner, columns, strict=True)
        )
        strength = "expert" if strong[row] else "moderate"
        alone, best = comparison.selfplay[row], comparison.best[row].mean()
        lines.append(
            f"{partner:<{width}}  {strength:<8}  {alone:>9.2f}  {best:>6.2f}" + "".join(cells)
        )
    return lines


@plain_text
def plot_br_prox(parts: Mapping[str, Mapping[Part, BRProx]], path: Path, title: str) -> None:
    """Draws each method's BR-Prox with its interval, over all partners and by their strength."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 1.6 + 0.55 * len(parts)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = np.arange(len(parts))
    for index, part in enumerate(_PARTS):
        found = [
            (row, of[part]) for row, of in zip(rows, parts.values(), strict=True) if part in of
        ]
        if not found:
            continue
        middle = [prox.iqm.mean for _, prox in found]
        axes.errorbar(
            middle,
            [row + 0.2 * (index - 1) for row, _ in found],
            xerr=error_bars(middle, [prox.iqm.bounds for _, prox in found]),
            fmt=_MARKERS[part],
            color=_COLORS[part],
            markersize=5,
            capsize=3,
            label=f"{part} partners",
        )
    axes.set_yticks(rows, list(parts))
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("BR-Prox, with 95% intervals")
    axes.set_title(title, fontsize=10, wrap=True)
    axes.grid(color="#dddddd", linewidth=0.6, axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
