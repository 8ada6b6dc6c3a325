"""Transition table of a kitchen: cell, direction and action to the next cell and the thing faced.

One table look-up per player replaces the geometry of a step. The table holds words:

- bits 0 to 7: next *pose* (cell number times 4 plus direction), other player ignored;
- bits 8 to 12: the thing that an interact reaches, one bit per kind (`COUNTER_BIT` ...);
- bits 13 to 17: where its content is stored: the number of a counter, the bit offset of a pot.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.kitchens import Kitchen

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
"""Actions, numbered as in overcooked-ai and jaxmarl; the first four are also directions."""
NUM_ACTIONS = 6
ACTION_NAMES = ("up", "down", "right", "left", "stay", "interact")
OFFSETS = ((0, -1), (0, 1), (1, 0), (-1, 0))
"""(dx, dy) of each direction; y grows downwards."""

POSE_BITS = 8
COUNTER_BIT, ONIONS_BIT, DISHES_BIT, POT_BIT, SERVING_BIT = range(POSE_BITS, POSE_BITS + 5)
CONTENT_SHIFT = 13
POT_BITS = 5
"""Bits of one pot's content in `State.pots`."""

_BITS = {
    kitchens.COUNTER: COUNTER_BIT,
    kitchens.ONIONS: ONIONS_BIT,
    kitchens.DISHES: DISHES_BIT,
    kitchens.POT: POT_BIT,
    kitchens.SERVING: SERVING_BIT,
}


@lru_cache(maxsize=64)
def transition_table(kitchen: Kitchen) -> np.ndarray:
    """Table uint32[8 * 256] of a kitchen, at ``action << 8 | pose``; actions 6 and 7 are stay."""
    table = np.zeros((8, 1 << POSE_BITS), np.uint32)
    cells = {place: number for number, place in enumerate(kitchen.floor)}
    for place, cell in cells.items():
        for direction in range(4):
            pose = cell << 2 | direction
            for action in range(8):
                table[action, pose] = pose
            for move in range(4):
                target = cells.get(_next(place, move), cell)
                table[move, pose] = target << 2 | move
            table[INTERACT, pose] |= _reached(kitchen, _next(place, direction))
    return table.reshape(-1)


def _next(place: kitchens.Place, direction: int) -> kitchens.Place:
    dx, dy = OFFSETS[direction]
    return place[0] + dx, place[1] + dy


def _reached(kitchen: Kitchen, place: kitchens.Place) -> int:
    """Bits 8 to 17 for an interact with the cell at `place`."""
    letter = kitchen.letter(place)
    if letter == kitchens.FLOOR:
        return 0
    content = 0
    if letter == kitchens.COUNTER:
        content = kitchen.counters.index(place)
    elif letter == kitchens.POT:
        content = POT_BITS * kitchen.pots.index(place)
    return 1 << _BITS[letter] | content << CONTENT_SHIFT
