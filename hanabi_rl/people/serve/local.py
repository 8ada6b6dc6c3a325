"""Games on one machine without accounts, for the page and the terminal: `LocalPlay`."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.view_json import Frame, action_text, seat_names
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.lifecycle import Effects, Game, begin
from hanabi_rl.people.serve.partner_protocol import PartnerAction, Partners
from hanabi_rl.people.serve.tables import GameTables
from hanabi_rl.play.decks import evaluation_decks, seed_decks


class LocalPlay(GameTables):
    """Games of one person with `agents` at the other seats, in table order from the person.

    With as many agents as seats, the games are watched. The person's seat is the number of the game
    modulo the players. seed: seed of the decks (None: random); seed_names: hanab.live deals to use
    instead, cyclically; folder: saves the games (None: nothing is saved); policies: identities of
    the agents, if known. remembers: an agent has memory of its partners
    (`agents/preloaded_profile.py`, `has_profile`), so the games form a series, with `folder` across
    restarts too, until `new_game(reset_memory=True)`. reset_memory: start with a new series.
    """

    def __init__(
        self,
        rules: Rules,
        agents: Sequence[str],
        partners: Partners,
        folder: GameFolder | None = None,
        seed: int | None = None,
        policies: Sequence[str] = (),
        remembers: bool = False,
        *,
        reset_memory: bool = False,
        seed_names: tuple[str, ...] = (),
    ) -> None:
        if rules.num_players - len(agents) not in (0, 1):
            raise ValueError(
                f"expected {rules.num_players - 1} partners for {rules.num_players} players (or "
                f"{rules.num_players} agents to watch), got {len(agents)}"
            )
        super().__init__(rules)
        self.agents, self.folder = tuple(agents), folder
        self.watched = len(agents) == rules.num_players
        self._partners, self._policies = partners, tuple(policies)
        self.remembers = remembers and not self.watched
        """True if partners adapt to the person from game to game."""
        self._series: tuple[Game, ...] = ()  # before the next game
        self._reset_number = 0
        """The partners remember no game before this number."""
        self._named_decks = seed_decks(rules, seed_names) if seed_names else None
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._names: dict[int, dict[int, str]] = {}
        self._answers: dict[int, dict[int, PartnerAction]] = {}  # of watched games, by turn
        self._number = 0
        self._resume()
        self._resumed_decks = [game.deck for game in self._games.values()]
        if reset_memory:
            self._reset_series()

    def new_game(self, reset_memory: bool = False) -> Game:
        """Deal the next game and write its journal. reset_memory: start a new series."""
        if reset_memory:
            self._reset_series()
        deck = self._next_deck()
        seat = self._next_seat()
        game = Game(
            game_id=self._next_number(),
            rules=self.rules,
            deck=deck,
            people=frozenset() if seat is None else frozenset({seat}),
            previous_games=self._series,
        )
        self._number += 1
        self._add_game(game, self._lineup(game))
        self._carry_out(game, begin(game))
        return game

    def current(self) -> Game:
        """Newest active game since the memory reset, or a new one."""
        active = [
            game
            for game in self._games.values()
            if game.status == "active" and game.game_id >= self._reset_number
        ]
        return active[-1] if active else self.new_game()

    def game(self, game_id: int) -> Game:
        """See `GameTables.game`; earlier games are read from the folder."""
        if game_id not in self._games and self.folder is not None and not self.watched:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self._add_game(self.folder.game(game_id, self.rules), {})
        return super().game(game_id)

    def earlier_games(self) -> list[Game]:
        """Newest finished games in the folder, newest first."""
        return [] if self.folder is None or self.watched else self.folder.newest(self.rules)

    def frame(self, game_id: int) -> Frame:
        """See `GameTables.frame`."""
        if self.watched:
            game = self._games[game_id]
            return self._open_frame(game, game.turn)
        return super().frame(game_id)

    def _open_frame(self, game: Game, turn: int) -> Frame:
        frame = super()._open_frame(game, turn)
        answer = self._answers[game.game_id].get(turn)
        if answer is not None:
            frame["chances"] = self._bars(turn, answer)
        return frame

    def _bars(self, turn: int, answer: PartnerAction) -> list[dict[str, Any]]:
        """Legal moves of the current player with the agent's probabilities, most probable first."""
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

    def _save(self, game: Game, effects: Effects) -> None:
        if self.folder is not None and not self.watched:
            if effects.record:
                self.folder.record(game, self._names[game.game_id], self._policies)
            if effects.finish:
                self.folder.finish(game, self._policies if self.remembers else ())
        if effects.finish:
            self._continue_series(game)

    def _add_game(self, game: Game, names: dict[int, str]) -> None:
        self._games[game.game_id] = game
        self._names[game.game_id] = names
        self._answers[game.game_id] = {}

    def _lineup(self, game: Game) -> dict[int, str]:
        first, players = min(game.people, default=-1) + 1, self.rules.num_players
        return {(first + k) % players: agent for k, agent in enumerate(self.agents)}

    def _next_deck(self) -> tuple[int, ...]:
        """Deck of the next game; skips each resumed game's deck once, which the person knows."""
        while (deck := tuple(self._deck(self._number).tolist())) in self._resumed_decks:
            self._resumed_decks.remove(deck)
            self._number += 1
        return deck

    def _deck(self, number: int) -> np.ndarray:
        if self._named_decks is not None:
            return self._named_decks[number % len(self._named_decks)]
        return evaluation_decks(self.rules, number + 1, self._seed, "people")[-1]

    def _next_seat(self) -> int | None:
        if self.watched:
            return None
        number = min(self._series[-1].people) + 1 if self._series else self._number
        return number % self.rules.num_players

    def _next_number(self) -> int:
        return max(time.time_ns() // 1000, max(self._games, default=0) + 1, self._reset_number + 1)

    def _reset_series(self) -> None:
        """Start a new series, after a restart too; earlier games that end later do not count."""
        if self.remembers:
            self._series, self._reset_number = (), self._next_number()
            if self.folder is not None:
                self.folder.record_reset(self._reset_number, self.rules, self._policies)

    def _continue_series(self, game: Game) -> None:
        """Continue the series with a finished game; among concurrent games, the newest counts."""
        newest = self._series[-1].game_id if self._series else self._reset_number
        if self.remembers and game.game_id > newest:
            self._series = game.series

    def _names_at(self, game: Game) -> dict[int, str]:
        return self._names[game.game_id]

    def _query(self, game: Game) -> PartnerAction:
        answer = self._partners.partner_action([game])[0]
        if self.watched:  # the agent's probabilities are shown
            self._answers[game.game_id][game.turn] = answer
        return answer

    def _resume(self) -> None:
        """Resume interrupted games of the same agents (by identity); others stay in the folder."""
        if self.folder is None or self.watched:
            return
        if self.remembers:
            number, self._series = self.folder.newest_series(self.rules, self._policies)
            self._reset_number = self._series[0].game_id if self._series else number
        for game, names, policies in self.folder.interrupted(self.rules):
            same_agents = names == self._lineup(game) and policies in (None, self._policies)
            if game.table().over:  # killed between its last move and its end
                done = dataclasses.replace(game, status="done", end_reason="finished")
                self.folder.finish(done, self._policies if same_agents and self.remembers else ())
                if same_agents:
                    self._continue_series(done)
            elif same_agents:
                self._add_game(game, names)
