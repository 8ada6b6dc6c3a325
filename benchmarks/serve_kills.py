"""A challenge server that is repeatedly killed while candidates play.

Checks that no game is lost, granted twice, redealt or scored differently than reported to its
candidate; measures the time until the server is back.

    python benchmarks/serve_kills.py --kills 50 --games 1000
    python benchmarks/serve_kills.py --kills 50 --games 1000 --what inference

SIGKILL of all server processes or of its inference process only, spread evenly over the games and
at random times within them. Exits with 1 after a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from serve_load import LEASES, ROOT, legal, processes
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.schedule import deck_of
from hanabi_rl.people.serve.store import Store


class Server:
    """`hanabi-rl serve` as a process of its own, killed and started again at one address."""

    def __init__(self, state: Path, arguments: Sequence[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        self._command = [sys.executable, "-m", "hanabi_rl", "serve", "--state", str(state)]
        self._command += ["--port", str(port), "--limits.address-openings", "1000000"]
        self._command += ["--limits.key-openings", "1000000", *arguments]
        self._running: subprocess.Popen[bytes] | None = None

    async def start(self) -> float:
        """Seconds until it is ready."""
        started = time.perf_counter()
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self._running = subprocess.Popen(
            self._command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        )
        while not await asyncio.to_thread(self._is_ready):
            if self._running.poll() is not None:
                raise SystemExit("the server did not start")
            await asyncio.sleep(0.05)
        return time.perf_counter() - started

    def kill(self) -> None:
        """Everything at once."""
        assert self._running is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()

    def kill_inference(self) -> None:
        """It alone."""
        assert self._running is not None
        os.kill(processes(self._running.pid)["inference"], signal.SIGKILL)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}readyz", timeout=5):
                return True
        except OSError:
            return False


@dataclasses.dataclass
class Heard:
    """What the candidates saw."""

    ends: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # game_id, score
    broken: int = 0  # connections that were lost
    longest_s: float = 0.0  # between an action and its frame
    refusals: set[str] = dataclasses.field(default_factory=set)


async def candidate(address: str, key: str, number: int, heard: Heard) -> None:
    """Plays legal moves at random until no game of the key is left."""
    rng = random.Random(number)
    uri = f"{address.replace('http', 'ws', 1)}play-next?submission_key={key}"
    while True:
        try:
            async with connect(uri, max_size=2**20, open_timeout=60) as game:
                await game.recv()  # the greeting
                refused = await _play(game, rng, heard)
        except (OSError, WebSocketException, EOFError):
            heard.broken += 1
            await asyncio.sleep(0.1)
            continue
        if "games of this key are finished" in refused:
            return
        if refused:
            heard.refusals.add(refused)
            await asyncio.sleep(0.2)


async def _play(game: Any, rng: random.Random, heard: Heard) -> str:
    """A game to its end; "" or what the server refuses it with."""
    frame = orjson.loads(await game.recv())
    if "error_details" in frame:
        return str(frame["error_details"])
    info = frame["info"]
    while not frame.get("done"):
        chosen = {a: legal(frame[a]["legal_moves"], rng) for a in info["candidate_controlling"]}
        sent = time.perf_counter()
        await game.send(orjson.dumps(chosen).decode())
        frame = orjson.loads(await game.recv())
        heard.longest_s = max(heard.longest_s, time.perf_counter() - sent)
        if "error_details" in frame:
            return str(frame["error_details"])
    heard.ends.append((info["game_id"], int(frame["score"])))
    return ""


async def killing(server: Server, what: str, kills: int, games: int, heard: Heard) -> list[float]:
    """Kills at even distances in games; for each the seconds until it was ready again (of a server;
    else 0). A kill may cost the candidates the news of an end, so the last tenth is left in peace.
    """
    rng, ready_s = random.Random(0), []
    for number in range(kills):
        while len(heard.ends) < 0.9 * games * (number + 1) / (kills + 1):
            await asyncio.sleep(0.002)
        await asyncio.sleep(rng.uniform(0, 0.1))
        if what == "server":
            server.kill()
            ready_s.append(await server.start())
        else:
            server.kill_inference()
            ready_s.append(0.0)
        print(f"kill {number + 1}, {len(heard.ends)} games", *ready_s[-1:], file=sys.stderr)
    return ready_s


def wrong(store: Store, key: str, games: int, heard: Heard) -> dict[str, int]:
    """How many interruptions were charged to the candidate, who made none, and how many games were
    lost, heard of twice, scored otherwise or dealt otherwise."""
    opened = store.key(key)
    assert opened is not None
    kept = list(store.finished(opened))
    scores = {lease.game_id: score for lease, score in kept}
    decks = [deck_of(store.secret, opened.key_id, Rules(), i) for i in range(games)]
    return {
        "charged": sum(row.interruptions for row in store.rows(opened)),
        "lost": games - len(kept) + sum(game not in scores for game, _ in heard.ends),
        "twice": len(heard.ends) - len({game for game, _ in heard.ends}),
        "scored_otherwise": sum(scores.get(game) != score for game, score in heard.ends),
        "dealt_otherwise": sum(g.deck != deck for (g, _), deck in zip(kept, decks, strict=False)),
    }


def interrupted(store: Store) -> int:
    """How often a game was granted again."""
    with store.database.transaction("read") as db:
        (found,) = db.execute("SELECT SUM(lease - 1) FROM games WHERE lease > 0").fetchone()
    return int(found)


async def trial(state: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Starts, plays and kills; the figures."""
    store = Store(state / "challenge.sqlite")
    store.add_entry("killed")
    key = store.add_key("killed", "eval", {2: chosen.games})
    server, heard = Server(state, ["--proxies-3p", *chosen.serve]), Heard()
    started = time.perf_counter()
    try:
        first_s = await server.start()
        kills = killing(server, chosen.what, chosen.kills, chosen.games, heard)
        playing = [candidate(server.address, key, number, heard) for number in range(LEASES)]
        ready_s, _ = await asyncio.gather(kills, asyncio.gather(*playing))
    finally:
        server.kill()
    opened = store.key(key)
    assert opened is not None
    ready = {"first_ready_s": first_s}
    if chosen.what == "server":
        ready |= {"ready_s_median": sorted(ready_s)[len(ready_s) // 2], "ready_s_max": max(ready_s)}
    return {
        "what": chosen.what,
        "kills": len(ready_s),
        "games": chosen.games,
        "wrong": wrong(store, key, chosen.games, heard),
        "heard_to_the_end": len(heard.ends),
        "interrupted": interrupted(store),
        "connections_lost": heard.broken,
        "longest_move_s": heard.longest_s,
        "refusals": sorted(heard.refusals),
        **ready,
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    """Prints a table, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--what", choices=["server", "inference"], default="server")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="flags of `serve`")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = asyncio.run(trial(Path(folder), chosen))
    for name, figure in record.items():
        print(f"{name:20} {figure}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(record))
    lost_a_connection = chosen.what == "inference" and record["connections_lost"]
    if any(record["wrong"].values()) or lost_a_connection:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
