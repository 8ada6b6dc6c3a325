"""Card facts as sets: playable cards, useless cards, last copies.

Everything is arithmetic on words of bits (see `hanabi_rl.games.hanabi.bits`), so a set may be a
Python int or a ``uint32`` array of NumPy or JAX of any shape.
"""

from __future__ import annotations

from typing import Any

from hanabi_rl.games.hanabi.rules import Rules

CardSet = Any
"""Bit ``colour * num_ranks + rank`` is 1 if the set contains the card: int or uint32[...]."""

Planes = Any
"""Copies of cards as a sequence of sets, or uint32[M, ...]: plane j is the set of cards with at
least j + 1 copies."""


def next_cards(rules: Rules, played: CardSet) -> CardSet:
    """Next card of each firework, whether or not a copy is left."""
    return ((played << 1) | rules.rank_cards[0]) & ~played & rules.all_cards


def successors(rules: Rules, cards: CardSet) -> CardSet:
    """Cards that follow those of a set on their fireworks."""
    return (cards << 1) & (rules.all_cards & ~rules.rank_cards[0])


def with_successors(rules: Rules, cards: CardSet) -> CardSet:
    """Cards of a set and all that follow one of them."""
    for _ in range(rules.num_ranks - 1):
        cards = cards | successors(rules, cards)
    return cards


def is_single(cards: CardSet) -> Any:
    """True for sets of exactly one card."""
    return (cards != 0) & ((cards & (cards - 1)) == 0)


def useless_cards(rules: Rules, played: CardSet, used_up: CardSet) -> CardSet:
    """Useless cards: already played, or unreachable because every copy of it or of a lower card is
    discarded (`exhausted_cards`)."""
    return played | with_successors(rules, used_up)


def exhausted_cards(rules: Rules, discards: Planes) -> CardSet:
    """Cards of which every copy is discarded; as many planes as a card can have copies."""
    return _lost(rules, discards, 0)


def last_copies(rules: Rules, discards: Planes) -> CardSet:
    """Cards of which all copies but one are discarded; the last may have been played.

    Those that are not useless are *critical*. `discards`: see `exhausted_cards`.
    """
    return _lost(rules, discards, 1) & ~_lost(rules, discards, 0)


def gone_cards(rules: Rules, played: CardSet, discards: Planes) -> CardSet:
    """Cards of which every copy is played or discarded."""
    return exhausted_cards(rules, discards) | (last_copies(rules, discards) & played)


def without_copy(planes: Planes, cards: CardSet) -> list[CardSet]:
    """Remove one copy of each card of a set from planes of copies."""
    fewer = []
    for plane in reversed(planes):
        taken = plane & cards
        fewer.append(plane & ~taken)
        cards = cards & ~taken
    return fewer[::-1]


def _lost(rules: Rules, discards: Planes, left: int) -> CardSet:
    """Cards of which at most `left` copies (0 or 1) are not discarded."""
    planes = (*rules.full_planes, 0)
    found = discards[0] & 0
    for copies in range(1, len(planes)):  # cards with exactly this number of copies
        exactly = planes[copies - 1] & ~planes[copies]
        gone = discards[copies - left - 1] if copies > left else rules.all_cards
        found = found | (exactly & gone)
    return found
