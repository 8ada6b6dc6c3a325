"""Limits per network address, invalid messages, incomplete requests: other games continue."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import random
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from support.inference import InProcess
from support.invalid_messages import hostile
from support.protocol import ServerError, evaluation_info, first_legal, play_out, play_test
from support.serving import serve_app
from websockets.exceptions import ConnectionClosed

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.candidate_api import MAX_MESSAGE
from hanabi_rl.people.serve.challenge import make_challenge
from hanabi_rl.people.serve.request_limits import NetworkLimits, RateLimit, RequestLimiter
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.store import Store

LIMITS = NetworkLimits(request_s=300.0, address_connections=12, address_wrong_keys=3)


class Served(NamedTuple):
    address: str
    key: str
    limiter: RequestLimiter


@pytest.fixture(scope="module")
def backend() -> InProcess:
    return InProcess(("bot:random",), Rules(), slots=2)


def guard_of(limits: NetworkLimits) -> RequestLimiter:
    """Its clocks stand still, so that a busy machine regains no tokens."""
    limiter = RequestLimiter(limits)
    for rate in (limiter._openings, limiter._wrong_keys, limiter._key_openings, limiter._infos):
        rate.clock = lambda: 0.0
    return limiter


@pytest.fixture
def served(tmp_path: Path, backend: Any) -> Iterator[Served]:
    store, limiter = Store(tmp_path / "challenge.sqlite"), guard_of(LIMITS)
    store.add_entry("mine")
    app = make_challenge(store, backend, {2: ("bot:simple", "bot:iggi")}, limiter)
    with serve_app(app, limiter) as address:
        yield Served(address, store.add_key("mine", "test"), limiter)


def connected(served: Served) -> socket.socket:
    at = urlsplit(served.address)
    assert at.hostname is not None and at.port is not None
    return socket.create_connection((at.hostname, at.port), timeout=120)


def read_all(half_open: socket.socket) -> bytes:
    """All data until the server closes the connection."""
    found = bytearray()
    with half_open, contextlib.suppress(ConnectionResetError):
        while some := half_open.recv(2**16):
            found += some
    return bytes(found)


def gone(served: Served, left: int) -> None:
    """Return once the server has noticed the end of all connections but `left`."""
    until = time.monotonic() + 120
    while served.limiter.connections.total() > left:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Never: end",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
        b"GET /" + b"x" * 2 * LIMITS.head_bytes,
        b"\x16\x03\x01 no HTTP\r\n\r\n",
    ],
)
def test_incomplete_request_times_out(served: Served, sent: bytes) -> None:
    game = play_test(served.address, served.key, 2, [0])
    served.limiter.limits = dataclasses.replace(LIMITS, request_s=0.5)  # for new connections
    silent = [connected(served) for _ in range(5)]
    for one in silent:
        with contextlib.suppress(OSError):  # already ended
            one.sendall(sent)
    assert all(b"200 OK" not in read_all(one) for one in silent)
    play_out(game)
    gone(served, 0)


def test_connections_are_limited_in_total_and_per_address() -> None:
    limiter = RequestLimiter(NetworkLimits(connections=5, address_connections=2))
    assert [limiter.enter(address) for address in ("a", "a", "b", "b", "c")] == [None] * 5
    all_taken = "the server has 5 connections, the maximum"
    assert limiter.enter("d") == all_taken == limiter.enter("a")
    for address in ("d", "a", "a"):
        limiter.leave(address)
    assert limiter.enter("b") == "your address has 2 connections, the maximum"
    limiter.leave("b")
    assert limiter.enter("d") is None and limiter.connections == {"a": 1, "b": 2, "c": 1, "d": 1}


def test_flood_gets_retry_time(served: Served) -> None:
    game = play_test(served.address, served.key, 2, [1])
    flood = [connected(served) for _ in range(40)]
    allowed = LIMITS.address_connections - 1  # without the game's connection
    for refused in map(read_all, flood[allowed:]):
        assert refused.startswith(b"HTTP/1.1 503") and b"Retry-After: 10" in refused
        assert b"your address has 12" in refused
    assert served.limiter.connections.total() == LIMITS.address_connections
    for one in flood[:allowed]:
        one.close()
    play_out(game)
    gone(served, 0)
    play_out(play_test(served.address, served.key, 2, [1]))


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_messages_are_refused(served: Served, count: int) -> None:
    served.limiter._openings.per_minute = served.limiter._key_openings.per_minute = count + 10
    rng, other = random.Random(0), play_test(served.address, served.key, 2, [0])
    for first in range(0, count, MAX_INVALID_MESSAGES - 1):
        game = play_test(served.address, served.key, 2, [0])
        for _ in range(first, min(first + MAX_INVALID_MESSAGES - 1, count)):
            game._socket.send(hostile(rng))
            with pytest.raises(ServerError):
                game.receive()
        game.step(first_legal(game.rows))  # unaffected
        game.close()
    play_out(other)


def test_oversized_or_invalid_frames_end_connection(served: Served) -> None:
    other = play_test(served.address, served.key, 2, [0])
    large = play_test(served.address, served.key, 2, [0])
    large.send("x" * (MAX_MESSAGE + 1))
    with pytest.raises(ConnectionClosed) as closed:
        large.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
    broken = play_test(served.address, served.key, 2, [0])
    broken._socket.socket.sendall(b"\xff" * 64)  # reserved bits, no such opcode
    with pytest.raises(ConnectionClosed) as closed:
        broken.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1002
    play_out(other)


def test_key_guessing_is_rate_limited(served: Served) -> None:
    reasons = collections.Counter[str]()
    for number in range(LIMITS.address_wrong_keys + 2):
        reason = evaluation_info(served.address, f"hk_eval_{number}")["human_ai_eval_done"]
        reasons[reason.partition(":")[0]] += 1
    assert reasons == {
        "this submission key is unknown, revoked or expired": 3,
        "more than 3 unknown keys were tried from your address within a minute": 2,
    }
    with pytest.raises(ServerError, match=r"try again in \d+ s"):
        play_test(served.address, "hk_test_x", 2, [0])


def test_openings_and_lists_per_key_are_limited(tmp_path: Path, backend: Any) -> None:
    limits = NetworkLimits(key_openings=2, key_infos=2)
    store, limiter = Store(tmp_path / "challenge.sqlite"), guard_of(limits)
    store.add_entry("mine")
    keys = [store.add_key("mine", "test") for _ in range(2)]
    with serve_app(
        make_challenge(store, backend, {2: ("bot:simple", "bot:iggi")}, limiter), limiter
    ) as address:
        for key in keys:
            for _ in range(2):
                play_test(address, key, 2, [0]).close()
                assert evaluation_info(address, key)["human_ai_eval_done"] is False
            with pytest.raises(ServerError, match=r"than 2 games were opened with this key .*"):
                play_test(address, key, 2, [0])
            assert re.fullmatch(
                r"more than 2 lists of this key's games were requested within a minute: try again "
                r"in \d+ s",
                evaluation_info(address, key)["human_ai_eval_done"],
            )


def test_addresses_and_keys_are_never_written(
    served: Served,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("INFO")
    here, wrong = "127.0.0.7", "hk_test_" + "x" * 43
    play_out(play_test(served.address, served.key, 2, [0], here))
    game = play_test(served.address, served.key, 2, [0], here)
    game.send('{"agent_0": 99}')
    with pytest.raises(ServerError) as refused:
        game.receive()
    texts = [str(refused.value)]
    for _ in range(LIMITS.address_wrong_keys + 1):
        with pytest.raises(ServerError) as refused:
            play_test(served.address, wrong, 2, [0], here)
        texts.append(str(refused.value))
    texts.append(str(evaluation_info(served.address, served.key)))
    for page in ("", "leaderboard.json", "leaderboard.csv"):
        with urllib.request.urlopen(served.address + page) as answer:
            texts.append(answer.read().decode())
    game.close()
    gone(served, 0)
    output = capfd.readouterr()
    files = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert len(texts) == LIMITS.address_wrong_keys + 6 and len(files) >= 2
    for text in (caplog.text, output.out, output.err, *files, *texts):
        for secret in (here, served.key[14:], wrong[14:]):
            assert secret not in text


async def talkative(scope: Any, receive: Any, send: Any) -> None:
    """An application that sends 256 MiB by either protocol, more than any buffer holds."""
    if scope["type"] == "lifespan":
        return
    message: dict[str, Any] = {"type": "websocket.send", "bytes": b"x" * 2**16}
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        message = {"type": "http.response.body", "body": b"x" * 2**16, "more_body": True}
    with contextlib.suppress(OSError, RuntimeError):  # disconnected
        for _ in range(4096):
            await send(message)


UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize(
    "headers",
    [b"", pytest.param(UPGRADE, marks=pytest.mark.slow)],
    ids=["http", "websocket"],
)
def test_only_non_reading_client_is_disconnected(headers: bytes) -> None:
    limiter = RequestLimiter(NetworkLimits(unread_s=2.0))
    with serve_app(talkative, limiter) as address, contextlib.ExitStack() as opened:
        served = Served(address, "", limiter)
        non_reader, reads = (opened.enter_context(connected(served)) for _ in range(2))
        for one in (non_reader, reads):
            one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        until = time.monotonic() + 120
        while limiter.connections.total() < 2:  # so that reading starts after both connections
            assert time.monotonic() < until
            time.sleep(0.005)
        while limiter.connections.total() > 1:
            assert reads.recv(2**16) and time.monotonic() < until
            time.sleep(0.005)
        assert reads.recv(2**16)
        reads.close()
        assert len(read_all(non_reader)) < 2**26  # data in flight, then the end


def test_rate_limit_refills_and_forgets_old_addresses() -> None:
    now = [0.0]
    rate = RateLimit(6, lambda: now[0])
    for _ in range(6):
        assert rate.wait_s("a") == 0
        rate.take("a")
    assert rate.wait_s("a") == 10 and rate.wait_s("b") == 0
    now[0] = 4.0
    assert rate.wait_s("a") == 6
    now[0] = 10.0
    assert rate.wait_s("a") == 0
    now[0] = 1000.0  # at most a minute's tokens accumulate
    for _ in range(6):
        assert rate.wait_s("a") == 0
        rate.take("a")
    assert rate.wait_s("a") == 10
    for number in range(30_000):
        rate.take(str(number))
    assert len(rate._buckets) == 10_000


def test_zero_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="--limits.address-openings: expected above 0, got 0"):
        NetworkLimits(address_openings=0)
