"""A game's life as pure functions: (game, event) -> (game, what to do). No clock, no I/O, no JAX.

    ACTIVE --last move--> DONE (finished)        ACTIVE --left--> DONE (left)

Whoever holds games (the local server, the terminal, later the store of a challenge) does what the
effects say, in their order. A game is its deal and its moves: everything else is replayed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

Status = Literal["active", "done"]
EndReason = Literal["", "finished", "left"]


class RefusedError(ValueError):
    """An event that the game does not allow; it changed nothing. The text may be shown."""


@dataclasses.dataclass(frozen=True)
class Game:
    """One game, whole. `people` are the seats of persons, the others are partners'."""

    game_id: int
    rules: Rules
    deck: tuple[int, ...]  # card ids, top first; hidden from who plays
    people: frozenset[int]
    moves: tuple[int, ...] = ()  # the mover's action ids
    status: Status = "active"
    end_reason: EndReason = ""
    previous_games: tuple[Game, ...] = ()
    """The games that the same persons played with the same partners before it, in order, where it
    is one of a series; none of them has any itself. What partners know of persons follows."""

    @property
    def turn(self) -> int:
        """Moves made, which is also the number of the next one."""
        return len(self.moves)

    @property
    def current_player(self) -> int | None:
        """The seat whose turn it is; None once the game is done."""
        return None if self.status == "done" else self.turn % self.rules.num_players

    @property
    def series(self) -> tuple[Game, ...]:
        """What a game that follows has before it: these games, where moves were made in them."""
        own = (dataclasses.replace(self, previous_games=()),) if self.moves else ()
        return (*self.previous_games, *own)

    def table(self) -> PythonGame:
        """The position, replayed from the deal."""
        table = PythonGame(self.rules, self.deck)
        for action in self.moves:
            table.apply(action)
        return table


@dataclasses.dataclass(frozen=True)
class MoveMade:
    """Seat `seat` makes move number `turn` (from 0)."""

    seat: int
    turn: int
    action: int


@dataclasses.dataclass(frozen=True)
class PlayerLeft:
    """The persons leave: the game stops where it is."""


Event = MoveMade | PlayerLeft


@dataclasses.dataclass(frozen=True)
class Effects:
    """What follows from an event, in this order: write it down, show it, then ask the partner."""

    record: bool = False  # the journal of the game must hold it before anything is shown
    finish: bool = False  # the game is done: keep it as a finished (or unfinished) game, once
    ask: int | None = None  # the seat of the partner that moves next


def begin(game: Game) -> Effects:
    """What a new game, or one read back from its journal, needs first."""
    return Effects(record=True, ask=_partner_to_move(game))


def advance(game: Game, event: Event, table: PythonGame | None = None) -> tuple[Game, Effects]:
    """The game after the event, and what to do. Raises RefusedError, which names no hidden card.

    Who keeps the game's `table` hands it in, and a move is made on it too; else it is replayed.
    """
    if game.status == "done":
        raise RefusedError("the game is over")
    if isinstance(event, PlayerLeft):
        left = dataclasses.replace(game, status="done", end_reason="left")
        return left, Effects(record=True, finish=True)
    if event.turn != game.turn:
        raise RefusedError(f"move {event.turn + 1} was sent, but the next is move {game.turn + 1}")
    if event.seat != game.current_player:
        raise RefusedError("it is another player's turn")
    table = game.table() if table is None else table
    reason = table.illegal_reason(event.action)
    if reason is not None:
        raise RefusedError(reason)
    table.apply(event.action)
    after = dataclasses.replace(game, moves=(*game.moves, event.action))
    if table.over:
        after = dataclasses.replace(after, status="done", end_reason="finished")
        return after, Effects(record=True, finish=True)
    return after, Effects(record=True, ask=_partner_to_move(after))


def _partner_to_move(game: Game) -> int | None:
    return None if game.current_player in game.people else game.current_player
