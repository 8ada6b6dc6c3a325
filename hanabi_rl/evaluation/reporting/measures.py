"""Tables of measures of games: behaviour, conventions, interdependence and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from hanabi_rl.evaluation.measure.annotate import ANNOTATION_KINDS, VIOLATIONS
from hanabi_rl.evaluation.measure.convention_gap import PLAY_KINDS
from hanabi_rl.evaluation.measure.efficiency import required_efficiency
from hanabi_rl.evaluation.measure.intervals import bounds_text
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.registry import MEASURES, Measure, measures_of
from hanabi_rl.evaluation.reporting.tables import (
    Column,
    Part,
    format_value,
    interval_columns,
    table,
    text_rows,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count


def measures_table(
    figures: Mapping[str, Any],
    measures: Iterable[Measure],
    rules: Rules,
    references: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Table:
    """One row per measure: mean, interval, values of `references` (agent -> measure -> value), and
    published values for the same game."""
    measures = tuple(measures)
    published = {measure.name: published_figures(measure, rules) for measure in measures}
    agents = dict.fromkeys(agent for row in published.values() for agent in row)
    return table(
        measures,
        (
            Column("", lambda measure: measure.label),
            Column("mean", lambda measure: figures[measure.name], ".3f"),
            Column("95% interval", lambda m: figures[f"{m.name}_ci95"], ".3f", True, missing=""),
            *(
                Column(name, lambda measure, of=of: of[measure.name], ".3f")
                for name, of in (references or {}).items()
            ),
            *(
                Column(name, lambda m, name=name: published[m.name].get(name), ".2f", missing="")
                for name in agents
            ),
        ),
    )


def published_figures(measure: Measure, rules: Rules) -> Mapping[str, float]:
    """Published agent -> value of a measure; empty for games other than the papers'."""
    return measure.published.get(rules.num_players, {}) if rules.is_standard else {}


def efficiency_line(figures: Mapping[str, Any], rules: Rules) -> str:
    """`efficiency_figures` as a line, with the efficiency that a perfect game needs."""
    mean, bounds = figures["efficiency"], figures["efficiency_ci95"]
    if mean is None:
        return f"efficiency: no finished game with a clue; {required_text(rules)}"
    text = f"{mean:.3f} {bounds_text(bounds, '.3f')}"
    return f"efficiency {text} cards per clue; {required_text(rules)}"


def required_text(rules: Rules) -> str:
    """Efficiency that a perfect game needs, as text."""
    return f"a perfect game with {rules.num_players} players needs {required_efficiency(rules):.3f}"


def behaviour_parts(figures: Mapping[str, Any], rules: Rules) -> list[Part]:
    """`behaviour_figures` with AH2AC2's values for the same game."""
    measures = measures_of("behaviour")
    parts: list[Part] = [
        measures_table(figures, measures, rules),
        f"{count(figures['games'], 'game')}: {count(figures['plays'], 'card')} played, "
        f"{count(figures['hints'], 'hint')} on {count(figures['token_turns'], 'turn')} with a "
        f"token and {figures['turns']:,} in all. {_INTERVALS}",
        f"Efficiency is in cards per clue; {required_text(rules)}.",
    ]
    if any(published_figures(measure, rules) for measure in measures):
        parts.append("Right: AH2AC2's Table 10, all of its games (metrics of Canaan et al. 2020).")
    return parts


