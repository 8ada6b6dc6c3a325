"""Play of all games of a key over several connections: `Submission`.

Only the server records progress: after a stop, a kill or a lost connection, the client requests the
next game and gets interrupted games first. No game is played twice or lost, if the server behaves.
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
    """A game that ended on this client's connection."""

    num_players: int
    agents: tuple[str, ...]
    score: int


class Submission:
    """Games of a key on up to `connections` concurrent connections, as the server allows.

    `make(num_players)` returns a player for one connection; `ended` lists games that finished here.
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
        """Number of errors from the server at (game_id, turn)."""

    @property
    def playing(self) -> int:
        """Number of games in progress."""
        return len(self._open)

    def stop(self) -> None:
        """Start no further game; games in progress are finished."""
        self._stop.set()

    def run(self, games: Sequence[KeyGame], tick: Callable[[], None]) -> None:
        """Play the open games of `games` and call `tick` meanwhile in this thread.

        Raises:
            ValueError: an agent failed, or the server refuses (see `client.py`) or is silent for
                too long. The server keeps the games in progress.
        """
        self._left = sum(game.status != "DONE" for game in games)
        workers = [self._work] * min(self._connections, self._left)
        try:
            run_threads(workers, self._stop, tick)
        finally:  # a second Ctrl-C leaves the games in progress
            for player in list(self._players):
                player.close()

    def _work(self) -> None:
        players: dict[int, Player] = {}
        while self._take():
            self._finish_one(players)

    def _take(self) -> bool:
        """Reserve one game for this thread; False if none is left."""
        with self._lock:
            if self._stop.is_set() or not self._left:
                return False
            self._left -= 1
            return True

    def _finish_one(self, players: dict[int, Player]) -> None:
        """Play one game to its end, over as many connections as necessary."""
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
                    f"the server rejected one move {MAX_RETRIES} times: {error}"
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
