"""Conversion of a batched state to a `PythonGame`."""

from __future__ import annotations

import numpy as np

from hanabi_rl.games.hanabi.bits import unpack_deck
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules


def to_python_game(rules: Rules, game: State) -> PythonGame:
    """Convert one game (leaves without the leading axis, concrete) to a `PythonGame` that can
    explain its next move.

    It omits hints, discards, and which of several copies of a card a player holds.
    """
    table = PythonGame(rules, np.asarray(unpack_deck(game.deck, rules.deck_size)))
    table.drawn = rules.deck_size - int(game.deck_left)
    unheld = list(range(table.drawn))
    for seat, hand in enumerate(np.asarray(game.hands)):
        table.hands[seat] = []
        for card in (int(word).bit_length() - 1 for word in hand if word):
            order = next(order for order in unheld if table.deck[order] == card)
            unheld.remove(order)
            table.hands[seat].append(order)
    fireworks = int(game.fireworks)
    table.fireworks = [(fireworks & cards).bit_count() for cards in rules.color_cards]
    table.info_tokens, table.life_tokens, table.turn = (
        int(game.info_tokens),
        int(game.life_tokens),
        int(game.turn),
    )
    last_round = int(game.last_round)
    table.turns_left = rules.num_players + 1 - last_round if last_round else None
    return table
