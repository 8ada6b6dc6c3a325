"""A key's games, played to the last on several connections: `Submission`.

What was played is known by the server alone, and nothing is kept here: whoever was stopped, killed
or cut off asks for the next game, and gets the interrupted ones first. So no game is played twice
and none is lost, as far as the server keeps its word.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hanabi_rl.people.serve.client import (
    CONNECTION_ERRORS,
    ChallengeClient,
    KeyGame,
    RemoteGame,
    ServerError,
)
from hanabi_rl.people.serve.policy_player import Player
from hanabi_rl.people.serve.retry import MAX_RETRIES, RetryPolicy, run_threads


class FinishedGame(NamedTuple):
    """A game that was heard to its end."""

    num_players: int
    agents: tuple[str, ...]
    score: int


class Submission:
    """The games of a key on `connections` at a time, fewer where the server allows no more.

    `make(num_players)` is a player for one connection; `ended` are the games that were heard to
    their end.
    """

    def __init__(
        self,
        server: ChallengeClient,
        make: Callable[[int], Player],
        *,
        connections: int = 6,
        timeout_s: float = 600.0,
    ) -> None:
        self.ended: list[FinishedGame] = []
        self._server, self._make, self._connections = server, make, connections
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._retry = RetryPolicy(timeout_s, self._stop)
        self._left = 0
        self._open: set[RemoteGame] = set()
        self._players: list[Player] = []
        self._refused: collections.Counter[tuple[int, int]] = collections.Counter()
        """How often the server ended (game_id, turn) in words."""

    @property
    def playing(self) -> int:
        """Games in progress."""
        return len(self._open)

    def stop(self) -> None:
        """Begins no other game; those in progress are played to their end."""
        self._stop.set()

    def run(self, games: Sequence[KeyGame], tick: Callable[[], None]) -> None:
        """Plays what is not done of `games`, and calls `tick` in this thread meanwhile.

        Raises:
            ValueError: whatever ended it: an agent that failed, a server that refuses (see
                `client.py`) or is silent for too long. The games in progress are kept by the
                server.
        """
        self._left = sum(game.status != "DONE" for game in games)
        workers = [self._work] * min(self._connections, self._left)
        try:
            run_threads(workers, self._stop, tick)
        finally:  # a second Ctrl-C leaves the games where they are
            for player in list(self._players):
                player.close()

    def _work(self) -> None:
        players: dict[int, Player] = {}
        while self._take():
            self._finish_one(players)

    def _take(self) -> bool:
        """One more game is this thread's to finish."""
        with self._lock:
            if self._stop.is_set() or not self._left:
                return False
            self._left -= 1
            return True

    def _finish_one(self, players: dict[int, Player]) -> None:
        """Whichever game the server gives, to its end, however often a connection is lost."""
        tried = 0
        while not self._stop.is_set():
            try:
                ended = self._play(players)
            except (ServerError, *CONNECTION_ERRORS) as error:
                self._stop_if_done(error)
                self._retry.wait(tried, error)
                tried += 1
            else:
                with self._lock:
                    self.ended.append(ended)
                return

    def _stop_if_done(self, error: Exception) -> None:
        """Whether there is a game to wait for, where none of ours goes on."""
        if not isinstance(error, ServerError) or self._open:
            return
        try:
            if all(game.status == "DONE" for game in self._server.games()):
                self._stop.set()
        except ServerError as refusal:
            if not refusal.again:
                raise
        except OSError:
            pass

    def _play(self, players: dict[int, Player]) -> FinishedGame:
        game, turn = self._server.play_next(), 0
        info = game.info
        self._retry.reset()
        with self._lock:
            self._open.add(game)
        try:
            player = self._player(info["num_players"], players)
            player.begin(info)
            while not game.done:
                game.step(player.act(game.rows))
                self._retry.reset()
                turn += 1
        except ServerError as error:
            self._refused[info["game_id"], turn] += 1
            if self._refused[info["game_id"], turn] == MAX_RETRIES:
                raise ValueError(
                    f"{MAX_RETRIES} times at one move the server says: {error}"
                ) from error
            raise
        finally:
            with self._lock:
                self._open.discard(game)
            with contextlib.suppress(*CONNECTION_ERRORS):
                game.close()
        agents = tuple(info["candidate_controlling"])
        return FinishedGame(info["num_players"], agents, int(game.score))

    def _player(self, size: int, players: dict[int, Player]) -> Player:
        if size not in players:
            players[size] = self._make(size)
            self._players.append(players[size])
        return players[size]
