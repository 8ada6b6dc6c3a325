"""Counts as text; names that resemble an unknown one; names with options."""

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


def game_name(text: str) -> str:
    """Name of a game of `NAME`, `NAME:VARIANT` or `NAME?key=value`."""
    return text.partition("?")[0].partition(":")[0]


def split_options(name: str) -> tuple[str, dict[str, str]]:
    """Text before the question mark, and the options after it, in order: `NAME?key=value&...`.
    Raises ValueError for options that are not key=value or repeat a key."""
    plain, question, text = name.partition("?")
    options: dict[str, str] = {}
    for pair in text.split("&") if question else ():
        key, equals, value = pair.partition("=")
        if not (key and equals and value):
            raise ValueError(f"{name}: expected ?key=value&..., got {pair!r}")
        if key in options:
            raise ValueError(f"{name}: expected {key} once, got it twice")
        options[key] = value
    return plain, options
