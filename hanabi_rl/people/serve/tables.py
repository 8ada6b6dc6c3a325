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
        self._query_lock = threading.Lock()

    def game(self, game_id: int) -> Game:
        """Raises KeyError where there is no such game."""
        return self._games[game_id]

    def move(self, game_id: int, turn: int, action: int) -> Game:
        """The person's move number `turn`. Raises RefusedError."""
        game = self._games[game_id]
        if game.status == "active" and game.current_player not in game.people:
            raise RefusedError("it is another player's turn")
        return self._apply(game, MoveMade(game.current_player or 0, turn, action))

    def leave(self, game_id: int) -> Game:
        """Ends a game before its end; it is kept as unfinished. Raises RefusedError."""
        return self._apply(self._games[game_id], PlayerLeft())

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
        return game.current_player is not None and game.current_player not in game.people

    def partner_action(self, game_id: int) -> PartnerAction:
        """What the partner to move will do; it may take a while, in any thread."""
        with self._query_lock:
            return self._query(self._games[game_id])

    def partner_moves(self, game_id: int, turn: int, answer: PartnerAction) -> Game:
        """Makes the partner's move number `turn` that `partner_action` answered. Raises
        RefusedError."""
        game = self._games[game_id]
        return self._apply(game, MoveMade(game.current_player or 0, turn, answer.action))

    def frame(self, game_id: int) -> Frame:
        """What the person (or the spectator) sees of the game now."""
        game = self._games[game_id]
        view = player_view(game, _person(game))
        return self._with_link(game, table_frame(view, self._names_at(game)))

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
        branch = dataclasses.replace(
            game, people=frozenset(), moves=game.moves[:turn], status="active", end_reason=""
        )
        if branch.table().over:
            raise RefusedError("the game is over here")
        frames = [self._what_if_frame(game, branch)]
        for action in moves:
            branch, _ = advance(branch, MoveMade(branch.current_player or 0, branch.turn, action))
            frames.append(self._what_if_frame(game, branch))
        return branch, frames

    def _what_if_frame(self, game: Game, branch: Game) -> Frame:
        """The last position of a hypothetical game, with the names at the table of `game`."""
        view, viewer = spectator_view(branch, branch.turn), _person(game)
        frame = table_frame(dataclasses.replace(view, seat=viewer), self._names_at(game))
        current = dataclasses.replace(view, seat=view.current_player)
        return frame | {"actions": actions_of(current, seat_names(self.rules, viewer))}

    def conventions(self, game: Game) -> list[str]:
        """What each move of a game that is shown face up was by convention; where that would teach
        people whose play is to be measured, as in a study, nothing."""
        return []

    def _open_frame(self, game: Game, turn: int) -> Frame:
        view = dataclasses.replace(spectator_view(game, turn), seat=_person(game))
        frame = table_frame(view, self._names_at(game)) | {"actions": []}
        return self._with_link(game, frame)

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """A game that is over has a replay link, where hanab.live knows such games."""
        if game.status == "done":
            try:
                frame["link"] = replay_link(game.rules, game.deck, game.moves)
            except ValueError:
                frame["link"] = None
        return frame

    def _apply(self, game: Game, event: Event) -> Game:
        after, effects = advance(game, event)
        self._carry_out(after, effects)
        return after

    def _carry_out(self, game: Game, effects: Effects) -> None:
        self._save(game, effects)
        self._games[game.game_id] = game

    def _save(self, game: Game, effects: Effects) -> None:
        """Writes down what the effects say, before anybody is shown the game."""
        raise NotImplementedError

    def _names_at(self, game: Game) -> dict[int, str]:
        """What is shown as the name of the agent at each partner's seat."""
        raise NotImplementedError

    def _query(self, game: Game) -> PartnerAction:
        """The answer of the partner to move."""
        raise NotImplementedError


def _person(game: Game) -> int | None:
    return next(iter(game.people), None)
