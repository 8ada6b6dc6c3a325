"""Report of a study as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from hanabi_rl.evaluation.measure.intervals import Interval, interval_dict
from hanabi_rl.evaluation.measure.study import MIN_GROUPS, AgentFigures, Figure
from hanabi_rl.evaluation.measure.study_games import OF_AGENT, OF_TEAM, PlayFigures
from hanabi_rl.evaluation.measure.study_statistics import Curves, TestResult
from hanabi_rl.evaluation.measure.study_summary import StudyReport
from hanabi_rl.evaluation.reporting.tables import Column, Part, table, text_rows
from hanabi_rl.storage.words import count

FORMAT_VERSION = 1
_LINES = (  # figure, label, format
    ("score", "points per game", ".2f"),
    ("zero_rate", "games of 0", ".0%"),
    ("rating", "rating (1-7)", ".2f"),
    ("place", "place", ".2f"),
    ("first_share", "ranked first", ".0%"),
    ("questioned", "moves marked", ".1%"),
)


def report_parts(report: StudyReport, played: Sequence[PlayFigures] = ()) -> list[Part]:
    """All tables."""
    parts: list[Part] = [_agents_table(report.agents), "", _findings_table(report.comparisons), ""]
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
    words = ["Intervals are 95% and over people, each with all of their games."]
    if any(of.groups < of.people for of in report.agents):
        words.append("People who played together, directly or through others, are one unit.")
    words.append(
        f"Corrected: p by Holm's method over all {count(tests, 'test')} of this report; "
        "significant: below 0.05."
    )
    return [*parts, "", " ".join(words)]


def _agents_table(agents: Sequence[AgentFigures]) -> Table:
    """One row per figure, one column per agent."""
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
    return too_few(figure) if figure.people else "-"


def too_few(figure: Figure) -> str:
    """Reason of a missing figure."""
    return f"too few people: {people_text(figure.people, figure.groups)}"


def people_text(people: int, groups: int) -> str:
    """Number of people, and of groups if some played together."""
    return str(people) if groups == people else f"{people} in {groups} groups"


def _findings_table(findings: Sequence[TestResult]) -> Table:
    """Agents compared within people."""
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
    if finding.groups < finding.min_groups:
        unit = unit if finding.groups == finding.n else "groups"
        return [count, "", "", "", f"too few {unit}: at least {finding.min_groups}"]
    if finding.p is None or estimate is None or finding.p_adjusted is None:
        return [count, "", "", "", "nothing varies: no test"]
    verdict = "significant" if finding.significant else "not significant"
    return [count, _interval(estimate, spec), _p(finding.p), _p(finding.p_adjusted), verdict]


def _interval(interval: Interval, spec: str) -> str:
    if interval.low != interval.low:  # no interval of this estimate
        return format(interval.mean, spec)
    return format(interval, spec)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _curve_parts(curves: Curves | None) -> list[Part]:
    if curves is None:
        return ["Rating on points: no person has both, or nothing varies."]
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
        f"The parabola's {top} is at {curves.vertex:.1f} points, {where} the scores seen "
        f"({low:.1f} to {high:.1f})"
        + ("." if curves.inside else ": within them it may be monotonic.")
    )


def _played_parts(played: Sequence[PlayFigures]) -> list[Part]:
    """One row per measure and one column per agent; then the marked moves."""
    parts: list[Part] = []
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
        parts += ["", text_rows(rows)]
    if any(of.small for of in played):
        parts.append("* a small sample: biased by more than the interval (docs/metrics.md).")
    if any(of.marked[kind] for of in played for kind in ("plays", "discards", "hints")):
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
    """JSON-ready; every `*_ci95` is `[low, high]`, None where there are too few people.
    `groups`: people, those who played together as one."""
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
        measures: dict[str, Any] = {}
        for name, figure in played.measures.items():
            measures |= _figure_fields(name, figure)
        small, marked = list(played.small), dict(played.marked)
        found |= {"measures": measures, "small_sample": small, "marked": marked}
    return found


def _figure_fields(name: str, figure: Figure) -> dict[str, Any]:
    return {
        **interval_dict(name, figure.interval),
        f"{name}_people": figure.people,
        f"{name}_groups": figure.groups,
    }


def _finding_figures(finding: TestResult) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "about": list(finding.about),
        "n": finding.n,
        "groups": finding.groups,
        "min_groups": finding.min_groups,
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
