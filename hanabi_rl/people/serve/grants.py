"""Records of the store: keys, leased games, and moves written under a lease."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from hanabi_rl.people.serve.keys import Kind
from hanabi_rl.play.lineups import Lineup

Status = Literal["todo", "active", "done"]


class StaleLeaseError(RuntimeError):
    """A write under a lease that has ended: another connection may have the game."""


@dataclasses.dataclass(frozen=True)
class Key:
    """Key for games."""

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
    """Moves made before an interruption."""

    @property
    def ref(self) -> tuple[int, int]:
        """(game, lease), the store's primary key of a lease."""
        return self.game_id, self.lease_id


@dataclasses.dataclass(frozen=True)
class MoveWrite:
    """Moves of one game, to write under its lease."""

    lease: GameLease
    turn: int
    """Number of the first move."""
    actions: tuple[int, ...]
    end: tuple[int, int] | None = None
    """(score, points) if the last move ends the game."""


class GameStatus(NamedTuple):
    """Public status of one game of a key."""

    num_players: int
    lineup: Lineup
    status: Status
    score: int | None
    points: int | None
    interruptions: int


@dataclasses.dataclass(frozen=True)
class KeyLimits:
    """Limits of a key and its games."""

    leases: int = 6
    """Maximum concurrent games of one key."""
    interruptions: int = 20
    """Interruptions after which a game is forfeited with a score of 0."""
    game_s: float = 7 * 86400.0
    """Seconds from the first lease after which an idle game is forfeited."""
    key_s: float = 60 * 86400.0
    """Validity of a key in seconds."""
