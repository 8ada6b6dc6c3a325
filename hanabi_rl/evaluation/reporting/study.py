"""Report of a study as text, JSON and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from hanabi_rl.evaluation.measure.intervals import Interval, interval_dict
from hanabi_rl.evaluation.measure.study import MIN_GROUPS, AgentFigures, Figure
from hanabi_rl.evaluation.measure.study_games import OF_AGENT, OF_TEAM, PlayFigures
from hanabi_rl.evaluation.measure.study_statistics import Curves, TestResult
from hanabi_rl.evaluation.measure.study_summary import StudyReport
from hanabi_rl.evaluation.overcooked.study import OF_KITCHEN
from hanabi_rl.evaluation.reporting import plots
from hanabi_rl.evaluation.reporting.tables import Column, Part, table, text_rows
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT_VERSION = 1
_LINES = (  # figure, label, format
    ("score", "points per game", ".2f"),
    ("zero_rate", "zero rate", ".0%"),
    ("rating", "rating (1-7)", ".2f"),
    ("place", "rank", ".2f"),
    ("first_share", "ranked first", ".0%"),
    ("questioned", "moves marked", ".1%"),
)


def report_parts(report: StudyReport, played: Sequence[PlayFigures] = ()) -> list[Part]:
    """All tables and notes."""
    parts: list[Part] = [
        _agents_table(report.agents),
        "",
        _comparisons_table(report.comparisons),
        "",
    ]
    parts += _curve_parts(report.curves)
    if report.across:
        rows = [["over agents, Spearman's rho", "agents", "rho", "p", "corrected", ""]]
        rows += [
            [" and ".join(each.about), *_cells(each, "+.2f", "agents")] for each in report.across
        ]
        parts += ["", text_rows(rows)]
    if played:
        parts += _played_parts(played)
    tests = sum(finding.p is not None for finding in report.findings)
    notes = f"95% intervals over people. In brackets: fewer than {MIN_GROUPS} people, no interval."
    if all(of.score.interval is not None for of in report.agents):
        notes = "95% intervals over people."
    if any(of.groups < of.people for of in report.agents):
        notes += " People linked by games together count as one group."
    notes += f" Corrected: p by Holm's method over the {count(tests, 'test')} of this report."
    return [*parts, "", f"{notes} Significant: corrected p below 0.05."]


def _agents_table(agents: Sequence[AgentFigures]) -> Table:
    """One row per result, one column per agent."""
    rows = [["", *(of.agent for of in agents)]]
    rows.append(["people", *(people_text(of.people, of.groups) for of in agents)])
    rows += [[name, *(f"{getattr(of, name)}" for of in agents)] for name in ("games", "left")]
    rows += [
        [head, *(_figure(getattr(of, name), spec) for of in agents)] for name, head, spec in _LINES
    ]
    return text_rows(rows)


def _figure(figure: Figure, spec: str) -> str:
    if figure.interval is not None:
        return format(figure.interval, spec)
    return "-" if figure.mean is None else f"{figure.mean:{spec}} {_too_few(figure)}"


def _too_few(figure: Figure) -> str:
    """Number of people, too few for an interval: `(5 people)`, `(11 people in 5 groups)`."""
    groups = "" if figure.groups == figure.people else f" in {count(figure.groups, 'group')}"
    return f"({count(figure.people, 'person', 'people')}{groups})"


def people_text(people: int, groups: int) -> str:
    """Number of people, and of groups if people played together."""
    return str(people) if groups == people else f"{people} in {groups} groups"


def _comparisons_table(findings: Sequence[TestResult]) -> Table:
    rows = [["within people", "people", "difference", "p", "corrected", ""]]
    for each in findings:
        first, second = each.about
        name = f"{each.kind}: {first} - {second}"
        spec = "+.2f"
        if each.kind == "preference":
            name, spec = f"{first} before {second}", ".0%"
        elif each.kind == "rather":
            name = f"direct preference: {first} - {second}"
        rows.append([name, *_cells(each, spec, "people")])
    return text_rows(rows)


def _cells(finding: TestResult, spec: str, unit: str) -> list[str]:
    """Number, estimate, p, corrected p and verdict."""
    estimate, count = finding.estimate, people_text(finding.n, finding.groups)
    shown = "" if estimate is None else _interval(estimate, spec)
    if finding.groups < finding.min_groups:
        unit = unit if finding.groups == finding.n else "groups"
        return [count, shown, "", "", f"too few {unit}: at least {finding.min_groups}"]
    if finding.p is None or finding.p_adjusted is None:
        return [count, shown, "", "", "no variation: no test"]
    verdict = "significant" if finding.significant else "not significant"
    return [count, shown, _p(finding.p), _p(finding.p_adjusted), verdict]


def _interval(interval: Interval, spec: str) -> str:
    if interval.low != interval.low:  # no interval of this estimate
        return format(interval.mean, spec)
    return format(interval, spec)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _curve_parts(curves: Curves | None) -> list[Part]:
    if curves is None:
        return ["Rating on points: missing, or without variation."]
    rows = [["rating on points", "people", "coefficient", "p", "corrected", ""]]
    rows.append(["line: rating per point", *_cells(curves.line, "+.3f", "people")])
    rows.append(["parabola: a of a x^2 + b x + c", *_cells(curves.parabola, "+.4f", "people")])
    pairs = f"{count(len(curves.scores), 'pair')} of a person and an agent"
    if curves.line.p is not None:
        pairs += f"; Pearson's r {curves.r:.2f}"
    return [text_rows(rows), pairs, _vertex_line(curves)]


def _vertex_line(curves: Curves) -> str:
    low, high = curves.scores.min(), curves.scores.max()
    if curves.parabola.p is None:
        return "Too few data to test for a downturn at high scores."
    if not curves.parabola.significant or curves.vertex is None or curves.abc is None:
        return "The parabola does not differ significantly from a line."
    top = "top" if curves.abc[0] < 0 else "bottom"
    where = {True: "inside", None: "possibly outside", False: "outside"}[curves.inside]
    return (
        f"The parabola's {top} is at {curves.vertex:.1f} points, {where} the range of scores "
        f"({low:.1f} to {high:.1f})" + ("." if curves.inside else ", where it may be monotonic.")
    )


def _played_parts(played: Sequence[PlayFigures]) -> list[Part]:
    """One row per measure and one column per agent; then the marked moves."""
    parts: list[Part] = []

    def cell(of: PlayFigures, name: str) -> str:
        return _figure(of.measures[name], ".3f") + "*" * (name in of.small)

    for title, measures in (
        ("agent's moves", OF_AGENT),
        ("team: interdependence", OF_TEAM),
        ("kitchen", OF_KITCHEN),
    ):
        if measures[0].name in played[0].measures:
            rows = [[title, *(of.agent for of in played)]]
            rows += [[each.label, *(cell(of, each.name) for of in played)] for each in measures]
            parts += ["", text_rows(rows)]
    if any(of.small for of in played):
        parts.append("*: small sample, bias larger than the interval (docs/metrics.md).")
    if any(of.marked.get(kind) for of in played for kind in ("plays", "discards", "hints")):
        parts += ["", table(played, _MARKED)]
    return parts


_MARKED = (
    Column("marked as questionable", lambda of: of.agent),
    *(
        Column(head, lambda of, name=name: of.marked[name], "d", left=True)
        for head, name in (
            ("plays", "plays"),
            ("known unplayable", "unplayable_plays"),
            ("discards", "discards"),
            ("known playable", "playable_discards"),
            ("hints", "hints"),
        )
    ),
)


def report_dict(report: StudyReport, played: Sequence[PlayFigures] = ()) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`, missing for too few people. `groups`: number of
    people, with those linked by games together counted once."""
    by_agent = {of.agent: of for of in played}
    return {
        "format_version": FORMAT_VERSION,
        "min_groups": MIN_GROUPS,
        "agents": [_agent_figures(of, by_agent.get(of.agent)) for of in report.agents],
        "comparisons": [_finding_figures(each) for each in report.comparisons],
        "rating_on_score": _curve_figures(report.curves),
        "across_agents": [_finding_figures(each) for each in report.across],
    }


