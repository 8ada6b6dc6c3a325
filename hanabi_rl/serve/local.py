"""Games on one machine, without accounts: `LocalPlay`, behind the page and behind the terminal.

It does what the life cycle's effects say, in their order, and makes what may be shown. No JAX: the
partners are asked through `Partners`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hanabi_rl.data.formats.hanab_live import share_link
from hanabi_rl.env.game import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.serve.folder import GameFolder
from hanabi_rl.serve.lifecycle import (
    Effects,
    Event,
    Game,
    Left,
    Moved,
    RefusedError,
    advance,
    begin,
)
from hanabi_rl.serve.partners import Answer, Partners
from hanabi_rl.serve.seat_view import Frame, action_text, seat_names, table_frame
from hanabi_rl.serve.sight import open_sight, sight_of


class LocalPlay:
    """The games of one person with the agents `agents`, who sit at the seats the person does not.

    With as many agents as seats nobody plays: the games are watched. The person's seat is the
    number of the game modulo the players, so that every seat is played from. `seed` fixes the decks
    (None: they are drawn anew); `folder` keeps the games (None: nothing does).
    """

    def __init__(
        self,
        rules: Rules,
        agents: Sequence[str],
        partners: Partners,
        folder: GameFolder | None = None,
        seed: int | None = None,
    ) -> None:
        if rules.num_players - len(agents) not in (0, 1):
            raise ValueError(
                f"expected {rules.num_players - 1} partners for {rules.num_players} players (or "
                f"{rules.num_players} agents to watch), got {len(agents)}"
            )
        self.rules, self.agents, self.folder = rules, tuple(agents), folder
        self.watched = len(agents) == rules.num_players
        self._partners, self._asking = partners, threading.Lock()
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._games: dict[int, Game] = {}
        self._seated: dict[int, dict[int, str]] = {}
        self._chances: dict[int, dict[int, Answer]] = {}  # of watched games, by turn
        self._number = 0
        self._read_back()

    def new_game(self) -> Game:
        """Deals the next game and writes its journal."""
        seat = None if self.watched else self._number % self.rules.num_players
        deck = evaluation_decks(self.rules, self._number + 1, self._seed, "people")[-1]
        game = Game(
            game_id=max(time.time_ns() // 1000, max(self._games, default=0) + 1),
            rules=self.rules,
            deck=tuple(int(card) for card in deck),
            people=frozenset() if seat is None else frozenset({seat}),
        )
        self._number += 1
        self._seat(game, self._line_up(game))
        self._carry_out(game, begin(game))
        return game

    def current(self) -> Game:
        """The game to show first: the newest that goes on, else a new one."""
        going_on = [game for game in self._games.values() if game.status == "active"]
        return going_on[-1] if going_on else self.new_game()

    def game(self, game_id: int) -> Game:
        """Raises KeyError where there is no such game."""
        return self._games[game_id]

    def move(self, game_id: int, turn: int, action: int) -> Game:
        """The person's move number `turn`. Raises RefusedError."""
        game = self._games[game_id]
        if game.status == "active" and game.to_move not in game.people:
            raise RefusedError("it is another player's turn")
        return self._happen(game, Moved(game.to_move or 0, turn, action))

    def leave(self, game_id: int) -> Game:
        """Ends a game before its end; it is kept as unfinished. Raises RefusedError."""
        return self._happen(self._games[game_id], Left())

    def partner_to_move(self, game_id: int) -> bool:
        """A partner's answer is awaited."""
        game = self._games[game_id]
        return game.to_move is not None and game.to_move not in game.people

    def think(self, game_id: int) -> Answer:
        """What the partner to move will do; it may take a while, in any thread."""
        with self._asking:
            game = self._games[game_id]
            answer = self._partners.think([game])[0]
            if self.watched:
                self._chances[game_id][game.turn] = answer
            return answer

    def partner_moves(self, game_id: int, turn: int, answer: Answer) -> Game:
        """Makes the partner's move number `turn` that `think` answered. Raises RefusedError."""
        game = self._games[game_id]
        return self._happen(game, Moved(game.to_move or 0, turn, answer.action))

    def frame(self, game_id: int) -> Frame:
        """What the person (or the spectator) sees of the game now."""
        game = self._games[game_id]
        if self.watched:
            return self._open_frame(game, game.turn)
        return self._with_link(
            game, table_frame(sight_of(game, self._person(game)), self._at(game))
        )

    def history(self, game_id: int) -> list[Frame]:
        """Every position of a game that is done, or watched, with all hands face up."""
        game = self._games[game_id]
        return [self._open_frame(game, turn) for turn in range(game.turn + 1)]

    def _open_frame(self, game: Game, turn: int) -> Frame:
        sight, you = open_sight(game, turn), self._person(game)
        frame = table_frame(dataclasses.replace(sight, seat=you), self._at(game)) | {"actions": []}
        answer = self._chances[game.game_id].get(turn)
        if answer is not None:
            frame["chances"] = self._bars(game, turn, answer)
        return self._with_link(game, frame)

    def _bars(self, game: Game, turn: int, answer: Answer) -> list[dict[str, Any]]:
        """The legal moves of the seat to move, the likeliest first, as the agent weighs them."""
        seat = turn % self.rules.num_players
        names = seat_names(self.rules, None)
        order = np.argsort(-answer.probabilities, kind="stable")
        return [
            {
                "text": action_text(self.rules, int(action), seat, names),
                "chance": round(float(answer.probabilities[action]), 6),
                "taken": int(action) == answer.action,
            }
            for action in order
            if answer.probabilities[action] > 0
        ]

    def _with_link(self, game: Game, frame: Frame) -> Frame:
        """A game that is over has a replay link, where hanab.live knows such games."""
        if game.status == "done":
            try:
                frame["link"] = share_link(game.rules, game.deck, game.moves)
            except ValueError:
                frame["link"] = None
        return frame

    def _happen(self, game: Game, event: Event) -> Game:
        after, effects = advance(game, event)
        self._carry_out(after, effects)
        return after

    def _carry_out(self, game: Game, effects: Effects) -> None:
        if self.folder is not None and not self.watched:
            if effects.record:
                self.folder.record(game, self._seated[game.game_id])
            if effects.finish:
                self.folder.finish(game)
        self._games[game.game_id] = game

    def _seat(self, game: Game, names: dict[int, str]) -> None:
        self._games[game.game_id] = game
        self._seated[game.game_id] = names
        self._chances[game.game_id] = {}

    def _line_up(self, game: Game) -> dict[int, str]:
        others = [seat for seat in range(self.rules.num_players) if seat not in game.people]
        return dict(zip(others, self.agents, strict=True))

    def _at(self, game: Game) -> dict[int, str]:
        return self._seated[game.game_id]

    @staticmethod
    def _person(game: Game) -> int | None:
        return next(iter(game.people), None)

    def _read_back(self) -> None:
        """Games that were interrupted go on, where they were played with the same agents."""
        if self.folder is None or self.watched:
            return
        for game, names in self.folder.interrupted(self.rules):
            if game.table().over:  # killed between its last move and its end
                self.folder.finish(dataclasses.replace(game, status="done", end_reason="finished"))
            elif names == self._line_up(game):
                self._seat(game, names)
