"""Measures of recorded games as text: of behaviour, and of who helps whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hanabi_rl.evaluation.measure.efficiency import required_efficiency
from hanabi_rl.evaluation.measure.intervals import bounds_text, explained
from hanabi_rl.evaluation.measure.registry import Measure, measures_of
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count


def measures_table(
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
            else f"{mean:6.3f} {bounds_text(bounds, '.3f'):<16}"
        )
        lines.append(f"{measure.label:<47} {ours}{others}{theirs}".rstrip())
    return "\n".join(lines), bool(names)


def efficiency_line(figures: Mapping[str, Any], rules: Rules) -> str:
    """`efficiency_figures` as a line: the mean, its interval, and what a perfect game needs."""
    mean, bounds = figures["efficiency"], figures["efficiency_ci95"]
    if mean is None:
        return f"efficiency: no finished game with a clue; {required_text(rules)}"
    found = f"{mean:.3f} {bounds_text(bounds, '.3f')}"
    return f"efficiency {found} cards per clue; {required_text(rules)}"


def required_text(rules: Rules) -> str:
    """The efficiency that a perfect game needs, in words."""
    needed = required_efficiency(rules)
    return f"a perfect game with {rules.num_players} players needs {needed:.3f}"


def _number(figure: float | None) -> str:
    return "none" if figure is None else f"{figure:.3f}"


def behaviour_table(figures: Mapping[str, Any], rules: Rules) -> str:
    """`behaviour_figures` as text, beside the paper's figures where it has them of this game."""
    table, has_published = measures_table(figures, measures_of("behaviour"), rules)
    lines = [
        table,
        f"{count(figures['games'], 'game')}: {count(figures['plays'], 'card')} played, "
        f"{count(figures['hints'], 'hint')} on {count(figures['token_turns'], 'turn')} with a "
        "token "
        f"and {figures['turns']:,} in all. "
        "Intervals are 95%, over games, those of one deck as one.",
        f"Efficiency is in cards per clue; {required_text(rules)}.",
    ]
    if has_published:
        lines.append(
            "On the right AH2AC2's Table 10, on all of its games (metrics of Canaan et al. 2020)."
        )
    return explained("\n".join(lines))


_SHARES = ("triggers", "not_accepted", "not_prompt", "not_helpful", "hinted_points", "crossing")
_LINKS = ("constructive", "constructive_per_point", "nonconstructive")


def interdependence_table(
    figures: Mapping[str, Any], references: Mapping[str, Mapping[str, Any]], rules: Rules
) -> str:
    """`interdependence_figures` as text, beside `reference_figures` (empty: none)."""
    measures = (*measures_of("interdependence"), *measures_of("team"))
    table, _ = measures_table(figures, measures, rules, references)
    left = figures["unfinished"]
    of_these = f" ({left:,} left before their end, of which no figure a game is)" if left else ""
    lines = [
        table,
        _correlation_line(figures),
        "",
        *_pair_lines(figures["pairs"]),
        "",
        f"{count(figures['games'], 'game')} of {rules.num_players} players{of_these}, "
        f"{count(figures['turns'], 'turn')}, {count(figures['hints'], 'hint')}. Intervals are "
        "95%, over games, "
        "those of one deck as one.",
        "A link says what rested on what, not what was meant: luck counts. Read it beside "
        "bot:random's. Counts of links grow with the score: compare teams by those for each point.",
    ]
    return explained("\n".join(lines))


def _correlation_line(figures: Mapping[str, Any]) -> str:
    texts = []
    for name in ("correlation", "correlation_kept"):
        r, bounds = figures[name], figures[f"{name}_ci95"]
        texts.append("none" if r is None else f"{r:.3f} {bounds_text(bounds, '.3f')}")
    return (
        f"Pearson's r of points with constructive links over games: {texts[0]}; of games that kept "
        f"a life: {texts[1]}"
    )


def _pair_lines(pairs: list[dict[str, Any]]) -> list[str]:
    """A line an ordered pair of roles: what the giver's hints led to."""
    header = (
        f"{'giver -> receiver':<20} {'hints':>8} {'a turn':>7} {'not used':>9} {'not next':>9} "
        f"{'to nothing':>11} {'95% interval':<14} {'constructive':>12} {'a point':>8} {'other':>6} "
        f"{'points':>7} {'on card':>8}"
    )
    return [header, *(_pair_line(pair) for pair in pairs)]


def _pair_line(pair: dict[str, Any]) -> str:
    shares = {name: "none" if pair[name] is None else f"{pair[name]:.1%}" for name in _SHARES}
    links = {name: "none" if pair[name] is None else f"{pair[name]:.2f}" for name in _LINKS}
    bounds = pair["not_helpful_ci95"]
    interval = "" if bounds is None else bounds_text(bounds, ".1%")
    return (
        f"{pair['giver'] + ' -> ' + pair['receiver']:<20} {pair['hints']:>8,} "
        f"{shares['triggers']:>7} {shares['not_accepted']:>9} {shares['not_prompt']:>9} "
        f"{shares['not_helpful']:>11} {interval:<14} {links['constructive']:>12} "
        f"{links['constructive_per_point']:>8} {links['nonconstructive']:>6} "
        f"{shares['hinted_points']:>7} {shares['crossing']:>8}"
    )
