"""Knowledge of a seat in a `PythonGame`, and scripted partners of the unit tests.

In plain Python. Scripts read only what the current player may observe: of its own cards, hints and
counts. After Knott et al. 2021 (arXiv 2101.05507); the scripts are ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.cards import exhausted_cards, last_copies, next_cards, useless_cards
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck

Script = Callable[[PythonGame, np.random.Generator], int]
"""(game, random generator) -> action of the current player."""


def possible_cards(table: PythonGame, seat: int, slot: int) -> set[int]:
    """Card ids possible for a card in the hand of `seat`, by hints and all copies it sees."""
    ranks = table.rules.num_ranks
    known = table.knowledge[table.hands[seat][slot]]
    return {
        card
        for card in unseen_cards(table, seat)
        if card // ranks in known.colors and card % ranks in known.ranks
    }


def unseen_cards(table: PythonGame, seat: int) -> set[int]:
    """Card ids with a copy in the deck or in the hand of `seat`."""
    others = [order for player, hand in enumerate(table.hands) if player != seat for order in hand]
    left = full_deck(table.rules)
    for card in [table.deck[order] for order in [*others, *table.discards]] + _on_fireworks(table):
        left.remove(card)
    return set(left)


def is_playable(table: PythonGame, card: int) -> bool:
    """True if the card would score now."""
    return bool(next_cards(table.rules, table.played) >> card & 1)


def is_useless(table: PythonGame, card: int) -> bool:
    """True if the card can no longer score: already played, or above an exhausted card."""
    gone = exhausted_cards(table.rules, table.discard_planes)
    return bool(useless_cards(table.rules, table.played, gone) >> card & 1)


def is_critical(table: PythonGame, card: int) -> bool:
    """True for the last remaining copy of a card that can still score."""
    return bool(last_copies(table.rules, table.discard_planes) >> card & 1) and not is_useless(
        table, card
    )


def certain_slots(table: PythonGame, seat: int) -> list[int]:
    """Slots of `seat` with only playable possible cards."""
    return _slots(table, seat, lambda card: is_playable(table, card))


def useless_slots(table: PythonGame, seat: int) -> list[int]:
    """Slots of `seat` with only useless possible cards."""
    return _slots(table, seat, lambda card: is_useless(table, card))


def critical_slots(table: PythonGame, seat: int) -> list[int]:
    """Slots of `seat` with only critical possible cards."""
    return _slots(table, seat, lambda card: is_critical(table, card))


def impossible_slots(table: PythonGame, seat: int) -> list[int]:
    """Slots of `seat` with only unplayable possible cards."""
    return _slots(table, seat, lambda card: not is_playable(table, card))


def is_hinted(table: PythonGame, seat: int, slot: int) -> bool:
    """True if a hint touched the card."""
    return table.knowledge[table.hands[seat][slot]].hinted


def chop(table: PythonGame, seat: int) -> int:
    """Oldest unhinted slot; 0 if all are hinted."""
    size = len(table.hands[seat])
    return next((slot for slot in range(size) if not is_hinted(table, seat, slot)), 0)


def legal_actions(table: PythonGame) -> list[int]:
    """Legal actions of the current player."""
    return [a for a in range(table.rules.num_actions) if table.illegal_reason(a) is None]


def legal_hints(table: PythonGame) -> list[int]:
    """Legal hints of the current player."""
    rules = table.rules
    kinds = {action: decode_action(rules, action).kind for action in legal_actions(table)}
    return [action for action, kind in kinds.items() if kind in ("color", "rank")]


def discarder(table: PythonGame, rng: np.random.Generator) -> int:
    """Script: discard the chop; with all tokens available, give the first legal hint."""
    del rng
    if table.info_tokens == table.rules.max_info_tokens:
        return legal_hints(table)[0]
    return encode_action(table.rules, Move("discard", slot=chop(table, table.player)))


def player(table: PythonGame, rng: np.random.Generator) -> int:
    """Script: play a card that is certain to be playable, otherwise as `discarder`."""
    certain = certain_slots(table, table.player)
    if certain:
        return encode_action(table.rules, Move("play", slot=certain[0]))
    return discarder(table, rng)


def random_move(table: PythonGame, rng: np.random.Generator) -> int:
    """Script: a uniformly random legal move."""
    return int(rng.choice(legal_actions(table)))


def _slots(table: PythonGame, seat: int, holds: Callable[[int], bool]) -> list[int]:
    return [
        slot
        for slot in range(len(table.hands[seat]))
        if all(map(holds, possible_cards(table, seat, slot)))
    ]


def _on_fireworks(table: PythonGame) -> list[int]:
    ranks = table.rules.num_ranks
    return [
        color * ranks + rank
        for color, height in enumerate(table.fireworks)
        for rank in range(height)
    ]
