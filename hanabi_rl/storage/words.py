"""Counts as text; names that resemble an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 game`, `2,000 games`; `plural` defaults to `noun` and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the most similar of the known names; "" without a similar one."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
