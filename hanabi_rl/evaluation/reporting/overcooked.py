"""Measures of Overcooked as text and JSON: interdependence and robustness unit tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hanabi_rl.evaluation.measure.ratio import Ratio, ratios_dict
from hanabi_rl.evaluation.measure.unit_test_types import CATEGORIES
from hanabi_rl.evaluation.overcooked.unit_tests import category_means
from hanabi_rl.evaluation.reporting.tables import Column, Part, table

if TYPE_CHECKING:
    from hanabi_rl.evaluation.overcooked.unit_tests import UnitTestResult

_LABELS = {
    "points": "points per game",
    "constructive": "constructive links per game",
    "constructive_counter": "  over a counter",
    "constructive_pot": "  by a pot",
    "constructive_given_by_0": "  given by player 0",
    "constructive_given_by_1": "  given by player 1",
    "nonconstructive": "other links per game",
    "triggers_per_subtask": "things put on a counter, per change of a hand",
    "accepted": "  of these, taken by the other player",
}


def interdependence_parts(teams: Mapping[str, Mapping[str, Ratio]]) -> list[Part]:
    """Team -> `interdependence_ratios`: one column per team."""
    columns = [
        Column(
            name,
            lambda row, of=of: f"{of[row]:.3f}" if of[row].defined else "-",
            left=True,
        )
        for name, of in teams.items()
    ]
    return [
        table(list(_LABELS), [Column("", _LABELS.__getitem__), *columns]),
        "A link is constructive if its thing is served, its giver never holds it again and its "
        "receiver never held it before (Biswas et al., arXiv 2502.06976). Intervals are 95%.",
    ]


def unit_test_parts(
    results: Mapping[str, Sequence[UnitTestResult]], chance: Sequence[UnitTestResult]
) -> list[Part]:
    """Pass rates by test, then by category, of random play and of each agent (name -> results), at
    seat 0 and seat 1."""
    every = {"random play": chance, **results}
    rows = [
        [
            f"{one.test.name:<4}{one.test.category:<6}{one.test.title}",
            *(f"{of[place].rate(seat).mean:.2f}" for of in every.values() for seat in (0, 1)),
        ]
        for place, one in enumerate(chance)
    ]
    means = [category_means(of, seat) for of in every.values() for seat in (0, 1)]
    for category in CATEGORIES:
        if category in means[0]:
            rows.append([f"{category}, mean", *(f"{mean[category]:.2f}" for mean in means)])
    titles = [f"{name}, seat {seat}" for name in every for seat in (0, 1)]
    columns = (Column(title, place) for place, title in enumerate(titles, start=1))
    return [table(rows, [Column("", 0), *columns])]


def unit_test_dict(results: Sequence[UnitTestResult]) -> dict[str, Any]:
    """JSON-ready results of one agent: rates with intervals, by seat."""
    return {
        "tests": {
            one.test.name: {
                "category": one.test.category,
                "title": one.test.title,
                "instances": one.passed.shape[1],
                **ratios_dict({f"seat_{seat}": one.rate(seat) for seat in (0, 1)}),
            }
            for one in results
        },
        "categories": [category_means(results, seat) for seat in (0, 1)],
    }
