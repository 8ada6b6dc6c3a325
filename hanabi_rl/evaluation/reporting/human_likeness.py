"""How like people agents play: as text, as figures for programs, as a picture, and in the form of
AH2AC2's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.evaluation.measure.human_likeness import COMPARED_MEASURES, DISTANCE, HumanLikeness
from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.ratio import Ratio, intervals_of
from hanabi_rl.evaluation.papers import ah2ac2
from hanabi_rl.evaluation.reporting.plots import COLORS, MARKERS, in_legend, plain_text
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {measure.name: measure.label for measure in COMPARED_MEASURES} | {
    DISTANCE: "distance of the fourteen events"
}
_GROUPS = {
    "behaviour": "What is known and told",
    "scores": "Games",
    "conventions": "By H-Group's first conventions",
    "events": "Events, shares of turns",
}
_UNITS = {measure.name: measure.unit for measure in COMPARED_MEASURES} | {
    DISTANCE: "sum of shares of turns"
}
_SHOWN_TO = 6.0  # spreads; what is farther away stands at the edge of the picture


def likeness_table(found: HumanLikeness) -> str:
    """A line a figure: the people's, their spread, and each agent's, with a star where it is
    outside."""
    width = max(10, *(len(label) + 2 for label in found.agents))
    lines = [
        f"{'':<49} {'people':>7} {'spread':>7}" + "".join(f"{a:>{width}} " for a in found.agents)
    ]

    def line(name: str, people: str, cells: list[str]) -> str:
        spread = _number(found.spread.of[name])
        row = "".join(f"{cell:>{width + 1}}" for cell in cells)
        return f"  {LABELS[name]:<47} {people:>7} {spread:>7}{row}".rstrip()

    for group, title in _GROUPS.items():
        lines.append(title)
        for name in (measure.name for measure in COMPARED_MEASURES if measure.group == group):
            cells = [_cell(found, label, name) for label in found.agents]
            lines.append(line(name, _number(_mean(found.people[name])), cells))
    cells = [
        f"{_number(found.difference(label, DISTANCE))}{_star(found, label, DISTANCE)}"
        for label in found.agents
    ]
    lines += [line(DISTANCE, "", cells), "Prediction of people's moves"]
    for title, method in (
        ("accuracy", "accuracy"),
        ("nats a decision", "cross_entropy"),
        ("nats a seat and timestep", "cross_entropy_per_timestep"),
    ):
        cells = [f"{getattr(found.predictions[a], method)().mean:.3f} " for a in found.agents]
        lines.append(_plain(title, cells, width))
    if found.with_clone:
        cells = [f"{found.with_clone[label].mean:.3f} " for label in found.agents]
        lines += ["With the clone", _plain("mean score, one agent among clones", cells, width)]
    counts = [f"{among} of {all_}" for among, all_ in map(found.count_within, found.agents)]
    lines.append(f"{'Within the spread':<65}" + "".join(f"{cell:>{width}} " for cell in counts))
    return "\n".join(line.rstrip() for line in lines)


def _plain(title: str, cells: list[str], width: int) -> str:
    """A line without people."""
    return f"  {title:<63}" + "".join(f"{cell:>{width + 1}}" for cell in cells)


def _cell(found: HumanLikeness, label: str, name: str) -> str:
    return f"{_number(_mean(found.agents[label][name]))}{_star(found, label, name)}"


def _star(found: HumanLikeness, label: str, name: str) -> str:
    return "*" if found.within(label, name) is False else " "


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _mean(ratio: Ratio) -> float | None:
    return ratio.mean if ratio.defined else None


def likeness_figures(found: HumanLikeness) -> dict[str, Any]:
    """JSON-ready: a record a figure, and the prediction and play with the clone of each agent."""
    people = _intervals(found.people)
    agents = {label: _intervals(habits) for label, habits in found.agents.items()}
    figures = [
        {"name": name, "label": label, "unit": _UNITS[name], "spread": found.spread.of[name]}
        | ({} if name == DISTANCE else {"people": people[name]})
        | {
            "agents": {
                agent: ({} if name == DISTANCE else agents[agent][name])
                | {
                    "difference": found.difference(agent, name),
                    "within": found.within(agent, name),
                }
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
            | _interval("nats_per_timestep", prediction.cross_entropy_per_timestep().interval)
            for label, prediction in found.predictions.items()
        },
        "with_clone": {
            label: _interval("mean", interval) for label, interval in found.with_clone.items()
        },
    }


def _intervals(habits: Mapping[str, Ratio]) -> dict[str, dict[str, Any]]:
    found = intervals_of([*habits.values()])
    return {
        name: {"value": None, "value_ci95": None} if one is None else _interval("value", one)
        for name, one in zip(habits, found, strict=True)
    }


def _interval(name: str, interval: Interval) -> dict[str, Any]:
    return {name: interval.mean, f"{name}_ci95": interval.bounds}


def paper_tables(found: HumanLikeness, rules: Rules, clone: str | None = None) -> str:
    """AH2AC2's Tables 2, 3 and 10 of these agents, with the paper's proxies below where it has
    them. clone: the label of the one that differences are taken to."""
    standard = rules.num_players if rules.is_standard else 0
    proxies = ah2ac2.PROXIES.get(standard, {})
    behaviour = ah2ac2.BEHAVIOUR.get(standard, {})
    width = max(map(len, ["people of the file", *found.agents])) + 2
    games = max(len(habits["score"].numerator) for habits in found.agents.values())
    lines = [f"Table 2: self-play, mean and standard error of {count(games, 'game')}"]
    for label, habits in found.agents.items():
        score = habits["score"].interval
        lines.append(f"  {label:<{width}} {score.mean:6.2f} ± {score.std_error:.2f}")
    lines += [f"  {f'{who} (paper)':<{width}} {row.selfplay:6.2f}" for who, row in proxies.items()]
    lines += ["", f"Table 3: prediction{' (difference to the clone)' if clone else ''}"]
    lines.append(f"  {'':<{width}} {'accuracy':>14} {'loss a timestep':>16}")
    for label, prediction in found.predictions.items():
        accuracy = prediction.accuracy().mean
        loss = prediction.cross_entropy_per_timestep().mean
        if clone and label != clone:
            beside = found.predictions[clone]
            change = accuracy - beside.accuracy().mean
            more = loss - beside.cross_entropy_per_timestep().mean
            lines.append(_row(label, width, accuracy, change, loss, more))
        else:
            lines.append(f"  {label:<{width}} {accuracy:6.2f}         {loss:8.2f}")
    for who, row in proxies.items():
        each = (row.accuracy, row.accuracy_difference, row.loss_per_timestep, row.loss_difference)
        lines.append(_row(f"{who} (paper)", width, *each))
    lines += ["", "Table 10: information per play, communicativeness"]
    both = {"people of the file": found.people, **found.agents}
    for who, habits in both.items():
        known, told = (_mean(habits[n]) for n in ("information_per_play", "communicativeness"))
        lines.append(f"  {who:<{width}} {_number(known):>6} {_number(told):>6}")
    for who, of in behaviour.items():
        title = f"{who} (paper)"
        lines.append(
            f"  {title:<{width}} {of.information_per_play:6.2f} {of.communicativeness:6.2f}"
        )
    return "\n".join(lines)


def _row(who: str, width: int, accuracy: float, change: float, loss: float, more: float) -> str:
    return f"  {who:<{width}} {accuracy:6.2f} ({change:+.2f}) {loss:8.2f} ({more:+.2f})"


@plain_text
def plot_likeness(found: HumanLikeness, path: Path, title: str) -> None:
    """Draws how far each agent's figures are from the people's, in spreads, and writes a PNG to
    `path`. What is more than six spreads away stands at the edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in LABELS if found.spread.of[name]]
    figure = Figure(figsize=(8.6, 0.27 * len(names) + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.axvspan(-1, 1, color="#e3e3e3", zorder=0, label="halves of the people, 95%")
    axes.axvline(0, color="#888888", linewidth=0.8, zorder=1)
    offsets = np.linspace(-0.24, 0.24, len(found.agents)) if len(found.agents) > 1 else [0.0]
    for number, (label, offset) in enumerate(zip(found.agents, offsets, strict=True)):
        _draw(axes, found, label, names, number, offset)
    axes.set_yticks(range(len(names)), [_tick(found, name) for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-_SHOWN_TO - 0.4, _SHOWN_TO + 0.4)
    axes.set_xlabel(
        "difference from the people, in their spread (at the edge: 6 and more)", fontsize=9
    )
    axes.grid(axis="y", color="#eeeeee", linewidth=0.8, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


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
        np.clip(places, -_SHOWN_TO, _SHOWN_TO),
        np.arange(len(names)) + offset,
        s=26,
        color=COLORS[number % len(COLORS)],
        marker=MARKERS[number % len(MARKERS)],
        label="{}: {} of {} within".format(in_legend(label), *found.count_within(label)),
        zorder=3,
    )


def _tick(found: HumanLikeness, name: str) -> str:
    people = "" if name == DISTANCE else _number(_mean(found.people[name])) + " "
    return f"{LABELS[name].strip()}  {people}± {found.spread.of[name]:.3f}"