def conventions_parts(rows: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    """`convention_figures` by label, one column each: fractions of moves."""

    def lines(head: str, prefix: str, names: Iterable[str]) -> list[list[str]]:
        values = [
            [f"  {name}", *(format_value(of[f"{prefix}/{name}"], ".1%") for of in rows.values())]
            for name in names
        ]
        return [[""] * (1 + len(rows)), [head, *[""] * len(rows)], *values]

    adherence = [
        "none"
        if of["adherence"] is None
        else f"{of['adherence']:.1%} {bounds_text(of['adherence_ci95'], '.1%')}"
        for of in rows.values()
    ]
    cells = [
        ["fraction of moves", *rows],
        ["follow the conventions", *adherence],
        *lines("kinds", "kind", ANNOTATION_KINDS),
        *lines("violations", "break", VIOLATIONS),
    ]
    counts = ", ".join(
        f"{label} {count(row['games'], 'game')} and {count(row['moves'], 'move')}"
        for label, row in rows.items()
    )
    return [text_rows(cells, left=False), "", f"Of {counts}. Intervals are 95%, over decks."]


def gap_parts(rows: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    """`gap_figures` by label, one row per kind of play; nothing without labels."""
    if not rows:
        return []
    lines = [(f"{label}, {kind}", kind, of) for label, of in rows.items() for kind in PLAY_KINDS]

    def column(head: str, field: str, spec: str, **rest: Any) -> Column:
        return Column(head, lambda line: line[2][f"{line[1]}_{field}"], spec, **rest)

    return [
        "",
        table(
            lines,
            (
                Column("convention gap: plays", 0),
                column("plays", "plays", ","),
                column("predicted", "predicted", ".1%"),
                column("scored", "scored", ".1%"),
                column("gap", "gap", "+.1%"),
                column("95% interval", "gap_ci95", "+.1%", left=True, missing=""),
                column("floor", "gap_floor", ".1%"),
            ),
        ),
        "Predicted: by hints taken literally. Gaps below the floor are noise of literal play.",
    ]


_INTERVALS = "95% intervals over games; games on the same deck count as one."
_PAIRS = (
    Column("giver -> receiver", lambda pair: f"{pair['giver']} -> {pair['receiver']}"),
    Column("hints", spec=","),
    Column("per turn", "triggers", ".1%"),
    Column("never used", "not_accepted", ".1%"),
    Column("not used next turn", "not_prompt", ".1%"),
    *interval_columns("not_helpful", ".1%", "not constructive"),
    Column("constructive", spec=".2f"),
    Column("per point", "constructive_per_point", ".2f"),
    Column("other", "nonconstructive", ".2f"),
    Column("points", "hinted_points", ".1%"),
    Column("across seats", "crossing", ".1%"),
)


def interdependence_parts(
    figures: Mapping[str, Any], references: Mapping[str, Mapping[str, Any]], rules: Rules
) -> list[Part]:
    """`interdependence_figures` with `reference_figures`, which may be empty."""
    measures = (*measures_of("interdependence"), *measures_of("team"))
    left = figures["unfinished"]
    unfinished = f" ({left:,} unfinished, excluded from values per game)" if left else ""
    return [
        measures_table(figures, measures, rules, references),
        _correlation_line(figures),
        "",
        table(figures["pairs"], _PAIRS),
        "",
        f"{count(figures['games'], 'game')} of {rules.num_players} players{unfinished}, "
        f"{count(figures['turns'], 'turn')}, {count(figures['hints'], 'hint')}. {_INTERVALS}",
        "A link shows that a move depends on another, not intent: compare with bot:random. The "
        "number of links grows with the score: compare teams by links per point.",
    ]


def _correlation_line(figures: Mapping[str, Any]) -> str:
    texts = []
    for name in ("correlation", "correlation_kept"):
        r, bounds = figures[name], figures[f"{name}_ci95"]
        texts.append("none" if r is None else f"{r:.3f} {bounds_text(bounds, '.3f')}")
    return (
        f"Pearson's r of points and constructive links over games: {texts[0]}; over games with a "
        f"life left: {texts[1]}"
    )


_PREDICTION = (
    Column("", 0),
    Column("decisions", 1, ",", missing=""),
    Column("accuracy", 2, ".3f"),
    Column("95% interval", 3, ".3f", left=True),
    Column("nats", 4, ".3f"),
    Column("95% interval", 5, ".3f", left=True),
)


def record_prediction_table(agent: str, ratios: Mapping[str, Ratio]) -> Table:
    """`record_prediction.prediction_ratios`: rows for the agent and for the best constant."""
    names = ("accuracy", "accuracy_of_moves", "cross_entropy")
    titles = ("accuracy", "accuracy of moves", "nats per decision")
    columns = [
        Column(title, lambda row, name=name: f"{ratios[row[1] + name]:.3f}", left=True)
        for name, title in zip(names, titles, strict=True)
        if name in ratios and ratios[name].defined
    ]
    rows = [(agent, ""), ("best constant", "constant_")]
    return table(rows, [Column("", 0), *columns])


def prediction_parts(figures: Mapping[str, Any]) -> list[Part]:
    """`prediction_figures`: prediction by kind of move and by turn; most surprising moves."""
    slices = {"every decision": figures} | figures["by_move"]
    slices |= {f"turns {name}": of for name, of in figures["by_turn"].items()}

    def cells(of: Mapping[str, Any], per: str = "") -> list[Any]:
        names = f"accuracy{per}", f"cross_entropy{per}"
        return [of[key] for name in names for key in (name, f"{name}_ci95")]

    rows = [(name, of["decisions"], *cells(of)) for name, of in slices.items()]
    rows.append(("per timestep", None, *cells(figures, "_per_timestep")))
    for top in ("top_10", "top_20"):
        right = f"{top}_accuracy"
        rows.append((MEASURES[right].label, None, figures[right], figures[f"{right}_ci95"], "", ""))
    parts: list[Part] = [
        table(rows, _PREDICTION),
        f"Per timestep as in AH2AC2: {figures['seat_timesteps']:,} seat-timesteps, idle turns "
        f"included. Top 10%: right if fewer than 10% of the legal moves are more likely. "
        f"{_INTERVALS}",
    ]
    if figures["surprising"]:
        parts.append("Most surprising moves:")
    for move in figures["surprising"]:
        parts.append(
            f"{move['cross_entropy']:6.2f} nats  game {move['game']} (id {move['game_id']}), turn "
            f"{move['turn']}: {move['move']}; expected: {move['expected']}"
        )
        parts.append(f"             {move['link'] or 'not on hanab.live'}")
    return parts
