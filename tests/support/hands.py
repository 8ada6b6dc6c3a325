"""Enumeration of all hands consistent with the rules, in plain Python."""

import itertools
from collections import Counter

import numpy as np

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State


def unseen_cards(rules: Rules, state: State, game: int, seat: int) -> list[int]:
    """Cards that are neither on the table nor in another hand, one entry per copy."""
    left = Counter(
        card
        for card in range(rules.num_cards)
        for _ in range(rules.num_cards_of_rank[card % rules.num_ranks])
    )
    for word in [state.fireworks[game], *state.discards[game]]:
        left.subtract(cards_of(rules, word))
    for other in range(rules.num_players):
        if other != seat:
            left.subtract(
                [card for word in state.hands[game, other] for card in cards_of(rules, word)]
            )
    return list(left.elements())


def cards_of(rules: Rules, word: int) -> list[int]:
    """Decode a set of cards."""
    return [card for card in range(rules.num_cards) if int(word) >> card & 1]


def every_hand(rules: Rules, state: State, game: int, seat: int) -> Counter[tuple[int, ...]]:
    """Possible hands of `seat` with their numbers of copies; empty slots are omitted."""
    copies = unseen_cards(rules, state, game, seat)
    allowed = [cards_of(rules, word) for word in state.knowledge[game, seat] if word]
    fits = [[i for i, card in enumerate(copies) if card in slot] for slot in allowed]
    return Counter(
        tuple(copies[i] for i in hand)
        for hand in itertools.product(*fits)
        if len(set(hand)) == len(hand)
    )


def tilted(hands: Counter[tuple[int, ...]], tilt: np.ndarray) -> dict[tuple[int, ...], float]:
    """Probability of each hand if every next card is sampled by the number of hands that continue
    with it times exp(tilt[slot, card type]). For hands without empty slots."""
    found = {}
    for hand in hands:
        prob = 1.0
        for slot in range(len(hand)):
            on: Counter[int] = Counter()
            for other, ways in hands.items():
                if other[:slot] == hand[:slot]:
                    on[other[slot]] += ways
            weights = {card: n * np.exp(tilt[slot, card]) for card, n in on.items()}
            prob *= weights[hand[slot]] / sum(weights.values())
        found[hand] = prob
    return found
