"""Summary of a study: `report_of`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hanabi_rl.evaluation.measure.study import AgentFigures, PersonAgentData, agent_figures
from hanabi_rl.evaluation.measure.study_statistics import (
    Curves,
    TestResult,
    across_agents,
    compare_agents,
    corrected,
    rating_curves,
)


@dataclasses.dataclass(frozen=True)
class StudyReport:
    """Figures and tests of the agents; p values are corrected together."""

    agents: list[AgentFigures]
    comparisons: list[TestResult]
    curves: Curves | None
    across: list[TestResult]

    @property
    def findings(self) -> list[TestResult]:
        """All test results."""
        curves = [] if self.curves is None else [self.curves.line, self.curves.parabola]
        return [*self.comparisons, *curves, *self.across]


def report_of(
    blocks: Sequence[PersonAgentData],
    agents: Sequence[str],
    others: Mapping[str, Mapping[str, float]] | None = None,
    max_score: float = float("inf"),
    games: Mapping[str, str] = MappingProxyType({}),
) -> StudyReport:
    """Report on `agents`. others: other figures of the agents, name -> agent -> value, such as
    gauntlet means; max_score: maximum of the game; games: game of each agent, if not the same, then
    without regressions on scores."""
    report = StudyReport(
        agents=agent_figures(blocks, agents, max_score),
        comparisons=compare_agents(blocks, agents, games),
        curves=rating_curves(blocks) if len(set(games.values())) < 2 else None,
        across=[
            finding
            for name, figures in (others or {}).items()
            for finding in across_agents(blocks, figures, name)
        ],
    )
    found = corrected(report.findings)
    pairs, curves = len(report.comparisons), report.curves
    if curves is not None:
        curves = curves._replace(line=found[pairs], parabola=found[pairs + 1])
    return StudyReport(
        agents=report.agents,
        comparisons=found[:pairs],
        curves=curves,
        across=found[len(found) - len(report.across) :],
    )
