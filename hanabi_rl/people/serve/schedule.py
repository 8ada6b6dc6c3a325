"""Decks and lineups of a key's games, derived from a secret that is not in the database.

They are functions of (secret, key, players, position): the database reveals no future deck, keys
share no decks, and a lost store can be dealt again.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.lineups import Lineup, mixed_lineups


def deck_of(secret: bytes, key_id: int, rules: Rules, position: int) -> tuple[int, ...]:
    """Deck of game number `position` of a key: card ids, top first."""
    rng = _generator(secret, "deck", key_id, rules.num_players, position)
    return tuple(rng.permutation(np.array(full_deck(rules))).tolist())


def deal_lineups(
    secret: bytes, key_id: int, num_players: int, num_proxies: int, games: int
) -> list[Lineup]:
    """Assign lineups to a key's games, each equally often (plus or minus one), in an order unknown
    to the candidate.

    Raises ValueError for fewer games than lineups.
    """
    lineups = mixed_lineups(num_players, num_proxies)
    if games < len(lineups):
        raise ValueError(
            f"expected at least one game for each of the {len(lineups)} lineups of {num_players} "
            f"players, got {games}"
        )
    order = _generator(secret, "line-ups", key_id, num_players).permutation(games)
    return [lineups[place % len(lineups)] for place in order]


def _generator(secret: bytes, *what: str | int) -> np.random.Generator:
    message = "/".join(map(str, what)).encode()
    digest = hmac.new(secret, message, hashlib.sha256).digest()
    return np.random.default_rng(int.from_bytes(digest))
