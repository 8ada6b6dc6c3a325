"""What a key's games are: their decks and who sits where, by a secret that no table holds.

Everything is a function of (secret, key, players, position), so that nobody who reads the store
learns a deck before it is dealt, no two keys share decks, and a lost store deals the same again.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.lineups import Lineup, mixed_lineups


def deck_of(secret: bytes, key_id: int, rules: Rules, position: int) -> tuple[int, ...]:
    """The deck of game number `position` of a key: card ids, top first."""
    rng = _generator(secret, "deck", key_id, rules.num_players, position)
    return tuple(rng.permutation(np.array(full_deck(rules))).tolist())


def deal_lineups(
    secret: bytes, key_id: int, num_players: int, num_proxies: int, games: int
) -> list[Lineup]:
    """Who sits where in each of a key's games: every line-up equally often (plus or minus one), in
    an order that the candidate cannot know.

    Raises ValueError for fewer games than line-ups.
    """
    lineups = mixed_lineups(num_players, num_proxies)
    if games < len(lineups):
        raise ValueError(
            f"expected a game for each of the {len(lineups)} line-ups of {num_players} players at "
            f"least, got {games}"
        )
    order = _generator(secret, "line-ups", key_id, num_players).permutation(games)
    return [lineups[place % len(lineups)] for place in order]


def _generator(secret: bytes, *what: str | int) -> np.random.Generator:
    message = "/".join(map(str, what)).encode()
    digest = hmac.new(secret, message, hashlib.sha256).digest()
    return np.random.default_rng(int.from_bytes(digest))
