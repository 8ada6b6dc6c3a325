"""The gauntlet as text, as figures for programs and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.gauntlet import VERSION, GauntletResult, PartnerResult
from hanabi_rl.evaluation.measure.intervals import Interval, explained
from hanabi_rl.evaluation.reporting.plots import COLORS, MARKERS, error_bars, in_legend, plain_text


def gauntlet_table(results: Sequence[GauntletResult]) -> str:
    """A line an agent: its own kind, every family it meets, the mean and the worst of the families,
    and what a series is worth. A family of which all partners were met in training has a star."""
    families = list(dict.fromkeys(name for r in results for name in r.families()))
    names = [result.agent for result in results]
    width = max(len(name) for name in ("agent", *names))
    best = [result.fraction_of_best_response() for result in results]
    known = any(share is not None for share in best)
    heads = ["self-play", *families, "mean", "worst", *(["of best"] if known else [])]
    heads += ["zero", "gain"]
    sizes = [max(7, len(head)) for head in heads]
    lines = [
        f"{'agent':<{width}}" + "".join(f"  {h:>{s}}" for h, s in zip(heads, sizes, strict=True))
    ]
    for result, share in zip(results, best, strict=True):
        means, strange = result.families(), result.families(seen_in_training=False)
        cells = [f"{result.self_play.mean.mean:.2f}"]
        for family in families:
            star = "" if family in strange or family not in means else "*"
            cells.append(f"{means[family].mean:.2f}{star}" if family in means else "-")
        over, gain = result.family_summary(), result.gain()
        cells += [f"{over[0]:.2f}", f"{over[1]:.2f}"] if over else ["-", "-"]
        if known:
            cells.append("-" if share is None else f"{share:.0%}")
        cells += [f"{result.zero_rate():.1%}", "-" if gain is None else f"{gain.mean:+.2f}"]
        lines.append(
            f"{result.agent:<{width}}"
            + "".join(f"  {c:>{s}}" for c, s in zip(cells, sizes, strict=True))
        )
    lines += ["", "Mean and worst are over families. * every partner of it was met in training."]
    if known:
        lines.append("Of best: the mean over families as a share of best responses' means.")
    return "\n".join(lines)


def partner_table(result: GauntletResult) -> str:
    """A line a partner: the mean score, zeros, and the score by the number of the game."""
    rows = [result.self_play, *result.partner_results]
    width = max(len(row.partner.name) for row in rows) + 1
    kinds = max(len(row.partner.family) for row in rows)
    length = rows[0].scores.shape[2]
    games = "".join(f"  {f'game {k + 1}':>6}" for k in range(length)) if length > 1 else ""
    known = any(row.fraction_of_best_response is not None for row in rows)
    best = f"  {'of best':>7}" if known else ""
    lines = [
        f"{result.agent}",
        f"{'partner':<{width}}  {'family':<{kinds}}  {'mean':<20}{best}  {'zero':>5}{games}",
    ]
    for row in rows:
        star = "*" if row.seen_in_training else ""
        share = (
            "" if row.fraction_of_best_response is None else f"{row.fraction_of_best_response:.0%}"
        )
        best = f"  {share:>7}" if known else ""
        by_game = "".join(f"  {of.mean:>6.2f}" for of in row.by_game) if length > 1 else ""
        lines.append(
            f"{row.partner.name + star:<{width}}  {row.partner.family:<{kinds}}  "
            f"{f'{row.mean:.2f}':<20}{best}  {row.zero_rate:>5.1%}{by_game}"
        )
    for title, met in (("met in training", True), ("never met", False)):
        if over := result.family_summary(met):
            lines.append(f"families {title}: mean {over[0]:.2f}, worst {over[1]:.2f}")
    if gain := result.gain():
        lines.append(f"from game 1 to game {length}: {gain:+.2f}")
    return explained("\n".join(lines))


def gauntlet_figures(result: GauntletResult) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`."""

    def figures(beside: PartnerResult) -> dict[str, Any]:
        return {
            "partner": beside.partner.name,
            "policy_hash": beside.partner.policy.identity(),
            "family": beside.partner.family,
            "met": beside.seen_in_training,
            **_interval("mean", beside.mean),
            "best_response": beside.partner.best_response,
            "of_best": beside.fraction_of_best_response,
            "zero_rate": beside.zero_rate,
            "by_game": [of.mean for of in beside.by_game],
            "by_game_ci95": [of.bounds for of in beside.by_game],
        }

    over: dict[str, Any] = {}
    for name, met in (("all", None), ("met", True), ("never_met", False)):
        if found := result.family_summary(met):
            over[name] = {"mean": found[0], "worst": found[1]}
    gain = result.gain()
    return {
        "agent": result.agent,
        "gauntlet_version": VERSION,
        "itself": figures(result.self_play),
        "partners": [figures(beside) for beside in result.partner_results],
        "families": {
            name: _interval("mean", interval) for name, interval in result.families().items()
        },
        "over_families": over,
        "of_best": result.fractions_of_best_response(),
        "zero_rate": result.zero_rate(),
        **({} if gain is None else _interval("gain", gain)),
    }


def _interval(name: str, interval: Interval) -> dict[str, Any]:
    return {name: interval.mean, f"{name}_ci95": interval.bounds}


@plain_text
def plot_gauntlet(
    results: Sequence[GauntletResult], path: Path, title: str, max_score: int
) -> None:
    """Draws every agent's mean with each family, hollow where all of its partners were met in
    training, with 95% intervals; one colour and marker an agent, families from left to right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families = list(dict.fromkeys(name for r in results for name in r.families()))
    places = np.arange(1 + len(families))
    figure = Figure(figsize=(2.2 + 1.05 * len(places), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shift = 0.7 / max(len(results), 1)
    for index, result in enumerate(results):
        color, marker = COLORS[index % len(COLORS)], MARKERS[index // len(COLORS) % len(MARKERS)]
        found = {"self-play": result.self_play.mean, **result.families()}
        strange = result.families(seen_in_training=False)
        for place, name in zip(places, ["self-play", *families], strict=True):
            if name not in found:
                continue
            mean = found[name]
            axes.errorbar(
                [place + shift * (index - (len(results) - 1) / 2)],
                [mean.mean],
                yerr=error_bars([mean.mean], [mean.bounds]),
                fmt=marker,
                color=color,
                markerfacecolor=color if name in strange or name == "self-play" else "white",
                capsize=2,
                markersize=5,
                label=in_legend(result.agent) if name == "self-play" else None,
            )
    axes.set_xticks(places, ["self-play", *families], rotation=20, ha="right")
    axes.set_ylim(0, max_score)
    axes.set_ylabel("mean score")
    axes.set_title(title, fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.6, axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
