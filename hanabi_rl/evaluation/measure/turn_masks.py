"""Which turns of recorded games a measure counts."""

from __future__ import annotations

import dataclasses

import numpy as np

from hanabi_rl.data.games import Games


def counted_turn_mask(games: Games) -> np.ndarray:
    """bool[N, T]: the turns before a game's end; only those of the `human_seats` where the games
    name them."""
    counted: np.ndarray = games.actions != games.rules.noop
    if games.human_seats is None:
        return counted
    return counted & games.human_seats[:, current_players(games)]


def current_players(games: Games) -> np.ndarray:
    """int[T]: the seat whose turn it is."""
    return np.arange(games.actions.shape[1]) % games.rules.num_players


def with_counted_seats(games: Games, seats: np.ndarray) -> Games:
    """The same games with `seats` (bool[P] or bool[N, P]) the ones that measures count."""
    shape = (len(games), games.rules.num_players)
    return dataclasses.replace(games, human_seats=np.broadcast_to(seats, shape))
