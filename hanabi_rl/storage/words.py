"""Counts as text."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 game`, `2,000 games`; `plural` defaults to `noun` and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
