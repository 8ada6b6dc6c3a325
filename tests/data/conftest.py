"""Recorded games to test with: legal ones, made by the plain-Python table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hanabi_rl.data.games import Games
from hanabi_rl.data.layout import pad_moves
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck


def random_games(rules: Rules, num_games: int, seed: int = 0) -> Games:
    """Random legal games; every second one stops after 9 moves, unfinished, unless it is over by then."""
    rng = np.random.default_rng(seed)
    tables, moves = [], []
    for game in range(num_games):
        table, played = Table(rules, rng.permutation(full_deck(rules))), []
        while not table.over and (game % 2 == 0 or len(played) < 9):
            legal = [action for action in range(rules.num_moves) if table.illegal_reason(action) is None]
            played.append(int(rng.choice(legal)))
            table.apply(played[-1])
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return Games(
        rules=rules,
        decks=np.array([table.deck for table in tables], np.uint8),
        actions=pad_moves(rules, moves),
        num_actions=np.array([len(played) for played in moves], np.int32),
        scores=np.array([table.score for table in tables], np.int32),
        game_ids=np.arange(100, 100 + num_games, dtype=np.int32),
        unfinished=np.array([not table.over for table in tables]),
    )


@pytest.fixture(scope="session")
def make_games() -> Callable[..., Games]:
    """`make_games(rules, num_games, seed)`: see `random_games`."""
    return random_games
