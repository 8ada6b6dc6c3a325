"""Action ids: discards, plays, colour hints, rank hints, then the no-op.

Only this module knows their order: `decode` and `encode` for arrays (NumPy or JAX, traced or not),
`decode_action` and `encode_action` for one move in plain Python, `action_slices` for masks over the
action axis. A hint names its target by the number of seats after the current player, from 1.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.rules import Rules


Kind = Literal["discard", "play", "color", "rank", "noop"]
KINDS: tuple[Kind, ...] = ("discard", "play", "color", "rank", "noop")


class Moves(NamedTuple):
    """Decoded action ids, every field [...], NumPy or JAX as the ids. An id out of range has no
    kind, like the no-op."""

    is_discard: Any  # bool
    is_play: Any
    is_color_hint: Any
    is_rank_hint: Any
    slot: Any  # uint32, for a discard or a play; otherwise 0
    offset: Any  # uint32, seats from the current player to a hint's target, 1 to P - 1; otherwise 0
    value: Any  # uint32, hinted colour or rank; otherwise 0

    @property
    def is_hint(self) -> Any:
        """bool[...]: a hint of either kind."""
        return self.is_color_hint | self.is_rank_hint


@functools.lru_cache(maxsize=64)
def action_slices(rules: Rules) -> MappingProxyType[Kind, slice]:
    """Slice of the action axis for each kind of move; hints are ordered by target, the nearest
    first."""
    others = rules.num_players - 1
    sizes = (
        rules.hand_size,
        rules.hand_size,
        others * rules.num_colors,
        others * rules.num_ranks,
        1,
    )
    ends = np.cumsum(sizes).tolist()
    return MappingProxyType(
        {kind: slice(end - size, end) for kind, size, end in zip(KINDS, sizes, ends, strict=True)}
    )


def decode(rules: Rules, action: Any) -> Moves:
    """Decode action ids [...] of any integer dtype."""
    xp = _namespace(action)
    action = xp.asarray(action).astype(np.int32)

    def index(kind: Kind) -> tuple[Any, Any]:
        """Mask of this kind, and the index within the kind (0 elsewhere)."""
        place = action_slices(rules)[kind]
        inside = (action >= place.start) & (action < place.stop)
        # unsigned: a division is one instruction
        return inside, xp.where(inside, action - place.start, 0).astype(np.uint32)

    is_discard, discarded = index("discard")
    is_play, played = index("play")
    is_color, color = index("color")
    is_rank, rank = index("rank")
    colors, ranks = np.uint32(rules.num_colors), np.uint32(rules.num_ranks)
    return Moves(
        is_discard=is_discard,
        is_play=is_play,
        is_color_hint=is_color,
        is_rank_hint=is_rank,
        slot=discarded | played,  # at least one is 0
        offset=color // colors + rank // ranks + (is_color | is_rank).astype(np.uint32),
        value=color % colors | rank % ranks,
    )


def encode(rules: Rules, moves: Moves) -> Any:
    """Encode moves as action ids int32[...], the no-op for moves without a kind; inverse of
    `decode`."""
    xp = _namespace(moves.is_play)
    slices = action_slices(rules)
    slot, value = moves.slot.astype(np.int32), moves.value.astype(np.int32)
    skipped = moves.offset.astype(np.int32) - 1
    action = xp.where(moves.is_discard, slices["discard"].start + slot, rules.noop)
    action = xp.where(moves.is_play, slices["play"].start + slot, action)
    color = slices["color"].start + skipped * rules.num_colors + value
    rank = slices["rank"].start + skipped * rules.num_ranks + value
    action = xp.where(moves.is_color_hint, color, action)
    return xp.where(moves.is_rank_hint, rank, action).astype(np.int32)


def _namespace(array: Any) -> Any:
    """`jax.numpy` for a JAX array, otherwise NumPy, without importing JAX (web workers do without
    it)."""
    jax = sys.modules.get("jax")
    return jax.numpy if jax is not None and isinstance(array, jax.Array) else np


@dataclasses.dataclass(frozen=True)
class Move:
    """One decoded move: `slot` of a play or discard, `offset` (seats after the current player) and
    `value` of a hint; -1 if not applicable."""

    kind: Kind
    slot: int = -1
    offset: int = -1
    value: int = -1


def decode_action(rules: Rules, action: int) -> Move:
    """Decode one action id. Raises ValueError if `action` is no id of this game."""
    if not 0 <= int(action) < rules.num_actions:
        raise ValueError(f"expected an action in 0..{rules.num_actions - 1}, got {int(action)}")
    return _all_moves(rules)[int(action)]


def encode_action(rules: Rules, move: Move) -> int:
    """Encode one move; inverse of `decode_action`. Raises ValueError if the game has no such
    move."""
    action = _all_ids(rules).get(move)
    if action is None:
        raise ValueError(f"expected a move of a game of {rules}, got {move}")
    return action


@functools.lru_cache(maxsize=64)
def _all_moves(rules: Rules) -> tuple[Move, ...]:
    moves = decode(rules, np.arange(rules.num_actions))
    slots, offsets, values = (field.tolist() for field in (moves.slot, moves.offset, moves.value))
    kinds = [k for k, ids in action_slices(rules).items() for _ in range(ids.start, ids.stop)]
    found = []
    for kind, slot, offset, value in zip(kinds, slots, offsets, values, strict=True):
        if kind in ("discard", "play"):
            found.append(Move(kind, slot=slot))
        else:
            found.append(Move(kind) if kind == "noop" else Move(kind, offset=offset, value=value))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _all_ids(rules: Rules) -> dict[Move, int]:
    return {move: action for action, move in enumerate(_all_moves(rules))}
