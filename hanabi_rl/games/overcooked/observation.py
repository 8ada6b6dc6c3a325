"""Observation: overcooked-ai's 26 channels on the kitchen's grid, from each player's own view."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.batching import materialize, select_games
from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.kitchens import MAX_FLOOR, Kitchen
from hanabi_rl.games.overcooked.state import (
    DISH,
    FULL,
    NOTHING,
    ONION,
    READY,
    SOUP,
    State,
    swap_players,
)
from hanabi_rl.games.overcooked.transitions import POT_BITS

CHANNELS = (
    "own place",
    "partner's place",
    *(f"own direction {name}" for name in ("up", "down", "right", "left")),
    *(f"partner's direction {name}" for name in ("up", "down", "right", "left")),
    "pot",
    "counter",
    "onion dispenser",
    "tomato dispenser",
    "dish dispenser",
    "serving place",
    "onions in a pot that does not cook yet",
    "tomatoes in a pot",
    "onions in a soup",
    "tomatoes in a soup",
    "steps until a soup is ready",
    "ready soup",
    "dish",
    "onion",
    "tomato",
    "last steps",
)
"""Channels by number. Direction channels mark the player's place. There are no tomatoes: their
channels are 0."""
NUM_CHANNELS = len(CHANNELS)
LAST_STEPS = 40
"""The last channel is 1 when fewer steps than this are left."""


def observe(kitchen: Kitchen, state: State, horizon: int = 400) -> jax.Array:
    """Return both players' observations, uint8[N, P, H, W, 26]; values as in overcooked-ai's
    `lossless_state_encoding`, with the row of the grid before its column.

    Args:
        kitchen: the kitchen.
        state: games ``N``.
        horizon: steps of a game, for the last channel.
    """
    return jnp.moveaxis(observe_games_last(kitchen, state, horizon), -1, 0)


def observe_seat(kitchen: Kitchen, state: State, seat: jax.Array, horizon: int = 400) -> jax.Array:
    """Return the observation uint8[N, H, W, 26] of one player, `seat` int32[N], of each game: half
    the work of both players'."""
    own = select_games(seat == 0, state, swap_players(state))
    return jnp.moveaxis(observe_games_last(kitchen, own, horizon, players=1)[0], -1, 0)


def observe_games_last(
    kitchen: Kitchen,
    state: State,
    horizon: int = 400,
    *,
    clear_used_counters: bool = False,
    players: int = 2,
) -> jax.Array:
    """`observe` as uint8[P, H, W, 26, N], the order in which it is computed.

    Inside `jax.jit` moving the axis costs nothing until something needs the other order in memory,
    which takes longer than the observation itself.

    Args:
        kitchen: the kitchen.
        state: games ``N``.
        horizon: steps of a game.
        clear_used_counters: leave counters that hold a thing out of the channel of counters, as
            jaxmarl's v1 does.
        players: 1 for player 0 only.
    """
    (num_games,), num_cells = state.players.shape, kitchen.height * kitchen.width
    cells = jnp.arange(num_cells, dtype=jnp.uint8)[:, None]
    where = jnp.asarray(_grid_index(kitchen))
    poses, hands = state.poses, state.hands
    here, facing = [], []
    thing = _things_on_counters(kitchen, state)
    for player in range(2):
        # `materialize`: one look-up per game, not one per cell
        place = materialize(where.at[poses[:, player] >> 2].get(mode="promise_in_bounds"))
        here.append(place.astype(jnp.uint8) == cells)
        direction = (poses[:, player] & 3).astype(jnp.uint8)
        facing.append([here[player] & (direction == d) for d in range(4)])
        thing = jnp.where(here[player], hands[:, player].astype(jnp.uint8), thing)

    content = jnp.zeros((num_cells, num_games), jnp.uint8)
    for number, pot in enumerate(kitchen.pots):
        one = (state.pots >> POT_BITS * number & 31).astype(jnp.uint8)
        content = jnp.where(cells == _flat(kitchen, pot), one, content)

    nowhere = jnp.zeros((num_cells, num_games), jnp.uint8)
    soup, cooks = thing == SOUP, content >= FULL
    counter = _terrain(kitchen, kitchens.COUNTER)
    if clear_used_counters:
        counter = counter & (thing == NOTHING)
    shared = [
        _terrain(kitchen, kitchens.POT),
        counter,
        _terrain(kitchen, kitchens.ONIONS),
        nowhere,
        _terrain(kitchen, kitchens.DISHES),
        _terrain(kitchen, kitchens.SERVING),
        jnp.where(cooks, 0, content),
        nowhere,
        FULL * (soup | cooks).astype(jnp.uint8),
        nowhere,
        jnp.where(cooks, READY - content, 0),
        soup | (content == READY),
        thing == DISH,
        thing == ONION,
        nowhere,
        horizon - state.steps < LAST_STEPS,
    ]
    views = []
    for me, partner in ((0, 1), (1, 0))[:players]:
        planes = [here[me], here[partner], *facing[me], *facing[partner], *shared]
        views.append(
            jnp.stack([jnp.broadcast_to(p, nowhere.shape).astype(jnp.uint8) for p in planes], 1)
        )
    shape = players, kitchen.height, kitchen.width, NUM_CHANNELS, num_games
    return jnp.stack(views).reshape(shape)


def _flat(kitchen: Kitchen, place: kitchens.Place) -> int:
    return place[1] * kitchen.width + place[0]


def _grid_index(kitchen: Kitchen) -> np.ndarray:
    """Index in the grid of each floor cell, uint32[64]."""
    index = np.zeros(MAX_FLOOR, np.uint32)
    index[: len(kitchen.floor)] = [_flat(kitchen, place) for place in kitchen.floor]
    return index


def _terrain(kitchen: Kitchen, letter: str) -> jax.Array:
    """bool[cells, 1]: cells with this letter."""
    return jnp.asarray(np.array([cell == letter for row in kitchen.rows for cell in row])[:, None])


def _things_on_counters(kitchen: Kitchen, state: State) -> jax.Array:
    """uint8[cells, N]: the thing on each counter, 0 elsewhere."""
    places = [_flat(kitchen, place) for place in kitchen.counters]
    holds = np.zeros((kitchen.height * kitchen.width, 1), bool)
    shift = np.zeros(holds.shape, np.uint32)
    holds[places] = True
    shift[places, 0] = np.arange(len(places))
    low, high = (
        (w >> shift & 1).astype(jnp.uint8) for w in (state.counters_low, state.counters_high)
    )
    return jnp.where(holds, low | high << 1, 0)
