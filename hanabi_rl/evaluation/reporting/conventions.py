"""Table of how closely players follow common conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanabi_rl.evaluation.measure.annotate import ANNOTATION_KINDS, VIOLATIONS
from hanabi_rl.evaluation.measure.intervals import bounds_text
from hanabi_rl.evaluation.reporting.tables import Part, format_value, text_rows
from hanabi_rl.storage.words import count


def conventions_parts(rows: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    """`convention_figures` by label, one column each: fractions of moves."""

    def line(title: str, name: str) -> list[str]:
        return [title, *(format_value(figures[name], ".1%") for figures in rows.values())]

    adherence = [
        "none"
        if of["adherence"] is None
        else f"{of['adherence']:.1%} {bounds_text(of['adherence_ci95'], '.1%')}"
        for of in rows.values()
    ]
    blank = [""] * len(rows)
    lines = [
        ["fraction of moves", *rows],
        ["follow the conventions", *adherence],
        ["", *blank],
        ["kinds", *blank],
        *(line(f"  {kind}", f"kind/{kind}") for kind in ANNOTATION_KINDS),
        ["", *blank],
        ["violations", *blank],
        *(line(f"  {name}", f"break/{name}") for name in VIOLATIONS),
    ]
    counts = ", ".join(
        f"{label} {count(row['games'], 'game')} and {count(row['moves'], 'move')}"
        for label, row in rows.items()
    )
    return [text_rows(lines, left=False), "", f"Of {counts}. Intervals are 95%, over decks."]
