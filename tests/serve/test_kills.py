"""A server that is killed: no finished game is lost, none is granted twice, no deal changes, and
every score is as it was delivered.

Five kills by default, fifty with HANABI_RL_INJECTIONS=full.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.games import ROOT
from support.protocol import ServerSaysError, play_next, play_out

from hanabi_rl.serve.store import Store

KILLS = 50 if os.environ.get("HANABI_RL_INJECTIONS") == "full" else 5
GAMES, LOOPS = 20 * KILLS, 3


class Server:
    """`hanabi-rl serve` as a process of its own, killed and started again."""

    def __init__(self, state: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self._state = f"http://127.0.0.1:{self.port}/", state
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Returns once it answers."""
        proxies = ["--proxies-2p", "bot:simple", "bot:value", "--proxies-3p"]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hanabi_rl", "serve", "--state", str(self._state)),
                *(*proxies, "--port", str(self.port), "--slots", "4"),
            ],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}healthz"):
                return
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        """Everything, the inference process too, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "challenge")
    yield running
    running.kill()


@pytest.mark.slow
def test_a_killed_server_loses_and_repeats_nothing(server: Server, tmp_path: Path) -> None:
    store = Store(tmp_path / "challenge" / "challenge.sqlite")
    store.add_entry("mine")
    key = store.add_key("mine", "eval", {2: GAMES})
    delivered: list[tuple[int, float]] = []
    over, lock = threading.Event(), threading.Lock()

    def loop() -> None:
        while not over.is_set():
            try:
                environment = play_next(server.address, key)
                score = play_out(environment)
            except ServerSaysError as refused:
                if f"all {GAMES} games" in str(refused):
                    return
                time.sleep(0.05)
            except Exception:  # the server is gone: the same loop goes on with a new connection
                time.sleep(0.05)
            else:
                with lock:
                    delivered.append((environment.info["game_id"], score))

    loops = [threading.Thread(target=loop) for _ in range(LOOPS)]
    for thread in loops:
        thread.start()
    rng = random.Random(0)
    for kill in range(KILLS):  # spread over the games, however fast they are played
        due = (kill + rng.random()) * 0.8 * GAMES / KILLS
        while len(delivered) < due and any(thread.is_alive() for thread in loops):
            time.sleep(rng.uniform(0.0, 0.05))
        server.kill()
        server.start()
    for thread in loops:
        thread.join(300)
        assert not thread.is_alive()
    over.set()

    opened = store.key(key)
    assert opened is not None
    finished = {grant.game_id: score for grant, score in store.finished(opened)}
    rows = store.rows(opened)
    assert len(finished) == GAMES == sum(row.status == "done" for row in rows)
    assert len(delivered) == len({game for game, _ in delivered})  # none twice
    assert all(finished[game] == score for game, score in delivered)
    decks = {grant.deck for grant, _ in store.finished(opened)}
    assert len(decks) == GAMES
    assert sum(row.interruptions for row in rows) > 0
