"""What a store speaks of: keys, games that are leased, and the moves written under their leases."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from hanabi_rl.people.serve.keys import Kind
from hanabi_rl.play.lineups import Lineup

Status = Literal["todo", "active", "done"]


class StaleLeaseError(RuntimeError):
    """A write under a lease that has ended: another connection has the game, or nobody."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key that opens games."""

    key_id: int
    entry_id: int
    kind: Kind
    hint: str


@dataclasses.dataclass(frozen=True)
class GameLease:
    """One game, leased to one connection."""

    game_id: int
    lease_id: int
    num_players: int
    lineup: Lineup
    deck: tuple[int, ...]
    moves: tuple[int, ...]
    """Made before an interruption: they stand."""

    @property
    def ref(self) -> tuple[int, int]:
        """Game and lease, as the store keeps them."""
        return self.game_id, self.lease_id


@dataclasses.dataclass(frozen=True)
class MoveWrite:
    """Moves of one game, to be written under its lease."""

    lease: GameLease
    turn: int
    """Of the first of them."""
    actions: tuple[int, ...]
    end: tuple[int, int] | None = None
    """Score and points, where the last of them ends the game."""


class GameStatus(NamedTuple):
    """What a key's holder may know of one of its games."""

    num_players: int
    lineup: Lineup
    status: Status
    score: int | None
    points: int | None
    interruptions: int


@dataclasses.dataclass(frozen=True)
class KeyLimits:
    """What a key may do at a time, and how long a game waits for its player."""

    leases: int = 6
    """Games of one key in progress on connections at a time."""
    interruptions: int = 20
    """After so many a game is forfeited, with a score of 0 ..."""
    game_s: float = 7 * 86400.0
    """... and so many seconds after it was granted, unless somebody is playing it."""
    key_s: float = 60 * 86400.0
    """How long a key opens games."""
