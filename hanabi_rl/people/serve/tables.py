"""Games in progress, as pages and terminals play them: `GameTables`.

It does what the life cycle's effects say, in their order, and makes what may be shown. Where games
are kept and who the partners are is said by who holds the tables: `LocalPlay` for one person,
`StudyPlay` for a study. No JAX.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import (
    Effects,
    Event,
    Game,
    MoveMade,
    PlayerLeft,
    RefusedError,
    advance,
)
from hanabi_rl.people.serve.partner_protocol import PartnerAction
from hanabi_rl.people.serve.player_view import player_view, spectator_view
from hanabi_rl.people.serve.view_json import Frame, actions_of, seat_names, table_frame


class GameTables:
    """Games of `rules`, one person in each at most."""

    watched = False  # nobody plays: spectators see every hand

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._games: dict[int, Game] = {}
        self._asking = threading.Lock()

    def game(self, game_id: int) -> Game:
        """Raises KeyError where there is no such game."""
        return self._games[game_id]

    def move(self, game_id: int, turn: int, action: int) -> Game:
        """The person's move number `turn`. Raises RefusedError."""
        game = self._games[game_id]
        if game.status == "active" and game.to_move not in game.people:
            raise RefusedError("it is another player's turn")
        return self._happen(game, MoveMade(game.to_move or 0, turn, action))

    def leave(self, game_id: int) -> Game:
        """Ends a game before its end; it is kept as unfinished. Raises RefusedError."""
        return self._happen(self._games[game_id], PlayerLeft())

    def mark(self, game_id: int, turn: int, marked: bool) -> None:
        """Move number `turn`, a partner's last, is questionable in the person's eyes, or is not any
        more. Raises RefusedError, as here, where moves are not marked."""
        raise RefusedError("moves are not marked at this table")

    def paired_games(self, game_id: int) -> Sequence[int]:
        """Games in which the same happens: copies for other people at the table."""
        return ()

    def partner_to_move(self, game_id: int) -> bool:
        """A partner's answer is awaited."""
        game = self._games[game_id]
        return game.to_move is not None and game.to_move not in game.people

    def partner_action(self, game_id: int) -> PartnerAction:
        """What the partner to move will do; it may take a while, in any thread."""
        with self._asking:
            return self._ask(self._games[game_id])

    def partner_moves(self, game_id: int, turn: int, answer: PartnerAction) -> Game:
        """Makes the partner's move number `turn` that `partner_action` answered. Raises
        RefusedError."""
        game = self._games[game_id]
        return self._happen(game, MoveMade(game.to_move or 0, turn, answer.action))

    def frame(self, game_id: int) -> Frame:
        """What the person (or the spectator) sees of the game now."""
        game = self._games[game_id]
        sight = player_view(game, _person(game))
        return self._with_link(game, table_frame(sight, self._names_at(game)))

    def history(self, game_id: int) -> list[Frame]:
        """Every position of a game that is done, or watched, with all hands face up."""
        game = self._games[game_id]
        return [self._open_frame(game, turn) for turn in range(game.turn + 1)]

    def what_if(self, game_id: int, turn: int, moves: Sequence[int]) -> tuple[Game, list[Frame]]:
        """The hypothetical game that leaves this one after `turn` moves and goes on with `moves`,
        of whoever's turn it is, on the same deck; and its positions from there, each with the moves
        that can follow.

        Raises RefusedError while persons play this game, and for a move that is not allowed.
        """
        game = self._games[game_id]
        if game.people and game.status != "done":
            raise RefusedError("what would have been is shown once the game is over")
        if not 0 <= turn <= game.turn:
            raise RefusedError(f"expected a turn in 0..{game.turn}, got {turn}")
        line = dataclasses.replace(
            game, people=frozenset(), moves=game.moves[:turn], status="active", end_reason=""
        )
        if line.table().over:
            raise RefusedError("the game is over here")
        frames = [self._line_frame(game, line)]
        for action in moves:
            line, _ = advance(line, MoveMade(line.to_move or 0, line.turn, action))
            frames.append(self._line_frame(game, line))
        return line, frames

    def _line_frame(self, game: Game, line: Game) -> Frame:
        """The last position of a hypothetical game, with the names at the table of `game`."""
        sight, you = spectator_view(line, line.turn), _person(game)
        frame = table_frame(dataclasses.replace(sight, seat=you), self._names_at(game))
        mover = dataclasses.replace(sight, seat=sight.to_move)
        return frame | {"actions": actions_of(mover, seat_names(self.rules, you))}

    def conventions(self, game: Game) -> list[str]:
        """What each move of a game that is shown face up was by convention; where that would teach
        people whose play is to be measured, as in a study, nothing."""
        return []

    def _open_frame(self, game: Game, turn: int) -> Frame:
        sight = dataclasses.replace(spectator_view(game, turn), seat=_person(game))
        frame = table_frame(sight, self._names_at(game)) | {"actions": []}
        return self._with_link(game, frame)

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """A game that is over has a replay link, where hanab.live knows such games."""
        if game.status == "done":
            try:
                frame["link"] = replay_link(game.rules, game.deck, game.moves)
            except ValueError:
                frame["link"] = None
        return frame

    def _happen(self, game: Game, event: Event) -> Game:
        after, effects = advance(game, event)
        self._carry_out(after, effects)
        return after

    def _carry_out(self, game: Game, effects: Effects) -> None:
        self._keep(game, effects)
        self._games[game.game_id] = game

    def _keep(self, game: Game, effects: Effects) -> None:
        """Writes down what the effects say, before anybody is shown the game."""
        raise NotImplementedError

    def _names_at(self, game: Game) -> dict[int, str]:
        """What is shown as the name of the agent at each partner's seat."""
        raise NotImplementedError

    def _ask(self, game: Game) -> PartnerAction:
        """The answer of the partner to move."""
        raise NotImplementedError


def _person(game: Game) -> int | None:
    return next(iter(game.people), None)