def _agent_figures(of: AgentFigures, played: PlayFigures | None) -> dict[str, Any]:
    names = "agent", "people", "groups", "games", "left"
    found: dict[str, Any] = {name: getattr(of, name) for name in names}
    for name, _, _ in _LINES:
        found |= _figure_fields(name, getattr(of, name))
    if played is not None:
        fields = [_figure_fields(name, figure) for name, figure in played.measures.items()]
        found["measures"] = {name: value for each in fields for name, value in each.items()}
        found |= {"small_sample": list(played.small), "marked": dict(played.marked)}
    return found


def _figure_fields(name: str, figure: Figure) -> dict[str, Any]:
    sizes = {f"{name}_people": figure.people, f"{name}_groups": figure.groups}
    return interval_dict(name, figure.interval) | {name: figure.mean} | sizes


def _finding_figures(finding: TestResult) -> dict[str, Any]:
    sizes = {name: getattr(finding, name) for name in ("n", "groups", "min_groups")}
    return {
        "kind": finding.kind,
        "about": list(finding.about),
        **sizes,
        **interval_dict("estimate", finding.estimate),
        "p": finding.p,
        "p_corrected": finding.p_adjusted,
        "significant": finding.significant,
    }


def _curve_figures(curves: Curves | None) -> dict[str, Any] | None:
    if curves is None:
        return None
    vertex = curves.vertex if curves.parabola.significant else None
    return {
        "points": len(curves.scores),
        "pearson_r": curves.r,
        "line": _finding_figures(curves.line) | {"intercept": curves.intercept},
        "parabola": _finding_figures(curves.parabola) | {"abc": curves.abc},
        **interval_dict("vertex", vertex),
        "vertex_inside": curves.inside if vertex is not None else None,
    }


