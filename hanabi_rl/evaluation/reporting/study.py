"""What a study says, as text and as figures for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.study import MIN_GROUPS, AgentFigures, Figure
from hanabi_rl.evaluation.measure.study_games import OF_AGENT, OF_TEAM, PlayFigures
from hanabi_rl.evaluation.measure.study_statistics import Curves, TestResult
from hanabi_rl.evaluation.measure.study_summary import StudyReport
from hanabi_rl.storage.words import count

FORMAT_VERSION = 1
_LINES = (  # the figure, its head, how it is written
    ("score", "points a game", ".2f"),
    ("zero_rate", "games of 0", ".0%"),
    ("rating", "rating, 1 to 7", ".2f"),
    ("place", "place", ".2f"),
    ("first_share", "put first", ".0%"),
    ("questioned", "moves marked", ".1%"),
)


def report_text(report: StudyReport, played: Sequence[PlayFigures] = ()) -> str:
    """Every table that there is."""
    parts = [_agents_table(report.agents), _findings_table(report.comparisons)]
    parts.append(_curves_text(report.curves))
    if report.across:
        parts.append(_across_table(report.across))
    if played:
        parts += [_played_table(played), *_marked_lines(played)]
    tests = sum(finding.p is not None for finding in report.findings)
    words = ["Intervals are 95% and over people, each with all of their games."]
    if any(of.groups < of.people for of in report.agents):
        words.append("People who played together, directly or through others, are one unit.")
    words.append(
        f"Corrected: p by Holm's method over all {count(tests, 'test')} of this report; found is "
        "what is "
        "below 0.05 then."
    )
    parts.append(" ".join(words))
    return "\n\n".join(parts)


def _agents_table(agents: Sequence[AgentFigures]) -> str:
    """A line a figure, a column an agent."""
    rows = [["", *(of.agent for of in agents)]]
    rows.append(["people", *(people_text(of.people, of.groups) for of in agents)])
    rows += [[name, *(f"{getattr(of, name)}" for of in agents)] for name in ("games", "left")]
    rows += [
        [head, *(_figure(getattr(of, name), spec) for of in agents)] for name, head, spec in _LINES
    ]
    return "\n".join(_aligned(rows))


def _figure(figure: Figure, spec: str) -> str:
    if figure.interval is not None:
        return format(figure.interval, spec)
    return too_few(figure) if figure.people else "-"


def too_few(figure: Figure) -> str:
    """Why there is no figure."""
    return f"too few people: {people_text(figure.people, figure.groups)}"


def people_text(people: int, groups: int) -> str:
    """How many, and where some played together what they count as."""
    return str(people) if groups == people else f"{people} in {groups} groups"


def _findings_table(findings: Sequence[TestResult]) -> str:
    """Agents compared within people."""
    rows = [["within people", "people", "difference", "p", "corrected", ""]]
    for each in findings:
        first, second = each.about
        name = f"{each.kind}: {first} - {second}"
        spec = "+.2f"
        if each.kind == "preference":
            name, spec = f"{first} before {second}", ".0%"
        elif each.kind == "rather":
            name = f"compared directly: {first} - {second}"
        rows.append([name, *_cells(each, spec, "people")])
    return "\n".join(_aligned(rows))


def _cells(finding: TestResult, spec: str, unit: str) -> list[str]:
    """How many, the estimate, p, corrected p and the verdict."""
    estimate, count = finding.estimate, people_text(finding.n, finding.groups)
    if finding.groups < finding.min_groups:
        unit = unit if finding.groups == finding.n else "groups"
        return [count, "", "", "", f"not enough {unit} to say: {finding.min_groups} are"]
    if finding.p is None or estimate is None or finding.p_adjusted is None:
        return [count, "", "", "", "nothing varies: no test"]
    said = "found" if finding.significant else "not found"
    return [
        count,
        _interval(estimate, spec),
        _p(finding.p),
        _p(finding.p_adjusted),
        said,
    ]


def _interval(interval: Interval, spec: str) -> str:
    if interval.low != interval.low:  # no interval of this estimate
        return format(interval.mean, spec)
    return format(interval, spec)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _curves_text(curves: Curves | None) -> str:
    if curves is None:
        return "Rating on points: nobody gave both, or nothing varies."
    rows = [["rating on points", "people", "coefficient", "p", "corrected", ""]]
    rows.append(["line: rating a point", *_cells(curves.line, "+.3f", "people")])
    rows.append(["parabola: a of a x^2 + b x + c", *_cells(curves.parabola, "+.4f", "people")])
    lines = [*_aligned(rows), f"{count(len(curves.scores), 'pair')} of a person and an agent"]
    if curves.line.p is not None:
        lines[-1] += f"; Pearson's r {curves.r:.2f}"
    return "\n".join([*lines, _vertex_line(curves)])


def _vertex_line(curves: Curves) -> str:
    low, high = curves.scores.min(), curves.scores.max()
    if curves.parabola.p is None:
        return "Whether ratings turn back where scores are high cannot be said."
    if not curves.parabola.significant or curves.vertex is None or curves.abc is None:
        return "No bend is found: these people do not tell a parabola from a line."
    top = "top" if curves.abc[0] < 0 else "bottom"
    where = {True: "inside", None: "perhaps not inside", False: "outside"}[curves.inside]
    return (
        f"The parabola's {top} is at {curves.vertex:.1f} points, {where} the scores seen "
        f"({low:.1f} to {high:.1f})"
        + ("." if curves.inside else ": within them it may go one way only.")
    )


def _across_table(findings: Sequence[TestResult]) -> str:
    rows = [["over agents, Spearman's rho", "agents", "rho", "p", "corrected", ""]]
    for each in findings:
        rows.append([" and ".join(each.about), *_cells(each, "+.2f", "agents")])
    return "\n".join(_aligned(rows))


def _played_table(played: Sequence[PlayFigures]) -> str:
    """A line a measure, a column an agent."""
    lines = []
    for title, measures in (
        ("the agent's moves", OF_AGENT),
        ("the team: interdependence", OF_TEAM),
    ):
        rows = [[title, *(of.agent for of in played)]]
        for measure in measures:
            cells = [
                _figure(of.measures[measure.name], ".3f") + "*" * (measure.name in of.small)
                for of in played
            ]
            rows.append([measure.label, *cells])
        lines.append("\n".join(_aligned(rows)))
    if any(of.small for of in played):
        lines.append("* of too few moves: biased, which no interval shows (docs/metrics.md).")
    return "\n\n".join(lines)


def _marked_lines(played: Sequence[PlayFigures]) -> list[str]:
    rows = [
        [
            "marked as questionable",
            "plays",
            "of no fit known",
            "discards",
            "of a fit known",
            "hints",
        ]
    ]
    for of in played:
        names = ("plays", "unplayable_plays", "discards", "playable_discards", "hints")
        rows.append([of.agent, *(str(of.marked[name]) for name in names)])
    marks = sum(of.marked["plays"] + of.marked["discards"] + of.marked["hints"] for of in played)
    return ["\n".join(_aligned(rows))] if marks else []


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def report_figures(report: StudyReport, played: Sequence[PlayFigures] = ()) -> dict[str, Any]:
    """JSON-ready; every `*_ci95` is `[low, high]`, None where there are too few people.
    `groups`: of people, those who played together being one."""
    by_agent = {of.agent: of for of in played}
    return {
        "format_version": FORMAT_VERSION,
        "enough_people": MIN_GROUPS,
        "agents": [_agent_figures(of, by_agent.get(of.agent)) for of in report.agents],
        "comparisons": [_finding_figures(each) for each in report.comparisons],
        "rating_on_score": _curve_figures(report.curves),
        "across_agents": [_finding_figures(each) for each in report.across],
    }


def _agent_figures(of: AgentFigures, played: PlayFigures | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "agent": of.agent,
        "people": of.people,
        "groups": of.groups,
        "games": of.games,
        "left": of.left,
    }
    for name, _, _ in _LINES:
        found |= _figure_fields(name, getattr(of, name))
    if played is not None:
        measures: dict[str, Any] = {}
        for name, figure in played.measures.items():
            measures |= _figure_fields(name, figure)
        small, marked = list(played.small), dict(played.marked)
        found |= {"measures": measures, "of_too_few_moves": small, "marked": marked}
    return found


def _figure_fields(name: str, figure: Figure) -> dict[str, Any]:
    interval = figure.interval
    return {
        name: None if interval is None else interval.mean,
        f"{name}_ci95": None if interval is None else interval.bounds,
        f"{name}_people": figure.people,
        f"{name}_groups": figure.groups,
    }


def _finding_figures(finding: TestResult) -> dict[str, Any]:
    estimate = finding.estimate
    return {
        "kind": finding.kind,
        "about": list(finding.about),
        "n": finding.n,
        "groups": finding.groups,
        "enough": finding.min_groups,
        "estimate": None if estimate is None else estimate.mean,
        "estimate_ci95": None if estimate is None else estimate.bounds,
        "p": finding.p,
        "p_corrected": finding.p_adjusted,
        "found": finding.significant,
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
        "vertex": None if vertex is None else vertex.mean,
        "vertex_ci95": None if vertex is None else vertex.bounds,
        "vertex_inside": curves.inside if vertex is not None else None,
    }
