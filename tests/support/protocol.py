"""A client of AH2AC2's wire protocol, as its published one behaves.

What the published client does and this one too: it drops the first frame whatever it is, reads
every key of the first payload but `info` as an agent and exactly four fields of `info`, raises at
`error_details`, and never reconnects.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

INFO_FIELDS = {"num_players", "candidate_controlling", "is_debug", "game_id"}
Rows = dict[str, dict[str, np.ndarray]]
Choose = Callable[[Rows], dict[str, int]]


class ServerSaysError(Exception):
    """`error_details`."""


class Environment:
    """One game over one connection, from the address `source` of this machine."""

    def __init__(self, address: str, source: str = "127.0.0.1") -> None:
        with contextlib.ExitStack() as stack:
            self._socket: ClientConnection = stack.enter_context(
                connect(address, open_timeout=30, max_size=2**20, source_address=(source, 0))
            )
            self._socket.recv()  # whatever it is
            first = self._receive()
            self._open = stack.pop_all()
        self.info = first.pop("info")
        assert set(self.info) == INFO_FIELDS, self.info
        assert set(first) == set(self.info["candidate_controlling"])
        self.rows, self.done, self.score = _arrays(first), False, 0.0

    def step(self, actions: dict[str, int]) -> None:
        """Every agent it controls acts."""
        self._socket.send(json.dumps(actions))
        answer = self._receive()
        self.done, self.score = answer.pop("done"), answer.pop("score")
        assert set(answer) == set(self.info["candidate_controlling"])
        self.rows = _arrays(answer)

    def say(self, text: str) -> None:
        """Anything."""
        self._socket.send(text)

    def hear(self) -> dict[str, Any]:
        """The next frame. Raises ServerSaysError."""
        return self._receive()

    def close(self) -> None:
        """Leaves."""
        self._open.close()

    def _receive(self) -> dict[str, Any]:
        answer = json.loads(self._socket.recv(timeout=60))
        if "error_details" in answer:
            raise ServerSaysError(answer["error_details"])
        return dict(answer)


def _arrays(answer: dict[str, Any]) -> Rows:
    rows = {
        agent: {name: np.array(values) for name, values in row.items()}
        for agent, row in answer.items()
    }
    for row in rows.values():
        assert set(row) == {"obs", "legal_moves"}
        assert all(values.dtype == np.float64 for values in row.values()), "one dtype for all"
    return rows


def play_next(address: str, key: str) -> Environment:
    """The next official game."""
    base = address.replace("http", "ws", 1)
    return Environment(f"{base}play-next?submission_key={key}")


def play_test(
    address: str, key: str, players: int, seats: list[int], source: str = "127.0.0.1"
) -> Environment:
    """A test game."""
    base = address.replace("http", "ws", 1)
    positions = "".join(f"&candidate_positions={seat}" for seat in seats)
    return Environment(
        f"{base}play-random-agent?num_players={players}{positions}&test_submission_key={key}",
        source,
    )


def evaluation_info(address: str, key: str) -> dict[str, Any]:
    """What the client asks before every game; it ignores the status."""
    try:
        with urllib.request.urlopen(f"{address}evaluation-info/{key}") as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))


def first_legal(rows: Rows) -> dict[str, int]:
    """A candidate that takes the first legal action: it discards, or plays where it may not."""
    return {agent: int(np.argmax(row["legal_moves"])) for agent, row in rows.items()}


def play_out(environment: Environment, choose: Choose = first_legal) -> float:
    """A game to its end; its score."""
    while not environment.done:
        environment.step(choose(environment.rows))
    environment.close()
    return environment.score


Frame = dict[str, Any]
"""One turn of a batch: `turn`, and `rows` of `obs`, `legal_moves` and `decides`."""


def predictions(address: str, key: str, players: int = 2) -> contextlib.closing[Reading]:
    """A connection that predicts."""
    base = address.replace("http", "ws", 1)
    return contextlib.closing(Reading(f"{base}predict?submission_key={key}&num_players={players}"))


class Reading:
    """Held-out games over one connection; `frame` is the turn to answer, None at the end."""

    def __init__(self, address: str) -> None:
        self.frame: Frame | None = {}
        with contextlib.ExitStack() as stack:
            self._socket: ClientConnection = stack.enter_context(
                connect(address, open_timeout=30, max_size=2**20)
            )
            self._socket.recv()  # the greeting
            self._next()
            self._open = stack.pop_all()

    @property
    def deciding(self) -> list[str]:
        """The rows to answer for."""
        assert self.frame is not None
        return [row for row, seen in self.frame["rows"].items() if seen["decides"]]

    def answer(self, said: dict[str, list[float]], form: str = "log_probabilities") -> None:
        """A list for each row that decides. Raises ServerSaysError; the frame is the same then."""
        self.say(json.dumps({form: said}))

    def say(self, text: str) -> None:
        """Anything."""
        self._socket.send(text)
        self._next()

    def close(self) -> None:
        """Leaves."""
        self._open.close()

    def _next(self) -> None:
        heard = json.loads(self._socket.recv(timeout=60))
        if "error_details" in heard:
            raise ServerSaysError(heard["error_details"])
        self.frame = None if heard.get("done") else heard