def plot_report(report: StudyReport, path: Path, title: str, max_score: float) -> None:
    """Draw points and ratings by agent with 95% intervals, and ratings against points.

    The third panel has a point per person and agent, the line and, if significant, the parabola.
    """
    height = max(3.2, 1.6 + 0.45 * len(report.agents))
    with plots.saved_figure(path, (11.5, height)) as figure:
        scores, ratings, curves = figure.subplots(1, 3, width_ratios=[1, 1, 1.3])
        _draw_agents(scores, report, "score", "points per game")
        scores.margins(x=0.15)
        low, high = scores.get_xlim()
        scores.set_xlim(max(low, -0.02 * max_score), min(high, 1.02 * max_score))
        _draw_agents(ratings, report, "rating", "rating (1-7)")
        ratings.set_xlim(0.9, 7.1)
        ratings.set_yticklabels([])
        _draw_curves(curves, report.curves)
        figure.suptitle(title, fontsize=11)


def _draw_agents(axes: Axes, report: StudyReport, name: str, label: str) -> None:
    """Means with intervals; hollow points without one."""
    for row, of in enumerate(report.agents):
        figure = getattr(of, name)
        if figure.mean is None:
            continue
        color = plots.COLORS[row % len(plots.COLORS)]
        if figure.interval is None:
            axes.plot(figure.mean, row, "o", color=color, markerfacecolor="white")
            note: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
            axes.annotate(_too_few(figure)[1:-1], (figure.mean, row), (0, 8), **note)
            continue
        bounds = figure.interval.bounds
        plots.draw_intervals(axes, [row], [figure.mean], [bounds], horizontal=True, color=color)
    axes.set_yticks(range(len(report.agents)), [of.agent for of in report.agents])
    axes.set_ylim(len(report.agents) - 0.5, -0.5)
    axes.set_xlabel(f"{label}, 95% interval")
    plots.plain_axes(axes, "x")


def _draw_curves(axes: Axes, curves: Curves | None) -> None:
    axes.set_xlabel("points per game of a person with an agent")
    axes.set_ylabel("rating")
    axes.set_ylim(0.8, 7.2)
    axes.spines[["top", "right"]].set_visible(False)
    if curves is None:
        return
    axes.plot(curves.scores, curves.ratings, "o", color="#555555", alpha=0.35, markersize=4)
    x = np.linspace(curves.scores.min(), curves.scores.max(), 100)
    if curves.line.p is not None:
        style = "-" if curves.line.significant else ":"
        verdict = "significant" if curves.line.significant else "not significant"
        y = curves.intercept + curves.slope * x
        axes.plot(x, y, style, color=plots.COLORS[0], label=f"line: {verdict}")
    if curves.parabola.significant and curves.abc is not None:
        axes.plot(
            x, np.polyval(curves.abc, x), "--", color=plots.COLORS[1], label="parabola: significant"
        )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="upper left")
