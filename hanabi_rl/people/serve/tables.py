"""Games in progress for pages and terminals: `GameTables`.

It carries out the effects of `lifecycle` in order and builds the frames to show. Subclasses define
storage and partners: `LocalPlay` for one person, `StudyPlay` for a study. No JAX.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from hanabi_rl.data.formats.hanab_live import replay_link
from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.view_json import Frame, actions_of, seat_names, table_frame
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


class GameTables:
    """Games of `rules` with at most one person per game."""

    watched = False  # True: no person plays, spectators see all hands

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._games: dict[int, Game] = {}
        self._query_lock = threading.Lock()

    def game(self, game_id: int) -> Game:
        """Return a game. Raises KeyError if it does not exist."""
        return self._games[game_id]

    def has_game(self, game_id: int) -> bool:
        """False if the game was deleted."""
        return game_id in self._games

    def move(self, game_id: int, turn: int, action: int) -> Game:
        """Make the person's move number `turn`. Raises RefusedError."""
        game = self._games[game_id]
        if game.status == "active" and game.current_player not in game.people:
            raise RefusedError("it is another player's turn")
        return self._apply(game, MoveMade(game.current_player or 0, turn, action))

    def leave(self, game_id: int) -> Game:
        """End a game early and save it as unfinished. Raises RefusedError."""
        return self._apply(self._games[game_id], PlayerLeft())

    def mark(self, game_id: int, turn: int, marked: bool) -> None:
        """Flag or unflag the partner's last move, number `turn`, as questionable. Raises
        RefusedError if the table does not support this."""
        raise RefusedError("moves cannot be flagged at this table")

    def paired_games(self, game_id: int) -> Sequence[int]:
        """Ids of other persons' copies of this game."""
        return ()

    def partner_to_move(self, game_id: int) -> bool:
        """True if the game waits for a partner."""
        game = self._games[game_id]
        return game.current_player is not None and game.current_player not in game.people

    def partner_action(self, game_id: int) -> PartnerAction:
        """Compute the next partner's action; slow, and callable from any thread."""
        with self._query_lock:
            return self._query(self._games[game_id])

    def partner_moves(self, game_id: int, turn: int, answer: PartnerAction) -> Game:
        """Make the partner's move number `turn` from its `partner_action`. Raises RefusedError."""
        game = self._games[game_id]
        return self._apply(game, MoveMade(game.current_player or 0, turn, answer.action))

    def frame(self, game_id: int) -> Frame:
        """Current frame for the person or spectator."""
        game = self._games[game_id]
        view = player_view(game, _person(game))
        return self._with_link(game, table_frame(view, self._names_at(game)))

    def history(self, game_id: int) -> list[Frame]:
        """All positions, all hands face up, of a game that is done or watched."""
        game = self._games[game_id]
        return [self._open_frame(game, turn) for turn in range(game.turn + 1)]

    def what_if(self, game_id: int, turn: int, moves: Sequence[int]) -> tuple[Game, list[Frame]]:
        """Hypothetical game on the same deck: `moves` from any player after `turn` moves of this
        game. Returns it and its frames from there on, each with its legal moves.

        Raises RefusedError during a person's game and for an illegal move.
        """
        game = self._games[game_id]
        if game.people and game.status != "done":
            raise RefusedError("hypothetical moves are available after the game")
        if not 0 <= turn <= game.turn:
            raise RefusedError(f"expected a turn in 0..{game.turn}, got {turn}")
        branch = dataclasses.replace(
            game, people=frozenset(), moves=game.moves[:turn], status="active", end_reason=""
        )
        if branch.table().over:
            raise RefusedError("the game is over at this position")
        frames = [self._what_if_frame(game, branch)]
        for action in moves:
            branch, _ = advance(branch, MoveMade(branch.current_player or 0, branch.turn, action))
            frames.append(self._what_if_frame(game, branch))
        return branch, frames

    def _what_if_frame(self, game: Game, branch: Game) -> Frame:
        """Last position of a hypothetical game, with the names at the table of `game`."""
        view, viewer = spectator_view(branch, branch.turn), _person(game)
        frame = table_frame(dataclasses.replace(view, seat=viewer), self._names_at(game))
        current = dataclasses.replace(view, seat=view.current_player)
        return frame | {"actions": actions_of(current, seat_names(self.rules, viewer))}

    def conventions(self, game: Game) -> list[str]:
        """Convention of each move of a game shown face up (`measure.annotate`)."""
        return [str(note) for note in annotate(self.rules, game.deck, game.moves)]

    def _open_frame(self, game: Game, turn: int) -> Frame:
        view = dataclasses.replace(spectator_view(game, turn), seat=_person(game))
        frame = table_frame(view, self._names_at(game)) | {"actions": []}
        return self._with_link(game, frame)

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """Add the hanab.live replay link of a finished game, if the site supports its rules."""
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
        """Save as the effects require, before the game is shown."""
        raise NotImplementedError

    def _names_at(self, game: Game) -> dict[int, str]:
        """Names of the agents by seat, if known."""
        return {}

    def _query(self, game: Game) -> PartnerAction:
        raise NotImplementedError


def _person(game: Game) -> int | None:
    return next(iter(game.people), None)
