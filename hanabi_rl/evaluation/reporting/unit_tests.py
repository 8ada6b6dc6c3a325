"""Robustness unit tests as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.evaluation.measure.unit_test_types import CATEGORIES, Attempt
from hanabi_rl.evaluation.measure.unit_tests import UnitTestResult, category_means
from hanabi_rl.evaluation.reporting.tables import Column, Part, table


def unit_test_parts(results: Mapping[str, Sequence[UnitTestResult]]) -> list[Part]:
    """One row per test with the pass rate of random play and of each agent (name -> results).

    Pairs of situations also have the rate for each kind of partner. Then follow the means of the
    categories and one failure per test.
    """
    tests, agents = next(iter(results.values())), results.values()
    rows: list[list[Any]] = []
    for place, result in enumerate(tests):
        of_agents = [of[place] for of in agents]
        label = f"{result.test.name:<4}{result.test.category:<6}{result.test.title}"
        rows.append([label, result.chance, *(of.share for of in of_agents)])
        for history in result.rate_by_history:
            rates = (of.rate_by_history[history] for of in of_agents)
            rows.append([f"          {history}", None, *rates])
    rows.append([""] * (2 + len(results)))
    means = [category_means(of) for of in agents]
    for category in CATEGORIES:
        chances = [result.chance for result in tests if result.test.category == category]
        label, chance = f"{category}, mean of {len(chances)}", sum(chances) / len(chances)
        rows.append([label, chance, *(of[category] for of in means)])
    counts = sorted({len(result.attempts) for of in agents for result in of})
    situations = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    columns = (
        Column("", 0),
        Column("random play", 1, ".2f", missing=""),
        *(Column(name, place, ".2f") for place, name in enumerate(results, start=2)),
    )
    return [
        table(rows, columns),
        "",
        f"{situations} situations per test; AR and A+MR have pairs of situations, passed if "
        "both are passed. Greedy play unless --sample is set.",
        "",
        *(line for name, of in results.items() for line in _failures(name, of)),
    ]


def unit_test_dict(results: Sequence[UnitTestResult]) -> dict[str, Any]:
    """JSON-ready results of one agent: rates with Wilson intervals, links to failures."""
    return {
        "tests": {result.test.name: _figures(result) for result in results},
        "categories": category_means(results),
        "categories_corrected": category_means(results, corrected=True),
    }


def _figures(result: UnitTestResult) -> dict[str, Any]:
    from scipy.stats import binomtest

    passed, count = int(result.passed.sum()), len(result.passed)
    interval = binomtest(passed, count).proportion_ci(method="wilson")
    return {
        "category": result.test.category,
        "title": result.test.title,
        "instances": count,
        "share": result.share,
        "share_ci95": [interval.low, interval.high],
        "chance": result.chance,
        "corrected": result.corrected,
        "by_history": result.rate_by_history,
        "failures": [_link(attempt) for attempt in result.failures()],
    }


def _failures(name: str, results: Sequence[UnitTestResult]) -> list[str]:
    failed = [result for result in results if result.failures()]
    if not failed:
        return [f"{name}: no failure"]
    lines = [f"{name}, one failure per test:"]
    for result in failed:
        lines.append(f"  {result.test.name}: {result.test.failure_meaning}")
        lines.append(f"      {_link(result.failures()[0])}")
    return lines


def _link(attempt: Attempt) -> str:
    """Link to the replay at the agent's first decision."""
    situation = attempt.situation
    turn = len(situation.prefix) + 1
    return replay_link(situation.rules, situation.deck, attempt.actions, turn=turn)
