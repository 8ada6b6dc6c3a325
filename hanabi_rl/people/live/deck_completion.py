"""A deck that fits all that a seat was told: `complete_deck`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules


class DesyncError(ValueError):
    """What was told does not follow from what was told before."""


def complete_deck(rules: Rules, could_be: Sequence[set[int]], before: Sequence[int]) -> list[int]:
    """A deck (card ids, top first) whose card at each order is one of `could_be`, as much like the
    deck `before` as is easy. Raises OutOfStepError where no deck is."""
    left = Counter(full_deck(rules))
    deck = list(before)
    # fewest choices first: cards that are known take theirs before anything is made up
    orders = sorted(range(rules.deck_size), key=lambda order: len(could_be[order]))
    hard = [order for order in orders if len(could_be[order]) < rules.num_cards]

    def place(index: int) -> bool:
        if index == len(hard):
            return True
        order = hard[index]
        for card in sorted(could_be[order], key=lambda card: card != before[order]):
            if left[card]:
                left[card] -= 1
                deck[order] = card
                if place(index + 1):
                    return True
                left[card] += 1
        return False

    if not place(0):
        raise DesyncError("no deck has the cards that were told")
    rest = orders[len(hard) :]
    lacking = []
    for order in rest:
        if left[before[order]]:
            left[before[order]] -= 1
        else:
            lacking.append(order)
    for order, card in zip(lacking, left.elements(), strict=True):
        deck[order] = card
    return deck
