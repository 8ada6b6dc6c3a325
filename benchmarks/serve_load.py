"""Challenge server under load: one candidate, 200 at full speed, 200 at a steady rate.

Also `evaluation-info` of a key with all games finished.

    python benchmarks/serve_load.py --minutes 10 --json

The server is a separate process on this machine, the load generator this one; they share its cores.
A move's time is from sending it to receiving the next frame, compressed as the published client
requests. Also prints the CPU time per move of each process, independent of other load, and the
server's resident memory with all games open and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from hanabi_rl.people.serve.grants import KeyLimits
from hanabi_rl.people.serve.store import Store

ROOT = Path(__file__).parents[1]
LEASES = KeyLimits().leases


class Load:
    """What `play` found: seconds of each move, moves of each player, errors in words."""

    def __init__(self, players: int) -> None:
        self.seconds: list[float] = []
        self.moves = [0] * players
        self.errors: list[str] = []


async def play(
    address: str, keys: Sequence[str], players: int, seconds: float, rate: float
) -> Load:
    """`players` games at a time for `seconds`, at `rate` moves/s in all (0: without thinking)."""
    load, until = Load(players), time.perf_counter() + seconds
    pause = players / rate if rate else 0.0
    base = address.replace("http", "ws", 1)

    async def player(number: int) -> None:
        rng, due = (
            random.Random(number),
            time.perf_counter() + random.Random(number).random() * pause,
        )
        uri = f"{base}play-next?submission_key={keys[number // LEASES]}"
        while time.perf_counter() < until:
            async with connect(uri, max_size=2**20, open_timeout=60) as game:
                await game.recv()  # the greeting
                frame = orjson.loads(await game.recv())
                if "error_details" in frame:
                    load.errors.append(frame["error_details"])
                    await asyncio.sleep(0.5)
                    continue
                agents = frame["info"]["candidate_controlling"]
                while not frame.get("done") and time.perf_counter() < until:
                    if pause:
                        await asyncio.sleep(max(0.0, due - time.perf_counter()))
                        due = max(due, time.perf_counter() - pause) + pause
                    actions = {agent: legal(frame[agent]["legal_moves"], rng) for agent in agents}
                    sent = time.perf_counter()
                    await game.send(orjson.dumps(actions).decode())
                    frame = orjson.loads(await game.recv())
                    if "error_details" in frame:
                        load.errors.append(frame["error_details"])
                        break
                    load.seconds.append(time.perf_counter() - sent)
                    load.moves[number] += 1

    async def kept(number: int) -> None:
        while time.perf_counter() < until:
            try:
                await player(number)
            except (OSError, WebSocketException) as error:
                load.errors.append(f"{type(error).__name__}: {error}")

    await asyncio.gather(*map(kept, range(players)))
    return load


def legal(moves: Sequence[float], rng: random.Random) -> int:
    """One of the legal moves."""
    return rng.choice([action for action, allowed in enumerate(moves) if allowed])


def figures(load: Load, seconds: float) -> dict[str, Any]:
    """Percentiles in ms, moves/s, and the slowest player's share of the median player's rate."""
    ordered = sorted(load.seconds) or [float("nan")]
    return {
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[int(0.99 * len(ordered))],
        "moves_per_s": len(ordered) / seconds,
        "fairness": min(load.moves) / max(1, statistics.median(load.moves)),
        "errors": len(load.errors),
        "first_error": next(iter(load.errors), ""),
    }


@contextlib.contextmanager
def served(state: Path, arguments: Sequence[str]) -> Any:
    """`hanabi-rl serve` on `state`; yields (address, process id) once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hanabi_rl", "serve", "--state", str(state)]
    server = subprocess.Popen(
        [*command, "--port", str(port), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        while True:
            if server.poll() is not None:
                raise SystemExit("the server did not start")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}healthz"):
                break
            time.sleep(0.1)
        yield address, server.pid
    finally:
        server.terminate()
        server.wait(30)


def processes(pid: int) -> dict[str, int]:
    """What the server consists of, by name."""
    tasks = Path(f"/proc/{pid}/task").iterdir()  # a child is listed at the thread that began it
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    lines = {child: Path(f"/proc/{child}/cmdline").read_text() for child in children}
    inference = next(child for child, line in lines.items() if "spawn_main" in line)
    return {"web": pid, "inference": inference}


def processor_s(pid: int) -> float:
    """Of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measured(pid: int, playing: Awaitable[Load], seconds: float) -> dict[str, Any]:
    """What `playing` found, and what it cost."""
    parts = processes(pid)
    spent = {name: processor_s(part) for name, part in parts.items()}
    load_s = time.process_time()

    async def memory() -> dict[str, list[float]]:
        await asyncio.sleep(min(20.0, seconds / 4))  # all games are open
        first = {name: memory_mb(part) for name, part in parts.items()}
        await asyncio.sleep(seconds - min(20.0, seconds / 4) - 0.5)
        return {name: [first[name], memory_mb(part)] for name, part in parts.items()}

    load, resident = await asyncio.gather(playing, memory())
    moves = max(1, len(load.seconds))
    each_ms = {name: 1000 * (processor_s(parts[name]) - spent[name]) / moves for name in parts}
    each_ms["load"] = 1000 * (time.process_time() - load_s) / moves
    return figures(load, seconds) | {
        "processor_ms_a_move": each_ms,
        "memory_mb": resident,
        "machine_load": os.getloadavg()[0],
    }


def info(address: str, key: str, repeats: int = 20) -> dict[str, float]:
    """Median ms of `evaluation-info`, and its packed size in bytes."""
    request = urllib.request.Request(
        f"{address}evaluation-info/{key}", headers={"Accept-Encoding": "gzip"}
    )
    seconds, size = [], 0
    for _ in range(repeats):
        started = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        seconds.append(time.perf_counter() - started)
    return {"ms": 1000 * statistics.median(seconds), "bytes": size}


def fill(state: Path, players: int) -> tuple[list[str], str]:
    """A store with keys for `players` games at a time, and a key whose 2,000 games are done."""
    store = Store(state / "challenge.sqlite")
    store.add_entry("load")
    keys = [store.add_key("load", "eval", {2: 1000}) for _ in range(-(-players // LEASES))]
    full = store.add_key("load", "eval", {2: 1000, 3: 1000})
    opened = store.key(full)
    assert opened is not None
    store.close()
    with contextlib.closing(sqlite3.connect(state / "challenge.sqlite")) as db, db:
        db.execute(
            "UPDATE games SET status = 'done', score = id % 26, points = id % 26, "
            "end_reason = 'finished' WHERE key_id = ?",
            (opened.key_id,),
        )
    return keys, full


def main() -> None:
    """Prints a table, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the steady load")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the others")
    parser.add_argument("--games", type=int, default=200, help="at once")
    parser.add_argument("--rate", type=float, default=400.0, help="moves/s of the steady load")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="flags of `serve`")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    record: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        keys, full = fill(Path(folder), chosen.games)
        limits = ["--limits.address-connections", "2000", "--limits.address-openings", "1000000"]
        arguments = ["--proxies-3p", *limits, *chosen.serve]
        with served(Path(folder), arguments) as (address, pid):
            record["info"] = info(address, full)
            steady_s = 60 * chosen.minutes
            for name, players, seconds, rate in (
                ("lone", 1, chosen.seconds, 0.0),
                ("saturation", chosen.games, chosen.seconds, 0.0),
                ("steady", chosen.games, steady_s, chosen.rate),
            ):
                playing = play(address, keys, players, seconds, rate)
                record[name] = asyncio.run(measured(pid, playing, seconds))
                print(name, *(f"{k} {v}" for k, v in record[name].items()), file=sys.stderr)
    print("info", record["info"], file=sys.stderr)
    if chosen.json:
        print(json.dumps(record))


if __name__ == "__main__":
    main()
