"""How closely players follow common conventions, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanabi_rl.evaluation.measure.annotate import ANNOTATION_KINDS, VIOLATIONS
from hanabi_rl.evaluation.measure.intervals import bounds_text, explained
from hanabi_rl.storage.words import count


def conventions_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """`convention_figures` by label, a column each: shares of moves, most with their interval."""
    width = max(24, *(len(label) + 2 for label in rows))
    lines = [f"{'share of moves':<24}" + "".join(f"{label:>{width}}" for label in rows)]

    def line(title: str, name: str, spread: bool) -> str:
        return f"{title:<24}" + "".join(
            f"{_cell(figures, name, spread):>{width}}" for figures in rows.values()
        )

    lines += [line("follow the conventions", "adherence", True), "", "what they are"]
    lines += [line(f"  {kind}", f"kind/{kind}", False) for kind in ANNOTATION_KINDS]
    lines += ["", "what they break"]
    lines += [line(f"  {name}", f"break/{name}", False) for name in VIOLATIONS]
    counts = ", ".join(
        f"{label} {count(row['games'], 'game')} and {count(row['moves'], 'move')}"
        for label, row in rows.items()
    )
    return explained("\n".join([*lines, "", f"Of {counts}. Intervals are 95%, over decks."]))


def _cell(figures: Mapping[str, Any], name: str, spread: bool) -> str:
    share, bounds = figures[name], figures[f"{name}_ci95"]
    if share is None:
        return "none"
    return f"{share:.1%}" + (f" {bounds_text(bounds, '.1%')}" if spread else "")
