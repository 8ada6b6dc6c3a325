"""`State`: a batch of games of 16 bytes each, and `Scene`: one game in plain numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.overcooked.kitchens import Kitchen, Place
from hanabi_rl.games.overcooked.transitions import POSE_BITS, POT_BITS, UP

NOTHING, ONION, DISH, SOUP = range(4)
"""Things that a hand or a counter holds."""
THING_NAMES = ("nothing", "onion", "dish", "soup")

COOK_TIME = 20
"""Steps from the third onion until the soup is ready."""
FULL = 3
"""Content of a pot at its third onion; fewer onions are 0 to 2."""
READY = FULL + COOK_TIME
"""Content of a pot with a ready soup; between `FULL` and it, each step adds 1."""

PLAYER_BITS = POSE_BITS + 2
SOUPS_SHIFT = 2 * PLAYER_BITS
STEP_SHIFT = 4 * POT_BITS
MAX_STEPS = (1 << (32 - STEP_SHIFT)) - 1
"""Largest horizon: steps are counted in 12 bits."""


class State(struct.PyTreeNode):
    """``N`` games in progress. Every leaf is uint32[N]: the axis of games is first and last at
    once, so that a step runs along the games and the state can still be sharded and indexed.

    The properties and `Scene` read the words; `pack_scenes` writes them.
    """

    players: jax.Array
    """Player p at bits 10 p: direction (2 bits), cell number (6), thing in hand (2). From bit 20:
    soups served."""
    pots: jax.Array
    """Content of pot k (0 to 2 onions, 3 + steps cooked) at bits 5 k. From bit 20: steps made."""
    counters_low: jax.Array
    """Bit c: low bit of the thing on counter c."""
    counters_high: jax.Array
    """Bit c: high bit of the thing on counter c."""

    @property
    def poses(self) -> jax.Array:
        """uint32[N, P]: cell number times 4 plus direction."""
        return self._of_players(0, (1 << POSE_BITS) - 1)

    @property
    def cells(self) -> jax.Array:
        """uint32[N, P]: number of each player's cell in `Kitchen.floor`."""
        return self.poses >> 2

    @property
    def directions(self) -> jax.Array:
        """uint32[N, P]: 0 up, 1 down, 2 right, 3 left."""
        return self.poses & 3

    @property
    def hands(self) -> jax.Array:
        """uint32[N, P]: thing in each player's hands."""
        return self._of_players(POSE_BITS, 3)

    @property
    def steps(self) -> jax.Array:
        """int32[N]: steps made."""
        return (self.pots >> STEP_SHIFT).astype(jnp.int32)

    @property
    def soups(self) -> jax.Array:
        """int32[N]: soups served."""
        return (self.players >> SOUPS_SHIFT).astype(jnp.int32)

    def pot_contents(self, kitchen: Kitchen) -> jax.Array:
        """uint32[N, K]: content of each pot of `Kitchen.pots`."""
        shifts = POT_BITS * jnp.arange(len(kitchen.pots), dtype=jnp.uint32)
        return self.pots[:, None] >> shifts & ((1 << POT_BITS) - 1)

    def things(self, kitchen: Kitchen) -> jax.Array:
        """uint32[N, C]: thing on each counter of `Kitchen.counters`."""
        places = jnp.arange(len(kitchen.counters), dtype=jnp.uint32)
        low, high = (
            word[:, None] >> places & 1 for word in (self.counters_low, self.counters_high)
        )
        return low | high << 1

    def _of_players(self, shift: int, mask: int) -> jax.Array:
        words = [self.players >> (shift + PLAYER_BITS * player) & mask for player in range(2)]
        return jnp.stack(words, axis=-1)


def swap_players(state: State) -> State:
    """Return the games with the players' names exchanged: seat 0 stands where seat 1 stood.

    Observations exchange their seats. The game is symmetric in the names but for one rule: player
    0's interact comes first.
    """
    one = (1 << PLAYER_BITS) - 1
    first, second = state.players & one, state.players >> PLAYER_BITS & one
    soups = state.players >> SOUPS_SHIFT << SOUPS_SHIFT
    return state.replace(players=second | first << PLAYER_BITS | soups)


