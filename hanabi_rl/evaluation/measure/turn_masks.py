"""Masks of the turns that measures count."""

from __future__ import annotations

import dataclasses

import numpy as np

from hanabi_rl.data.games import Games


def counted_turn_mask(games: Games) -> np.ndarray:
    """Turns before a game's end, bool[N, T]; only those of `human_seats` if the games have them."""
    counted: np.ndarray = games.actions != games.rules.noop
    if games.human_seats is None:
        return counted
    return counted & games.human_seats[:, current_players(games)]


def current_players(games: Games) -> np.ndarray:
    """Seat of the current player at each turn, int[T]."""
    return np.arange(games.actions.shape[1]) % games.rules.num_players


def with_counted_seats(games: Games, seats: np.ndarray) -> Games:
    """The same games, with counted `seats`, bool[P] or bool[N, P]."""
    shape = (len(games), games.rules.num_players)
    return dataclasses.replace(games, human_seats=np.broadcast_to(seats, shape))
