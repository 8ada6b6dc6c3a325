"""Attribution of disconnects: only the candidate's own count as interruptions."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.protocol import (
    RemoteGame,
    ServerError,
    evaluation_info,
    first_legal,
    play_next,
    play_out,
    play_test,
)
from support.serving import agree, serve_app

from hanabi_rl.people.serve import candidate_connection
from hanabi_rl.people.serve.challenge import make_challenge
from hanabi_rl.people.serve.grants import GameStatus, KeyLimits
from hanabi_rl.people.serve.inference_process import AgentNames
from hanabi_rl.people.serve.lifecycle import Game, RefusedError
from hanabi_rl.people.serve.partner_protocol import PartnerAction, SeatObservations
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.store import Store

FAILED = "server error; the game is saved: connect again"


class Plain:
    """Partners that take the first legal action, without JAX, and fail on demand.

    `taken_s`: simulated time so far, increased by `takes_s` per answer. After the first turn it
    waits for `may_answer`; `queried`: a query has arrived.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.from_turn = 0
        self.takes_s = 0.0
        self.taken_s = 0.0
        self.queried, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self.illegal = False

    async def start(self) -> None:
        """Nothing to start."""

    async def end(self) -> None:
        """Nothing to end."""

    async def partner_action(self, team: AgentNames, game: Game) -> PartnerAction:
        if self.error is not None and game.turn >= self.from_turn:
            raise self.error
        if game.turn:
            self.queried.set()
            assert self.may_answer.wait(120)
            self.taken_s += self.takes_s
        rules, table = game.rules, game.table()
        legal = np.zeros((rules.num_players, rules.num_actions), bool)
        legal[:, rules.noop] = True
        if game.current_player is not None:
            legal[game.current_player] = [
                table.illegal_reason(a) is None for a in range(rules.num_actions)
            ]
        player = game.turn % rules.num_players
        action = int(np.argmin(legal[player]) if self.illegal else np.argmax(legal[player]))
        seats = SeatObservations(np.zeros((rules.num_players, 3), np.float32), legal)
        return PartnerAction(action, np.zeros(rules.num_actions, np.float32), seats)


class Served(NamedTuple):
    address: str
    store: Store
    partners: Plain
    text: str

    def rows(self) -> list[GameStatus]:
        key = self.store.key(self.text)
        assert key is not None
        return self.store.rows(key)

    def interruptions(self) -> int:
        return sum(row.interruptions for row in self.rows())

    def free(self) -> None:
        """Return once no connection has a game."""
        until = time.monotonic() + 120
        while self._leased():
            assert time.monotonic() < until
            time.sleep(0.002)

    def _leased(self) -> int:
        with self.store.database.transaction("read") as db:
            return int(db.execute("SELECT SUM(leased) FROM games").fetchone()[0])


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Served]:
    store = Store(folder / "challenge.sqlite", KeyLimits(interruptions=4))
    partners, limiter = Plain(), RequestLimiter()
    store.add_entry("mine")
    text = store.add_key("mine", "eval", {2: 2})
    agreed = agree(store, {2: ("bot:one",)})
    app = make_challenge(store, partners, agreed, limiter)  # type: ignore[arg-type]
    with serve_app(app, limiter) as address:
        yield Served(address, store, partners, text)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as found:
        yield found