@dataclasses.dataclass(frozen=True)
class Scene:
    """One game at one moment."""

    places: tuple[Place, Place]
    """Cell of player 0 and of player 1."""
    directions: tuple[int, int] = (UP, UP)
    """Direction of each player: 0 up, 1 down, 2 right, 3 left."""
    hands: tuple[int, int] = (NOTHING, NOTHING)
    """Thing in each player's hands."""
    pots: Mapping[Place, int] = dataclasses.field(default_factory=dict)
    """Content of pots that are not empty: 1 or 2 onions, 3 + steps cooked; 23 is ready."""
    counters: Mapping[Place, int] = dataclasses.field(default_factory=dict)
    """Things on counters."""
    step: int = 0
    """Steps made."""
    soups: int = 0
    """Soups served."""


def start_scene(kitchen: Kitchen, source: str | None = None) -> Scene:
    """Return the start of a game, see `Kitchen.start`."""
    return Scene(kitchen.start(source))


def pack_scenes(kitchen: Kitchen, scenes: Sequence[Scene]) -> State:
    """Return games at the given moments, as NumPy arrays uint32[N].

    Raises:
        ValueError: a scene that the kitchen cannot be in.
    """
    words = [_pack(kitchen, scene) for scene in scenes]
    return State(*np.array(words, np.uint32).reshape(-1, 4).T.copy())


def unpack_scene(kitchen: Kitchen, state: State, game: int = 0) -> Scene:
    """Return one game of a batch in plain numbers."""
    words = state.players, state.pots, state.counters_low, state.counters_high
    players, pots, low, high = (int(np.asarray(word)[game]) for word in words)
    poses = [players >> PLAYER_BITS * player & 255 for player in range(2)]
    places = [kitchen.floor[pose >> 2] for pose in poses]
    contents = [pots >> POT_BITS * pot & 31 for pot in range(len(kitchen.pots))]
    things = [(low >> c & 1) | (high >> c & 1) << 1 for c in range(len(kitchen.counters))]
    return Scene(
        places=(places[0], places[1]),
        directions=(poses[0] & 3, poses[1] & 3),
        hands=(players >> POSE_BITS & 3, players >> (PLAYER_BITS + POSE_BITS) & 3),
        pots={
            place: content for place, content in zip(kitchen.pots, contents, strict=True) if content
        },
        counters={
            place: thing for place, thing in zip(kitchen.counters, things, strict=True) if thing
        },
        step=pots >> STEP_SHIFT,
        soups=players >> SOUPS_SHIFT,
    )


def _pack(kitchen: Kitchen, scene: Scene) -> tuple[int, int, int, int]:
    if len(set(scene.places)) != 2:
        raise ValueError(f"places: expected two different cells, got {scene.places}")
    players = scene.soups << SOUPS_SHIFT
    for player, place in enumerate(scene.places):
        cell = _number("places", kitchen.floor, place)
        direction = _in_range("directions", scene.directions[player], 3)
        hand = _in_range("hands", scene.hands[player], SOUP)
        players |= (cell << 2 | direction | hand << POSE_BITS) << PLAYER_BITS * player
    pots = _in_range("step", scene.step, MAX_STEPS) << STEP_SHIFT
    for place, content in scene.pots.items():
        number = _number("pots", kitchen.pots, place)
        pots |= _in_range("pots", content, READY) << POT_BITS * number
    low = high = 0
    for place, thing in scene.counters.items():
        number = _number("counters", kitchen.counters, place)
        _in_range("counters", thing, SOUP)
        low |= (thing & 1) << number
        high |= (thing >> 1) << number
    return players, pots, low, high


def _number(what: str, places: tuple[Place, ...], place: Place) -> int:
    if tuple(place) not in places:
        raise ValueError(f"{what}: expected one of {places}, got {place}")
    return places.index((place[0], place[1]))


def _in_range(what: str, value: int, limit: int) -> int:
    if not 0 <= value <= limit:
        raise ValueError(f"{what}: expected 0 to {limit}, got {value}")
    return int(value)
