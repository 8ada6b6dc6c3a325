"""A full deck consistent with everything that a seat has observed: `complete_deck`."""

from collections import Counter
from collections.abc import Sequence

from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules


class DesyncError(ValueError):
    """A message from the server is inconsistent with the previous ones."""


def complete_deck(rules: Rules, possible: Sequence[set[int]], previous: Sequence[int]) -> list[int]:
    """Return a deck (card ids, top first) whose card at each order is in `possible`; keeps cards of
    `previous` where it easily can. Raises DesyncError if no deck exists."""
    left = Counter(full_deck(rules))
    deck = list(previous)
    # fewest choices first: known cards are placed before guessed ones
    orders = sorted(range(rules.deck_size), key=lambda order: len(possible[order]))
    constrained = [order for order in orders if len(possible[order]) < rules.num_cards]

    def place(index: int) -> bool:
        if index == len(constrained):
            return True
        order = constrained[index]
        for card in sorted(possible[order], key=lambda card: card != previous[order]):
            if left[card]:
                left[card] -= 1
                deck[order] = card
                if place(index + 1):
                    return True
                left[card] += 1
        return False

    if not place(0):
        raise DesyncError("no deck is consistent with the observed cards")
    rest = orders[len(constrained) :]
    missing = []
    for order in rest:
        if left[previous[order]]:
            left[previous[order]] -= 1
        else:
            missing.append(order)
    for order, card in zip(missing, left.elements(), strict=True):
        deck[order] = card
    return deck
