"""Gauntlet results as text, JSON and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.gauntlet import (
    VERSION,
    GauntletPartner,
    GauntletResult,
    PartnerResult,
)
from hanabi_rl.evaluation.measure.intervals import interval_dict, score_bounds
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Column, Part, table


def gauntlet_parts(results: Sequence[GauntletResult]) -> list[Part]:
    """One row per agent: self-play, mean per family, mean and worst of families, gain in a series.

    A star marks a family with all partners seen in training.
    """
    families = list(dict.fromkeys(name for r in results for name in r.families()))

    def family(result: GauntletResult, name: str) -> str | None:
        if (mean := result.families().get(name)) is None:
            return None
        return f"{mean.mean:.2f}" + ("" if name in result.families(seen_in_training=False) else "*")

    def summary(result: GauntletResult, place: int) -> float | None:
        found = result.family_summary()
        return found[place] if found else None

    def gain(result: GauntletResult) -> float | None:
        return None if (found := result.gain()) is None else found.mean

    columns = (
        Column("agent", lambda result: result.agent),
        Column("self-play", lambda result: result.self_play.mean.mean, ".2f"),
        *(Column(name, lambda r, name=name: family(r, name), missing="-") for name in families),
        Column("mean", lambda result: summary(result, 0), ".2f", missing="-"),
        Column("worst", lambda result: summary(result, 1), ".2f", missing="-"),
        Column("of best", lambda r: r.fraction_of_best_response(), ".0%", **_OPTIONAL),
        Column("zero", lambda result: result.zero_rate(), ".1%"),
        Column("gain", gain, "+.2f", missing="-"),
    )
    parts: list[Part] = [table(results, columns), ""]
    parts.append("Mean and worst are over families. *: all partners were seen in training.")
    if any(result.fraction_of_best_response() is not None for result in results):
        parts.append("of best: mean over families / mean of the best responses.")
    return parts


_OPTIONAL: dict[str, Any] = {"missing": "-", "optional": True}


def partner_columns(partners: Sequence[GauntletPartner], length: int) -> list[Column]:
    """Columns of a `PartnerResult`: mean score, zero rate and mean score of each of `length` games
    of the series. Each is as wide as its longest text, so that rows can be printed one by one."""
    names, families = zip(*((one.name, one.family) for one in partners), strict=True)
    rules, of_best = partners[0].policy.rules, any(one.best_response for one in partners)
    _, max_score = score_bounds(rules.max_score)
    score = len(f"{min(max_score, 999):.2f}")  # width of a mean
    columns = [
        Column(
            "partner",
            lambda row: row.partner.name + "*" * row.seen_in_training,
            width=1 + max(map(len, names)),
        ),
        Column("family", lambda row: row.partner.family, left=True, width=max(map(len, families))),
        Column("mean", lambda row: row.mean.mean, ".2f", width=score),
        Column("95% interval", lambda row: row.mean.bounds, ".2f", left=True, width=2 * score + 4),
    ]
    if of_best:
        columns.append(
            Column("of best", lambda row: row.fraction_of_best_response, ".0%", missing="-")
        )
    columns.append(Column("zero", lambda row: row.zero_rate, ".1%", width=6))
    for seat in range(0 if rules.seats_alike else rules.num_players):
        columns.append(Column(f"seat {seat}", lambda row, seat=seat: row.by_seat[seat].mean, ".2f"))
    for game in range(length if length > 1 else 0):
        columns.append(
            Column(f"game {game + 1}", lambda row, game=game: row.by_game[game].mean, ".2f")
        )
    return columns


def partner_parts(result: GauntletResult) -> list[Part]:
    """One row per partner (`partner_columns`), then `summary_parts`."""
    rows = [result.self_play, *result.partner_results]
    columns = partner_columns([row.partner for row in rows], rows[0].scores.shape[2])
    return ["", result.agent, table(rows, columns), *summary_parts(result)]


def summary_parts(result: GauntletResult) -> list[Part]:
    """Mean and worst over families, gain in a series, and notes on intervals."""
    series, length = result.self_play.scores.shape[1:]
    parts: list[Part] = []
    for title, seen in (("seen in training", True), ("unseen", False)):
        mean, worst = result.mean_over_families(seen), result.worst_family(seen)
        if mean and worst:
            parts.append(f"families {title}: mean {mean}, worst {worst[1]} ({worst[0]})")
    if gain := result.gain():
        parts.append(f"from game 1 to game {length} of a series with one partner: {gain:+.2f}")
    parts.append("Self-play is in no mean over families.")
    if series == 1:
        unit = f"series of {length} games" if length > 1 else "game"
        parts.append(f"1 {unit} per partner and seat: intervals need 2, --games {2 * length}.")
    return parts


def gauntlet_dict(result: GauntletResult) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`."""

    def figures(row: PartnerResult) -> dict[str, Any]:
        seats: dict[str, Any] = {}
        if (found := row.by_seat) is not None:
            seats["by_seat"] = [of.mean for of in found]
            seats["by_seat_ci95"] = [of.bounds for of in found]
        return seats | {
            "partner": row.partner.name,
            "policy_hash": row.partner.policy.identity(),
            "family": row.partner.family,
            "seen_in_training": row.seen_in_training,
            **interval_dict("mean", row.mean),
            "best_response": row.partner.best_response,
            "fraction_of_best_response": row.fraction_of_best_response,
            "zero_rate": row.zero_rate,
            "by_game": [of.mean for of in row.by_game],
            "by_game_ci95": [of.bounds for of in row.by_game],
        }

    summary: dict[str, Any] = {}
    for name, seen in (("all", None), ("seen_in_training", True), ("unseen", False)):
        mean, worst = result.mean_over_families(seen), result.worst_family(seen)
        if mean and worst:
            summary[name] = interval_dict("mean", mean) | interval_dict("worst", worst[1])
            summary[name] |= {"worst_family": worst[0]}
    gain = result.gain()
    return {
        "agent": result.agent,
        "gauntlet_version": VERSION,
        "self_play": figures(result.self_play),
        "partners": [figures(row) for row in result.partner_results],
        "families": {name: interval_dict("mean", of) for name, of in result.families().items()},
        "family_summary": summary,
        "fraction_of_best_response": result.fractions_of_best_response(),
        "zero_rate": result.zero_rate(),
        **({} if gain is None else interval_dict("gain", gain)),
    }


