"""Shortest paths of one player to every cell that an interact can reach."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hanabi_rl.games.overcooked.kitchens import FLOOR, Kitchen, Place
from hanabi_rl.games.overcooked.transitions import INTERACT, OFFSETS, POSE_BITS, transition_table

UNREACHABLE = 255
"""Steps to a place without a path."""


class Paths(NamedTuple):
    """Shortest paths in a kitchen of ``F`` floor cells, to ``K`` places. A pose is a cell's number
    times 4 plus the direction; the other player's cell ``F`` means that there is none."""

    places: tuple[Place, ...]
    """Counters, dispensers, pots and serving places next to the floor."""
    steps: np.ndarray
    """uint8[F + 1, 4 F, K], by the other player's cell and the pose: moves until the place is
    faced."""
    actions: np.ndarray
    """uint8[F + 1, 4 F, K]: first action of a shortest path; interact where the place is faced."""


@lru_cache(maxsize=64)
def shortest_paths(kitchen: Kitchen) -> Paths:
    """Return the shortest paths around a player that stands still."""
    cells = len(kitchen.floor)
    faced = [(x + dx, y + dy) for x, y in kitchen.floor for dx, dy in OFFSETS]  # by pose
    places = tuple(sorted({place for place in faced if kitchen.letter(place) != FLOOR}))
    table = transition_table(kitchen).reshape(8, -1)[:4, : 4 * cells] & ((1 << POSE_BITS) - 1)
    other, pose = np.arange(cells + 1)[:, None], np.arange(4 * cells)
    turned = pose & ~3 | np.arange(4)[:, None, None]
    blocked = (table[:, None] >> 2 == other) & (table[:, None] >> 2 != pose >> 2)
    after = np.where(blocked, turned, table[:, None]).astype(np.int64)  # [4, F + 1, 4 F]
    steps = np.full((cells + 1, 4 * cells, len(places)), UNREACHABLE, np.int64)
    for number, place in enumerate(faced):
        if place in places:
            steps[:, number, places.index(place)] = 0
    while True:
        by_action = np.stack([1 + steps[other, following] for following in after])
        found = np.minimum(steps, by_action.min(axis=0))
        if (found == steps).all():
            break
        steps = found
    actions = np.where(steps == 0, INTERACT, by_action.argmin(axis=0))
    return Paths(places, steps.astype(np.uint8), actions.astype(np.uint8))
