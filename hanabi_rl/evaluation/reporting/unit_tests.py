"""The unit tests of robustness, as text and as figures for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.evaluation.measure.unit_test_types import CATEGORIES, Attempt
from hanabi_rl.evaluation.measure.unit_tests import UnitTestResult, category_means

_LABEL = 40


def unit_test_table(results: Mapping[str, Sequence[UnitTestResult]]) -> str:
    """A line a test: chance, and the share that each agent (name -> results) passes, of pairs also
    how often it was right with either kind of partner; then the means of the categories, which are
    never averaged, and one failure of each test to look at."""
    names = list(results)
    columns = [max(len(name), 6) + 2 for name in names]
    tests = next(iter(results.values()))
    lines = [
        "".ljust(_LABEL)
        + "chance"
        + "".join(name.rjust(width) for name, width in zip(names, columns, strict=True))
    ]
    for row, result in enumerate(tests):
        label = f"{result.test.name:<4}{result.test.category:<6}{result.test.title}"
        shares = [results[name][row].share for name in names]
        lines.append(_line(label, result.chance, shares, columns))
        for history in result.rate_by_history:
            shares = [results[name][row].rate_by_history[history] for name in names]
            lines.append(_line(f"          {history}", None, shares, columns))
    lines.append("")
    means = {name: category_means(results[name]) for name in names}
    for category in CATEGORIES:
        of_category = [result.chance for result in tests if result.test.category == category]
        chance = sum(of_category) / len(of_category)
        shares = [means[name][category] for name in names]
        lines.append(_line(f"{category}, mean of {len(of_category)}", chance, shares, columns))
    counts = sorted({len(result.attempts) for of in results.values() for result in of})
    lines += ["", f"{_range(counts)} situations a test; of AR and A+MR pairs of them, passed where"]
    lines += ["both are right. Greedy play unless sampled.", ""]
    return "\n".join(lines + [line for name in names for line in _failures(name, results[name])])


def unit_test_figures(results: Sequence[UnitTestResult]) -> dict[str, Any]:
    """One agent's results, JSON-ready: shares with Wilson intervals, chance, links of failures."""
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


def _line(label: str, chance: float | None, shares: Sequence[float], columns: Sequence[int]) -> str:
    cells = [f"{share:{width}.2f}" for share, width in zip(shares, columns, strict=True)]
    beside = "" if chance is None else f"{chance:.2f}"
    return f"{label:<{_LABEL}}{beside:>6}" + "".join(cells)


def _failures(name: str, results: Sequence[UnitTestResult]) -> list[str]:
    failed = [result for result in results if result.failures()]
    if not failed:
        return [f"{name}: no failure"]
    lines = [f"{name}, a failure of each test:"]
    for result in failed:
        lines.append(f"  {result.test.name}: {result.test.failure_meaning}")
        lines.append(f"      {_link(result.failures()[0])}")
    return lines


def _link(attempt: Attempt) -> str:
    """Its replay, opened where the agent begins to choose."""
    situation = attempt.situation
    return replay_link(
        situation.rules, situation.deck, attempt.actions, turn=len(situation.prefix) + 1
    )


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
