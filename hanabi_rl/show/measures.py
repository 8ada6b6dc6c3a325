"""Measures of recorded games as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hanabi_rl.env.game import Rules
from hanabi_rl.measure.registry import Measure, measures_of


def measure_table(
    figures: Mapping[str, Any],
    measures: Iterable[Measure],
    rules: Rules,
    beside: Mapping[str, Mapping[str, float | None]] | None = None,
) -> tuple[str, bool]:
    """A line a measure: its mean and interval, and what was published of the same game.

    Args:
        beside: who -> measure -> figure, columns for others that were measured.

    Returns:
        the table, and whether anything published stands in it.
    """
    measures, beside = tuple(measures), beside or {}
    published = {
        measure.name: measure.published.get(rules.num_players, {}) if rules.is_standard else {}
        for measure in measures
    }
    names = list(dict.fromkeys(who for rows in published.values() for who in rows))
    header = f"{'':<47} {'mean':>6} {'95% interval':<16}"
    lines = [
        header + "".join(f" {who:>14}" for who in beside) + "".join(f" {who:>11}" for who in names)
    ]
    for measure in measures:
        mean, bounds = figures[measure.name], figures[f"{measure.name}_ci95"]
        others = "".join(f" {_number(row[measure.name]):>14}" for row in beside.values())
        theirs = "".join(
            f" {published[measure.name][who]:11.2f}" if who in published[measure.name] else " " * 12
            for who in names
        )
        ours = (
            f"{'none':>6} {'':<16}"
            if mean is None
            else f"{mean:6.3f} {f'[{bounds[0]:.3f}, {bounds[1]:.3f}]':<16}"
        )
        lines.append(f"{measure.label:<47} {ours}{others}{theirs}".rstrip())
    return "\n".join(lines), bool(names)


def _number(figure: float | None) -> str:
    return "none" if figure is None else f"{figure:.3f}"


def behaviour_table(figures: Mapping[str, Any], rules: Rules) -> str:
    """`behaviour_figures` as text, beside the paper's figures where it has them of this game."""
    table, has_published = measure_table(figures, measures_of("behaviour"), rules)
    lines = [
        table,
        f"{figures['games']:,} games: {figures['plays']:,} cards played, {figures['hints']:,} "
        f"hints on {figures['token_turns']:,} turns with a token and {figures['turns']:,} in all. "
        "Intervals are 95%, over games, those of one deck as one.",
    ]
    if has_published:
        lines.append(
            "On the right AH2AC2's Table 10, on all of its games (metrics of Canaan et al. 2020)."
        )
    return "\n".join(lines)