def plot_gauntlet(
    results: Sequence[GauntletResult], path: Path, title: str, max_score: float
) -> None:
    """Draw the mean of every agent with each family, with 95% intervals.

    Markers are hollow if all partners of the family were seen in training.
    """
    families = list(dict.fromkeys(name for r in results for name in r.families()))
    places = np.arange(1 + len(families))
    with plots.saved_figure(path, (2.2 + 1.05 * len(places), 4.2), dpi=130) as figure:
        axes = figure.add_subplot()
        shift = 0.7 / max(len(results), 1)
        for index, result in enumerate(results):
            color = plots.COLORS[index % len(plots.COLORS)]
            marker = plots.MARKERS[index // len(plots.COLORS) % len(plots.MARKERS)]
            found = {"self-play": result.self_play.mean, **result.families()}
            unseen = result.families(seen_in_training=False)
            for place, name in zip(places, ["self-play", *families], strict=True):
                if name not in found:
                    continue
                mean = found[name]
                plots.draw_intervals(
                    axes, [place + shift * (index - (len(results) - 1) / 2)],
                    [mean.mean], [mean.bounds], fmt=marker, color=color, capsize=2, markersize=5,
                    markerfacecolor=color if name in unseen or name == "self-play" else "white",
                    label=plots.in_legend(result.agent) if name == "self-play" else None,
                )  # fmt: skip
        axes.set_xticks(places, ["self-play", *families], rotation=20, ha="right")
        plots.begin_at_data(axes, *axes.dataLim.intervaly)
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.02 * max_score))
        axes.set_ylabel("mean score")
        axes.set_title(title, fontsize=10)
        plots.plain_axes(axes, "y")
        plots.legend_right(axes)
