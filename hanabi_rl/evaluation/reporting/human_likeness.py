"""Human-likeness as text, JSON and a plot, and in the form of AH2AC2's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.evaluation.measure.human_likeness import COMPARED_MEASURES, DISTANCE, HumanLikeness
from hanabi_rl.evaluation.measure.intervals import interval_dict
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of
from hanabi_rl.evaluation.papers import ah2ac2
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Column, Part, format_value, table, text_rows
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {measure.name: measure.label for measure in COMPARED_MEASURES} | {
    DISTANCE: "distance of the fourteen events"
}
_GROUPS = {
    "behaviour": "Information",
    "scores": "Games",
    "conventions": "By H-Group's first conventions",
    "events": "Events (fraction of turns)",
}
_UNITS = {measure.name: measure.unit for measure in COMPARED_MEASURES} | {
    DISTANCE: "sum of fractions of turns"
}
_PREDICTIONS = {
    "accuracy": "accuracy",
    "accuracy, top 10% of legal moves": "top_10_accuracy",
    "accuracy, top 20% of legal moves": "top_20_accuracy",
    "nats per decision": "cross_entropy",
    "nats per timestep": "cross_entropy_per_timestep",
}
_MAX_SPREADS = 6.0  # limit of the x axis; larger differences are drawn at the edge


def likeness_parts(found: HumanLikeness) -> list[Part]:
    """One row per measure: value and variation of humans, and the value of each agent.

    A star marks values outside human variation.
    """

    def row(name: str, people: float | None, values: Iterable[float | None]) -> list[Any]:
        stars = ("*" if found.within(label, name) is False else " " for label in found.agents)
        cells = (format_value(x, ".3f") + star for x, star in zip(values, stars, strict=True))
        people_cell = "" if name == DISTANCE else format_value(people, ".3f")
        return [f"  {LABELS[name]}", people_cell, found.spread.of[name], *cells]

    def plain(title: str, values: Iterable[str]) -> list[Any]:
        return [title, "", "", *(f"{value} " if value else "" for value in values)]

    empty = [""] * len(found.agents)
    rows = []
    for group, title in _GROUPS.items():
        rows.append(plain(title, empty))
        for name in (measure.name for measure in COMPARED_MEASURES if measure.group == group):
            values = (_mean(found.agents[label][name]) for label in found.agents)
            rows.append(row(name, _mean(found.people[name]), values))
    rows.append(row(DISTANCE, None, (found.difference(label, DISTANCE) for label in found.agents)))
    rows.append(plain("Prediction of human moves", empty))
    for title, method in _PREDICTIONS.items():
        means = (getattr(found.predictions[label], method)().mean for label in found.agents)
        rows.append(plain(f"  {title}", (f"{mean:.3f}" for mean in means)))
    if found.with_clone:
        rows.append(plain("With the clone", empty))
        scores = (f"{found.with_clone[label].mean:.3f}" for label in found.agents)
        rows.append(plain("  mean score, one agent with clones", scores))
    counts = ("{} of {}".format(*found.count_within(label)) for label in found.agents)
    rows.append(plain("Within human variation", counts))
    columns = (
        Column("", 0),
        Column("humans", 1),
        Column("variation", 2, ".3f"),
        *(Column(f"{label} ", place) for place, label in enumerate(found.agents, start=3)),
    )
    return [table(rows, columns)]


def _mean(ratio: Ratio) -> float | None:
    return ratio.mean if ratio.defined else None


def likeness_dict(found: HumanLikeness) -> dict[str, Any]:
    """JSON-ready: one record per measure; prediction and games with the clone per agent."""
    people = _intervals(found.people)
    agents = {label: _intervals(habits) for label, habits in found.agents.items()}
    figures = [
        {"name": name, "label": label, "unit": _UNITS[name], "spread": found.spread.of[name]}
        | ({} if name == DISTANCE else {"people": people[name]})
        | {
            "agents": {
                agent: ({} if name == DISTANCE else agents[agent][name])
                | {"difference": found.difference(agent, name), "within": found.within(agent, name)}
                for agent in found.agents
            }
        }
        for name, label in LABELS.items()
    ]
    return {
        "decks": found.spread.decks,
        "figures": figures,
        "within": {label: list(found.count_within(label)) for label in found.agents},
        "predictions": {
            label: prediction.as_dict()
            | interval_dict(
                "cross_entropy_per_timestep", prediction.cross_entropy_per_timestep().interval
            )
            for label, prediction in found.predictions.items()
        },
        "with_clone": {
            label: interval_dict("mean", interval) for label, interval in found.with_clone.items()
        },
    }


def _intervals(habits: Mapping[str, Ratio]) -> dict[str, dict[str, Any]]:
    found = intervals_of([*habits.values()])
    return {n: interval_dict("value", one) for n, one in zip(habits, found, strict=True)}


def paper_parts(found: HumanLikeness, rules: Rules, clone: str | None = None) -> list[Part]:
    """AH2AC2's Tables 2, 3 and 10 of the agents and of the paper's proxies for the same game.

    clone: label of the agent to which differences refer.
    """
    players = rules.num_players if rules.is_standard else 0
    proxies = {f"{name} (paper)": row for name, row in ah2ac2.PROXIES.get(players, {}).items()}
    games = max(len(habits["score"].numerator) for habits in found.agents.values())
    scores = [["", "mean", "", "gain" if clone else "", "zero", "perfect"]]
    agents = found.agents
    for label, habits in agents.items():
        score = habits["score"].interval
        gain = score.mean - agents[clone]["score"].mean if clone and label != clone else None
        rates = (habits[name].mean for name in ("zero_rate", "perfect_rate"))
        scores.append(_score_row(label, f"{score.mean:.2f}", score.std_error, gain, *rates))
    for name, row in proxies.items():
        gain = row.gain if clone else None
        scores.append(_score_row(name, f"{row.selfplay:.2f}", None, gain, *row.rates))
        scores.append(_score_row(f"clone of {name}", "", None, None, *row.clone_rates))
    predictions = [["", "accuracy", "", "top 10%", "top 20%", "nats per timestep", ""]]
    means = {
        label: (of.accuracy().mean, of.cross_entropy_per_timestep().mean)
        for label, of in found.predictions.items()
    }
    for label, (accuracy, loss) in means.items():
        of, change, more = found.predictions[label], None, None
        if clone and label != clone:
            change, more = accuracy - means[clone][0], loss - means[clone][1]
        tops = of.top_10_accuracy().mean, of.top_20_accuracy().mean
        predictions.append(_prediction_row(label, accuracy, change, loss, more, tops))
    for name, row in proxies.items():
        tops = row.top_10_accuracy, row.top_20_accuracy
        predictions.append(_prediction_row(name, *row.prediction, tops))
    keys = "information_per_play", "communicativeness"
    behaviour = [["", "per play", "per turn"]]
    for name, habits in {"humans in the file": found.people, **found.agents}.items():
        behaviour.append([f"  {name}", *(format_value(_mean(habits[k]), ".3f") for k in keys)])
    for name, published in ah2ac2.BEHAVIOUR.get(players, {}).items():
        behaviour.append([f"  {name} (paper)", *(f"{value:.2f}" for value in published)])
    return [
        f"\nTable 2: self-play, mean and standard error of {count(games, 'game')}",
        text_rows(scores, left=False),
        f"\nTable 3: prediction{' (difference to the clone)' if clone else ''}",
        text_rows(predictions, left=False),
        "\nTable 10: information per play, communicativeness",
        text_rows(behaviour, left=False),
    ]


def _score_row(
    name: str, mean: str, error: float | None, gain: float | None, zero: float, perfect: float
) -> list[str]:
    cells = ("" if error is None else f"± {error:.2f}", format_value(gain, "+.2f", missing=""))
    return [f"  {name}", mean, *cells, f"{zero:.2%}", f"{perfect:.2%}"]


def _prediction_row(
    name: str,
    accuracy: float,
    change: float | None,
    loss: float,
    more: float | None,
    tops: Iterable[float],
) -> list[str]:
    differences = ["" if value is None else f"({value:+.2f})" for value in (change, more)]
    right = [f"{top:.2f}" for top in tops]
    return [f"  {name}", f"{accuracy:.2f}", differences[0], *right, f"{loss:.2f}", differences[1]]


def plot_likeness(found: HumanLikeness, path: Path, title: str) -> None:
    """Draw the difference of each agent from humans, in units of human variation.

    Differences above six units are drawn at the edge.
    """
    names = [name for name in LABELS if found.spread.of[name]]
    with plots.saved_figure(path, (8.6, 0.27 * len(names) + 1.6), dpi=130) as figure:
        axes = figure.add_subplot()
        axes.axvspan(-1, 1, color="#e3e3e3", zorder=0, label="human variation, 95%")
        axes.axvline(0, color="#888888", linewidth=0.8, zorder=1)
        offsets = np.linspace(-0.24, 0.24, len(found.agents)) if len(found.agents) > 1 else [0.0]
        for number, (label, offset) in enumerate(zip(found.agents, offsets, strict=True)):
            _draw(axes, found, label, names, number, offset)
        axes.set_yticks(range(len(names)), [_tick(found, name) for name in names], fontsize=8)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(-_MAX_SPREADS - 0.4, _MAX_SPREADS + 0.4)
        axes.set_xlabel(
            "difference from humans, in units of human variation (edge: 6 or more)", fontsize=9
        )
        axes.grid(axis="y", color="#eeeeee", linewidth=0.8, zorder=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
        figure.suptitle(title, fontsize=10)


def _draw(
    axes: Axes, found: HumanLikeness, label: str, names: list[str], number: int, offset: float
) -> None:
    differences = [found.difference(label, name) for name in names]
    spreads = [found.spread.of[name] or np.nan for name in names]
    places = [
        np.nan if apart is None else apart / spread
        for apart, spread in zip(differences, spreads, strict=True)
    ]
    axes.scatter(
        np.clip(places, -_MAX_SPREADS, _MAX_SPREADS),
        np.arange(len(names)) + offset,
        s=26,
        color=plots.COLORS[number % len(plots.COLORS)],
        marker=plots.MARKERS[number % len(plots.MARKERS)],
        label="{}: {} of {} within".format(plots.in_legend(label), *found.count_within(label)),
        zorder=3,
    )


def _tick(found: HumanLikeness, name: str) -> str:
    people = "" if name == DISTANCE else format_value(_mean(found.people[name]), ".3f") + " "
    return f"{LABELS[name].strip()}  {people}± {found.spread.of[name]:.3f}"
