"""Features of an observation: where the nearest things lie, what both players hold and face.

They carry what Carroll et al. (2019) gave their clones and generalise from few games, where a
network on cells has to learn every place on its own.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hanabi_rl.games.overcooked.observation import CHANNELS, NUM_CHANNELS
from hanabi_rl.games.overcooked.state import FULL, READY

NAMED = {name: number for number, name in enumerate(CHANNELS)}
THINGS = (
    "onion dispenser",
    "dish dispenser",
    "serving place",
    "onion",
    "dish",
    "soup",
    "empty pot",
    "pot with room",
    "cooking pot",
    "ready pot",
    "free counter",
)
"""Things whose nearest place is a feature; onion, dish and soup lie on counters."""
_FACED = ("pot", "counter", "onion dispenser", "dish dispenser", "serving place")
_FAR = 1 << 12


def distance_features(obs: jax.Array) -> jax.Array:
    """Features float32 [..., F] of observations [..., H, W, C], see `observation.observe`; channels
    beyond its 26, the own last action, are read at one cell.

    Per player: direction, hand, place, kinds of the cells around it, and for each of `THINGS`
    whether it exists and the offset (dy, dx) to the nearest by steps without walls; then the pots'
    contents, the other player's offset and the last steps. Distances are in cells / 4.
    """
    height, width = obs.shape[-3:-1]
    x = obs.astype(jnp.int32)

    def plane(name: str) -> jax.Array:
        """int32 [..., H * W]."""
        return x[..., NAMED[name]].reshape(*x.shape[:-3], height * width)

    cell = jnp.arange(height * width)
    row, column = cell // width, cell % width
    players = [plane("own place"), plane("partner's place")]
    standing = players[0] + players[1] > 0
    pot, in_pot = plane("pot") > 0, plane("onions in a pot that does not cook yet")
    cooks = pot & (plane("onions in a soup") > 0)
    ready = pot & (plane("ready soup") > 0)
    counter = plane("counter") > 0
    held = {
        name: plane(key) > 0
        for name, key in (("onion", "onion"), ("dish", "dish"), ("soup", "ready soup"))
    }
    lying = {name: where & counter for name, where in held.items()}
    places = {
        "onion dispenser": plane("onion dispenser") > 0,
        "dish dispenser": plane("dish dispenser") > 0,
        "serving place": plane("serving place") > 0,
        **lying,
        "empty pot": pot & (in_pot == 0) & ~cooks,
        "pot with room": pot & (in_pot > 0) & ~cooks,
        "cooking pot": cooks & ~ready,
        "ready pot": ready,
        "free counter": counter & ~(lying["onion"] | lying["dish"] | lying["soup"]),
    }
    things = jnp.stack([places[name] for name in THINGS], axis=-2)  # [..., K, cells]
    kinds = jnp.stack([plane(name) > 0 for name in _FACED] + [standing], axis=-2)

    found = []
    own = jnp.argmax(players[0], axis=-1)
    for player, here in enumerate(players):
        at = jnp.argmax(here, axis=-1)[..., None]
        label = ("own", "partner's")[player]
        dy, dx = row - at // width, column - at % width
        steps = jnp.abs(dy) + jnp.abs(dx)
        coded = jnp.where(things, (steps * _FAR + cell)[..., None, :], _FAR * _FAR)
        nearest = coded.min(axis=-1)
        exists = nearest < _FAR * _FAR
        target = nearest % _FAR
        offsets = [
            jnp.where(exists, part, 0) / 4
            for part in (target // width - at // width, target % width - at % width)
        ]
        around = [
            jnp.where(((dy == y) & (dx == x_))[..., None, :] & kinds, 1, 0).sum(axis=-1)
            for x_, y in ((0, -1), (0, 1), (1, 0), (-1, 0))
        ]
        hands = [jnp.where(here > 0, where, 0).sum(axis=-1)[..., None] for where in held.values()]
        turned = [
            plane(f"{label} direction {name}").max(axis=-1)[..., None]
            for name in ("up", "down", "right", "left")
        ]
        found += [exists, *offsets, *around, *hands, *turned, at // width / 4, at % width / 4]
    partner = jnp.argmax(players[1], axis=-1)
    apart = [(partner // width - own // width) / 4, (partner % width - own % width) / 4]
    onions = jnp.where(pot, in_pot, 0).max(axis=-1) / FULL
    left = jnp.where(cooks, plane("steps until a soup is ready"), 0).max(axis=-1) / (READY - FULL)
    last = plane("last steps").max(axis=-1)
    found += [part[..., None] for part in (*apart, onions, left, last)]
    found.append(x[..., 0, 0, NUM_CHANNELS:])
    return jnp.concatenate([jnp.asarray(part, jnp.float32) for part in found], axis=-1)
