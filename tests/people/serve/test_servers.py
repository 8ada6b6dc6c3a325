"""Several servers of one store, and an unavailable database."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.games import ROOT
from support.inference import InProcess
from support.postgres import Cluster
from support.protocol import ServerError, evaluation_info, first_legal, play_next, play_out
from support.serving import agree, serve_app

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve import challenge
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.store import Store

PROXIES = {2: ("bot:simple",)}


class Clock:
    """This machine's clock, which tests can advance."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture(scope="module")
def partner() -> Any:
    return InProcess(("bot:simple",), Rules(), slots=4)


@contextlib.contextmanager
def server(
    place: Path | str, folder: Path, partner: Any, worker: str, clock: Clock | None = None
) -> Iterator[tuple[str, Store]]:
    store = Store(place, clock=clock or Clock(), secret=folder / "challenge.secret", worker=worker)
    agreed = agree(store, PROXIES)
    with serve_app(challenge.make_challenge(store, partner, agreed, RequestLimiter())) as address:
        yield address, store
    store.close()


def answer(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def leased(store: Store) -> list[str]:
    """Workers of the active leases."""
    with store.database.transaction("read") as db:
        found = db.execute("SELECT worker FROM games WHERE leased = 1").fetchall()
    return [worker for (worker,) in found]


def wait_until(holds: Any) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_game_continues_on_another_server(place: Path | str, tmp_path: Path, partner: Any) -> None:
    with (
        server(place, tmp_path, partner, "a") as (here, store),
        server(place, tmp_path, partner, "b") as (there, _),
    ):
        store.add_entry("mine")
        text = store.add_key("mine", "eval", {2: 8})
        key = store.key(text)
        assert key is not None
        first, frames = play_next(here, text), []
        for _ in range(5):
            frames.append(first.rows)
            first.step(first_legal(first.rows))
        first.close()
        wait_until(lambda: store.rows(key)[0].interruptions)
        again = play_next(there, text)
        assert again.info == first.info
        for rows in frames:
            for agent, row in rows.items():
                np.testing.assert_array_equal(again.rows[agent]["obs"], row["obs"])
            again.step(first_legal(again.rows))
        for agent, row in first.rows.items():
            np.testing.assert_array_equal(again.rows[agent]["obs"], row["obs"])
        scores = {again.info["game_id"]: play_out(again)}

        def play(address: str) -> list[tuple[int, float]]:
            games = []
            with contextlib.suppress(ServerError):
                while True:
                    environment = play_next(address, text)
                    games.append((environment.info["game_id"], play_out(environment)))
            return games

        with ThreadPoolExecutor(4) as pool:
            played = [game for each in pool.map(play, [here, there] * 2) for game in each]
        assert len(played) == len(dict(played)) == 7 and not set(dict(played)) & set(scores)
        scores |= dict(played)
        assert {lease.game_id: score for lease, score in store.finished(key)} == scores
        assert evaluation_info(here, text) == evaluation_info(there, text)
        assert evaluation_info(here, text)["human_ai_eval_done"] is True
        assert answer(f"{here}leaderboard.csv") == answer(f"{there}leaderboard.csv")


def test_server_survives_database_outage(
    tmp_path: Path, partner: Any, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(challenge, "HEARTBEAT_S", 0.05)
    clock = Clock()
    with server(postgres.new(), tmp_path, partner, "a", clock) as (address, store):
        store.add_entry("mine")
        key = store.add_key("mine", "eval", {2: 2})
        assert answer(f"{address}readyz") == (200, "ready")
        left = play_next(address, key)
        left.step(first_legal(left.rows))
        with postgres.away():
            with pytest.raises(ServerError, match="database unavailable; the game is saved"):
                left.step(first_legal(left.rows))
            with pytest.raises(ServerError, match="database unavailable"):
                play_next(address, key)
            assert "database unavailable" in evaluation_info(address, key)["human_ai_eval_done"]
            assert answer(f"{address}leaderboard.csv")[0] == 503
            wait_until(lambda: answer(f"{address}readyz")[0] == 503)
            assert answer(f"{address}healthz")[0] == 200
        wait_until(lambda: answer(f"{address}readyz")[0] == 200)
        # its end did not reach the database: a later heartbeat records it
        clock.ahead = 31.0
        known = store.key(key)
        assert known is not None
        wait_until(lambda: not leased(store))
        again = play_next(address, key)
        assert again.info == left.info
        play_out(again)
        assert [row.interruptions for row in store.rows(known)] == [0, 0]  # the server's fault


@pytest.mark.slow
def test_web_workers_share_port_and_restart(place: Path | str, tmp_path: Path) -> None:
    where = ["--state", str(tmp_path)]
    where += ["--store", place] if isinstance(place, str) else []
    store = Store(place, secret=tmp_path / "challenge.secret")
    store.add_entry("mine")
    text = store.add_key("mine", "eval", {2: 12})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    running = subprocess.Popen(
        [
            *(sys.executable, "-m", "hanabi_rl", "serve", *where, "--web-workers", "2"),
            *("--proxies-2p", "bot:simple", "--proxies-3p", "--port", str(port), "--slots", "4"),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    def workers() -> set[str]:
        with store.database.transaction("read") as db:
            return {name for (name,) in db.execute("SELECT name FROM workers").fetchall()}

    try:
        wait_until(lambda: len(workers()) == 2)
        open_games = [play_next(address, text) for _ in range(6)]
        assert (
            set(leased(store)) <= workers()
            and len({one.info["game_id"] for one in open_games}) == 6
        )
        for one in open_games:
            play_out(one)
        (killed, _) = (int(name.rpartition("/")[2]) for name in sorted(workers()))
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: len(workers()) == 3)  # replaced by another
        for _ in range(6):
            play_out(play_next(address, text))
        key = store.key(text)
        assert key is not None
        assert {row.status for row in store.rows(key)} == {"done"}
    finally:
        running.terminate()
        assert running.wait(120) == 0
        store.close()
