"""Entries of an observation that suffice for the first layer of a network.

Terrain never changes, and most channels are 0 in most cells; a player's place is the sum of its
directions, and a soup outside pots is in two channels. `fold_kernel` maps the kernel of a dense
layer on flat observations to one on the remaining entries.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.features import NAMED
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.state import FULL

_SOUP, _READY = NAMED["onions in a soup"], NAMED["ready soup"]
_THINGS = np.array([_READY, NAMED["dish"], NAMED["onion"]])
_WAITS, _COOKS = "onions in a pot that does not cook yet", "steps until a soup is ready"
_IN_POT = np.array([_SOUP, _READY, NAMED[_WAITS], NAMED[_COOKS]])
_EVERYWHERE = slice(NAMED["last steps"], None)
"""Channels that are equal in all cells, those of the last action included."""
_TERRAIN = {
    kitchens.POT: "pot",
    kitchens.COUNTER: "counter",
    kitchens.ONIONS: "onion dispenser",
    kitchens.DISHES: "dish dispenser",
    kitchens.SERVING: "serving place",
}


def sufficient_entries(kitchen: Kitchen, channels: int) -> np.ndarray:
    """Entries [K] of the flat observation, in the order of `fold_kernel`."""
    entries = np.arange(kitchen.height * kitchen.width * channels).reshape(-1, channels)
    floor, counters, pots = _changing(kitchen, entries)
    parts = [floor[:, [*range(2, 10), *_THINGS]], counters[:, _THINGS], pots[:, _IN_POT]]
    return np.concatenate([part.ravel() for part in [*parts, entries[0, _EVERYWHERE]]])


def fold_kernel(kitchen: Kitchen, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Kernel float32 [H * W * C, F] of the flat observation -> kernel [K, F] of
    `sufficient_entries` and bias [F] of the terrain, which give the same outputs."""
    width = kernel.shape[-1]
    cells = jnp.asarray(kernel).reshape(kitchen.height * kitchen.width, -1, width)
    pots = _changing(kitchen, cells)[2]
    soups = cells.at[:, _READY].add(FULL * cells[:, _SOUP])
    floor, counters, _ = _changing(kitchen, soups)
    directions = [floor[:, 2:6] + floor[:, :1], floor[:, 6:10] + floor[:, 1:2]]
    parts = [
        jnp.concatenate([*directions, floor[:, _THINGS]], axis=1),
        counters[:, _THINGS],
        pots[:, _IN_POT],
        cells[:, _EVERYWHERE].sum(axis=0),
    ]
    letters = np.array([*"".join(kitchen.rows)])
    terrain = np.zeros(cells.shape[:2], np.float32)
    for letter, name in _TERRAIN.items():
        terrain[letters == letter, NAMED[name]] = 1
    bias = jnp.tensordot(terrain, cells, 2, precision="highest")
    return jnp.concatenate([part.reshape(-1, width) for part in parts]), bias


def _changing(kitchen: Kitchen, cells: Any) -> list[Any]:
    """Of cells [H * W, ...], the floor, the counters within reach, and the pots."""
    return [
        cells[np.array([y * kitchen.width + x for x, y in places])]
        for places in (kitchen.floor, kitchen.counters, kitchen.pots)
    ]
