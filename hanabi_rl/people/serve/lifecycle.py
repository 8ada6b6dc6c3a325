"""Life cycle of a game as pure functions: (game, event) -> (game, effects). No I/O, no JAX.

    ACTIVE --last move--> DONE (finished)        ACTIVE --left--> DONE (left)

The caller (web server, terminal) carries out the effects in order. A game is its deal and its
moves; everything else is replayed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

Status = Literal["active", "done"]
EndReason = Literal["", "finished", "left"]


class RefusedError(ValueError):
    """An event that the game does not allow and that changed nothing. The text may be shown."""


@dataclasses.dataclass(frozen=True)
class Game:
    """One complete game. people: seats of persons; partners hold the others."""

    game_id: int
    rules: Rules
    deck: tuple[int, ...]  # card ids, top first; hidden from the players
    people: frozenset[int]
    moves: tuple[int, ...] = ()  # action ids of the current players
    status: Status = "active"
    end_reason: EndReason = ""
    previous_games: tuple[Game, ...] = ()
    """Previous games of the same persons and partners in this series, in order, each without
    previous games. The partners' memory of the persons follows from them."""

    @property
    def turn(self) -> int:
        """Number of moves made, and number of the next one."""
        return len(self.moves)

    @property
    def current_player(self) -> int | None:
        """Seat to move; None once the game is done."""
        return None if self.status == "done" else self.turn % self.rules.num_players

    @property
    def series(self) -> tuple[Game, ...]:
        """`previous_games` of the next game: these games, and this one if it has moves."""
        own = (dataclasses.replace(self, previous_games=()),) if self.moves else ()
        return (*self.previous_games, *own)

    @property
    def score(self) -> int:
        """Points scored."""
        return self.table().score

    def table(self) -> PythonGame:
        """Replay the position from the deal."""
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
    """The persons leave the game, which ends."""


Event = MoveMade | PlayerLeft


@dataclasses.dataclass(frozen=True)
class Effects:
    """Effects of an event, in order: save, show, then query the partner."""

    record: bool = False  # save the journal before anything is shown
    finish: bool = False  # the game is done: save it once, as finished or unfinished
    ask: int | None = None  # seat of the partner to move


def begin(game: Game) -> Effects:
    """Effects for a new game or one loaded from its journal."""
    return Effects(record=True, ask=_partner_to_move(game))


def advance(game: Game, event: Event, table: PythonGame | None = None) -> tuple[Game, Effects]:
    """Return the game after the event and its effects. Raises RefusedError, which reveals no hidden
    card.

    table: the game's position, on which the move is made as well; None: replay it.
    """
    if game.status == "done":
        raise RefusedError("the game is over")
    if isinstance(event, PlayerLeft):
        left = dataclasses.replace(game, status="done", end_reason="left")
        return left, Effects(record=True, finish=True)
    if event.turn != game.turn:
        raise RefusedError(f"expected move {game.turn + 1}, got move {event.turn + 1}")
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
