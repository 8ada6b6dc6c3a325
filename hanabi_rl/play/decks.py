"""Decks by purpose: separate seeds keep training and selection decks out of evaluation."""

from __future__ import annotations

import functools
from typing import Literal, get_args

import numpy as np

from hanabi_rl.data.formats.hanab_live_decks import decks_from_seeds, parse_seed_names
from hanabi_rl.data.games import canonical_decks
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules

Purpose = Literal["selection", "report", "kl", "demos", "people", "situations", "held-out"]
# the position is part of the seed: append only
_STREAMS = {purpose: stream for stream, purpose in enumerate(get_args(Purpose), start=1)}


def evaluation_decks(
    rules: Rules, num_games: int, seed: int, purpose: Purpose = "report"
) -> np.ndarray:
    """Shuffled decks uint8[num_games, deck_size]; each depends only on purpose, seed and index. A
    longer set starts with the shorter one. Raises ValueError for an unknown purpose or no games."""
    if purpose not in _STREAMS:
        raise ValueError(f"expected purpose to be one of {sorted(_STREAMS)}, got {purpose!r}")
    if num_games < 1:
        raise ValueError(f"expected at least one game, got num_games={num_games}")
    ordered = np.array(full_deck(rules), np.uint8)
    rng = np.random.default_rng([_STREAMS[purpose], seed])
    return rng.permuted(np.tile(ordered, (num_games, 1)), axis=1)


@functools.lru_cache(maxsize=4)
def seed_decks(rules: Rules, seed_names: tuple[str, ...]) -> np.ndarray:
    """Decks of hanab.live seeds, uint8[N, deck_size], read-only.

    Args:
        seed_names: names and ranges of seeds, such as `p2v0s7` and `p2v0s1..200`.

    Raises:
        ValueError: as `parse_seed_names`; the deals are not of `rules`; two names are one deal.
    """
    names, dealt = parse_seed_names(seed_names)
    if dealt != rules:
        raise ValueError(
            f"--seed-names: expected deals of {rules.difference_from(dealt)}, which the agents "
            f"play, got {seed_names[0]!r}, of {dealt.difference_from(rules)} (--players sets the "
            "players of bots)"
        )
    decks = decks_from_seeds(names)
    known: dict[bytes, str] = {}
    for name, deck in zip(names, canonical_decks(rules, decks), strict=True):
        other = known.setdefault(deck.tobytes(), name)
        if other != name:
            raise ValueError(
                f"--seed-names: expected each deal once, got {other} and {name}, which are one deal"
            )
    decks.flags.writeable = False
    return decks