ERRORS = [
    IndexError("tuple index out of range"),
    KeyError(3),
    RuntimeError("no such team"),
    AssertionError("started first"),
    TimeoutError("of the server's own"),
    OSError(28, "No space left on device"),
    MemoryError(),
    ValueError("NaN"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("from_turn", [0, 2])  # before a third life can be lost
def test_server_error_is_not_charged(served: Served, error: Exception, from_turn: int) -> None:
    """Even more often than the limit of interruptions; then the game continues."""
    served.partners.error, served.partners.from_turn = error, from_turn
    for _ in range(served.store.limits.interruptions + 1):
        with pytest.raises(ServerError, match=FAILED):
            play_out(play_next(served.address, served.text))
        served.free()
    assert [(row.status, row.interruptions) for row in served.rows()] == [
        ("active", 0),
        ("todo", 0),
    ]
    served.partners.error = None
    for _ in range(2):
        play_out(play_next(served.address, served.text))
    assert evaluation_info(served.address, served.text)["human_ai_eval_done"] is True
    assert served.interruptions() == 0


@pytest.mark.parametrize(
    "error", [sqlite3.DatabaseError("malformed"), sqlite3.IntegrityError("UNIQUE"), ValueError("x")]
)
def test_store_error_is_not_charged(
    served: Served, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    game = play_next(served.address, served.text)
    with monkeypatch.context() as patched:
        patched.setattr(served.store, "write", fail)
        with pytest.raises(ServerError, match=FAILED):
            play_out(game)
        served.free()
        patched.setattr(served.store, "claim_all", fail)
        with pytest.raises(ServerError, match=FAILED):
            play_next(served.address, served.text)
    play_out(play_next(served.address, served.text))
    assert served.interruptions() == 0


def test_illegal_partner_move_is_not_charged(served: Served) -> None:
    served.partners.illegal = True
    with pytest.raises(ServerError, match=FAILED):
        play_out(play_next(served.address, served.text))
    served.free()
    assert served.interruptions() == 0


def test_shutdown_charges_no_interruption(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        game = play_next(served.address, served.text)
        game.step(first_legal(game.rows))
    served.free()
    assert served.interruptions() == 0 and served.rows()[0].status == "active"


def leave(game: RemoteGame) -> None:
    game.close()


def vanish(game: RemoteGame) -> None:
    """Disconnect without closing, after a move."""
    game.send(json.dumps(first_legal(game.rows)))
    game._socket.socket.close()


def be_silent(game: RemoteGame) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate_connection, "MOVE_TIMEOUT_S", 0.3)  # for the move after this one
        game.step(first_legal(game.rows))
        with pytest.raises(ServerError, match="no action for 0 s; the game is saved"):
            game.receive()


def talk(game: RemoteGame) -> None:
    for _ in range(MAX_INVALID_MESSAGES):
        game.send("{}")
        with pytest.raises(ServerError, match="expected one action for each"):
            game.receive()
    with pytest.raises(Exception, match="too many invalid messages"):
        game.receive()


def shout(game: RemoteGame) -> None:
    game.send("x" * 2**20)


@pytest.mark.parametrize("do", [leave, vanish, be_silent, talk, shout])
def test_candidate_disconnect_is_an_interruption(
    served: Served, do: Callable[[RemoteGame], None]
) -> None:
    for number in range(3):
        game = play_next(served.address, served.text)
        do(game)
        with contextlib.suppress(Exception):
            game.close()
        served.free()
        assert served.interruptions() == number + 1


@pytest.fixture
def slow_clock(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection's clock that includes the partners' simulated time."""

    def now() -> float:
        return time.monotonic() + served.partners.taken_s

    monkeypatch.setattr(candidate_connection, "time", SimpleNamespace(monotonic=now))


@pytest.mark.parametrize("after_s", [2000.0, 0.0])
def test_slow_server_disconnect_is_not_charged(
    served: Served, slow_clock: None, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    """It disconnects before a late or immediate answer."""
    monkeypatch.setattr(candidate_connection, "UNREAD_S", 100.0)  # a busy machine takes less
    served.partners.takes_s = after_s
    served.partners.may_answer.clear()
    game = play_next(served.address, served.text)
    game.send(json.dumps(first_legal(game.rows)))
    assert served.partners.queried.wait(120)
    game._socket.socket.close()
    served.partners.may_answer.set()
    served.free()
    assert served.interruptions() == (0 if after_s else 1)


def test_disconnect_after_late_answer_is_charged(
    served: Served, slow_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    listens, receive = threading.Semaphore(0), candidate_connection.CandidateConnection.receive

    async def noted(self: candidate_connection.CandidateConnection, what: str) -> str | bytes:
        listens.release()
        return await receive(self, what)

    monkeypatch.setattr(candidate_connection.CandidateConnection, "receive", noted)
    served.partners.takes_s = 2000.0
    game = play_next(served.address, served.text)
    game.step(first_legal(game.rows))
    for _ in range(2):  # the server has recorded its answer time
        assert listens.acquire(timeout=60)
    served.partners.taken_s += 2.0  # counts for the candidate, together with the answer before
    game.close()
    served.free()
    assert served.interruptions() == 1


@pytest.mark.parametrize("value", ["[" * 900 + "]" * 900, '{"a":' * 600 + "1" + "}" * 600])
def test_deeply_nested_message_is_invalid(served: Served, value: str) -> None:
    test = play_test(served.address, served.store.add_key("mine", "test"), 2, [0])
    test.send(f'{{"agent_0": {value}}}')
    with pytest.raises(ServerError, match="expected a whole number from 0 to 20, got (li|di)"):
        test.receive()
    test.close()


def test_refusal_is_reported_and_not_charged(served: Served) -> None:
    """Errors that are shown to the candidate."""
    served.partners.error = RefusedError("not now")
    with pytest.raises(ServerError, match="not now"):
        play_next(served.address, served.text)
    served.free()
    assert served.interruptions() == 0


def test_failed_release_is_not_charged_later(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    queried = threading.Event()

    def fail(*arguments: Any, **keywords: Any) -> None:
        queried.set()
        raise sqlite3.DatabaseError("malformed")

    with monkeypatch.context() as patched:
        patched.setattr(served.store, "release", fail)
        play_next(served.address, served.text).close()
        assert queried.wait(120)
    served.store.release_all()  # as at server start
    served.free()
    assert served.interruptions() == 0
