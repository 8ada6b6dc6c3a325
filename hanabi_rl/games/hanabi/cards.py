"""Facts about cards, as sets: which fit, which can never score again, which are the last of their
kind.

Everything here is arithmetic on words of bits (see `hanabi_rl.games.hanabi.bits`), so a set may be
a Python int or a ``uint32`` array of NumPy or JAX of any shape. Copies that are gone come as sets
as well: `exhausted_cards` and `last_copies` read them from planes of discards,
`agents/bots/obs_view` from counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanabi_rl.games.hanabi.rules import Rules

CardSet = Any
"""Bit ``colour * num_ranks + rank`` says whether the card is in it: int or uint32[...]."""


def next_cards(rules: Rules, played: CardSet) -> CardSet:
    """The next card of each firework, whether a copy of it is left or not."""
    return ((played << 1) | rules.rank_cards[0]) & ~played & rules.all_cards


def successors(rules: Rules, cards: CardSet) -> CardSet:
    """The cards that follow those of a set on their fireworks."""
    return (cards << 1) & (rules.all_cards & ~rules.rank_cards[0])


def with_successors(rules: Rules, cards: CardSet) -> CardSet:
    """The cards of a set and all that come after one of them."""
    for _ in range(rules.num_ranks - 1):
        cards = cards | successors(rules, cards)
    return cards


def is_single(cards: CardSet) -> Any:
    """Whether each set has exactly one card."""
    return (cards != 0) & ((cards & (cards - 1)) == 0)


def useless_cards(rules: Rules, played: CardSet, used_up: CardSet) -> CardSet:
    """The cards that can never score again: played already, or not to be reached any more because
    every copy of it or of one below is discarded (`exhausted_cards`)."""
    return played | with_successors(rules, used_up)


def exhausted_cards(rules: Rules, discards: Sequence[CardSet]) -> CardSet:
    """The cards of which every copy is discarded.

    Args:
        discards: plane j is the set of cards of which at least j + 1 copies are discarded, as many
            planes as a card has copies at most.
    """
    return _lost(rules, discards, 0)


def last_copies(rules: Rules, discards: Sequence[CardSet]) -> CardSet:
    """The cards of which every copy but one is discarded; that one may have been played. Those of
    them that are not useless are *critical*: a last copy that still can score. `discards` as of
    `exhausted_cards`."""
    return _lost(rules, discards, 1) & ~_lost(rules, discards, 0)


def _lost(rules: Rules, discards: Sequence[CardSet], left: int) -> CardSet:
    """The cards of which at most `left` copies, 0 or 1, are not discarded."""
    planes = (*rules.full_planes, 0)
    found = discards[0] & 0
    for copies in range(1, len(planes)):  # the cards that have just so many
        exactly = planes[copies - 1] & ~planes[copies]
        gone = discards[copies - left - 1] if copies > left else rules.all_cards
        found = found | (exactly & gone)
    return found
