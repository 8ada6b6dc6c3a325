"""The decks that games are played on. Each purpose has a space of seeds of its own, so that the
decks a model is cloned from or chosen on can never be those it is reported on."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import full_deck

_STREAMS = {"selection": 1, "report": 2, "kl": 3, "demos": 4, "people": 5, "situations": 6}
Purpose = Literal["selection", "report", "kl", "demos", "people", "situations"]


def evaluation_decks(
    rules: Rules, num_games: int, seed: int, purpose: Purpose = "report"
) -> np.ndarray:
    """Shuffled decks uint8[num_games, deck_size], a function of (purpose, seed) and the deck's
    index alone.

    A longer set begins with the shorter one. Raises ValueError for an unknown purpose or fewer than
    one game.
    """
    if purpose not in _STREAMS:
        raise ValueError(f"expected purpose to be one of {sorted(_STREAMS)}, got {purpose!r}")
    if num_games < 1:
        raise ValueError(f"expected at least one game, got num_games={num_games}")
    ordered = np.array(full_deck(rules), np.uint8)
    rng = np.random.default_rng([_STREAMS[purpose], seed])
    return rng.permuted(np.tile(ordered, (num_games, 1)), axis=1)
