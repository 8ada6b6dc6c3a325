"""Entries of an observation that suffice for the first layer of a network.

Terrain never changes, and a channel is 0 in most cells; a player's place is the sum of its
directions, and a lying soup is in two channels. `fold_kernel` maps the kernel of a dense layer on
the flat observation to one on the remaining entries, a fifth to an eighth of them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.features import NAMED
from hanabi_rl.games.overcooked.kitchens import Kitchen, Place
from hanabi_rl.games.overcooked.state import FULL

_SOUP, _READY = NAMED["onions in a soup"], NAMED["ready soup"]
_THINGS = [_READY, NAMED["dish"], NAMED["onion"]]
_IN_POT = [_SOUP, NAMED["onions in a pot that does not cook yet"]]
_IN_POT += [NAMED["steps until a soup is ready"], _READY]
_TERRAIN = {
    kitchens.POT: NAMED["pot"],
    kitchens.COUNTER: NAMED["counter"],
    kitchens.ONIONS: NAMED["onion dispenser"],
    kitchens.DISHES: NAMED["dish dispenser"],
    kitchens.SERVING: NAMED["serving place"],
}
_EVERYWHERE = slice(NAMED["last steps"], None)
"""Channels that are equal in all cells, those of the last action included."""


def sufficient_entries(kitchen: Kitchen, channels: int) -> np.ndarray:
    """Entries int32 [K] of the flat observation, in the order of `fold_kernel`."""
    entries = np.arange(kitchen.height * kitchen.width * channels).reshape(-1, channels)
    floor = [*range(2, 10), *_THINGS]
    parts = [
        entries[_cells(kitchen, kitchen.floor)][:, floor],
        entries[_cells(kitchen, kitchen.counters)][:, _THINGS],
        entries[_cells(kitchen, kitchen.pots)][:, _IN_POT],
        entries[0, _EVERYWHERE],
    ]
    return np.concatenate([part.ravel() for part in parts])


def fold_kernel(kitchen: Kitchen, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Kernel float32 [H * W * C, F] of the flat observation -> kernel [K, F] of
    `sufficient_entries` and bias [F] of the terrain, which give the same outputs."""
    width = kernel.shape[-1]
    cells = kernel.reshape(kitchen.height * kitchen.width, -1, width)

    def things(at: jax.Array) -> list[jax.Array]:
        soup = at[:, _READY] + FULL * at[:, _SOUP]
        return [soup[:, None], *(at[:, [thing]] for thing in _THINGS[1:])]

    floor, counters, pots = (
        cells[_cells(kitchen, places)] for places in (kitchen.floor, kitchen.counters, kitchen.pots)
    )
    directions = [floor[:, 2 + 4 * p : 6 + 4 * p] + floor[:, [p]] for p in range(2)]
    parts = [
        jnp.concatenate([*directions, *things(floor)], axis=1),
        jnp.concatenate(things(counters), axis=1),
        pots[:, np.array(_IN_POT)],
        cells[:, _EVERYWHERE].sum(axis=0),
    ]
    terrain = np.zeros(cells.shape[:2], np.float32)
    for letter, channel in _TERRAIN.items():
        terrain[_cells(kitchen, kitchen.places(letter)), channel] = 1
    bias = jnp.tensordot(terrain, cells, 2, precision="highest")
    return jnp.concatenate([part.reshape(-1, width) for part in parts]), bias


def _cells(kitchen: Kitchen, places: tuple[Place, ...]) -> np.ndarray:
    """Numbers of cells in the grid, row by row."""
    return np.array([y * kitchen.width + x for x, y in places], np.int32)
