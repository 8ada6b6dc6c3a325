"""Cost of hostile clients for other games on a challenge server.

Games at a steady rate, first alone, then with malformed messages, idle connections and a flood of
connections.

    python benchmarks/serve_hostile.py --seconds 60 --messages 10000 --json

The hostile clients are a separate process. Prints the numbers of messages sent and accepted as
moves, the percentiles of the other games without and with them, and the additional memory of the
server's processes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from serve_load import fill, measured, memory_mb, play, processes, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.invalid_messages import hostile

from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.store import Store

SILENT = 60  # connections that never ask for anything, made again when they are ended
FLOOD_PER_S = 20


async def attack(address: str, key: str, seconds: float, messages: int) -> dict[str, int]:
    """Everything at once for `seconds`; how many of what."""
    counts = {"messages": 0, "accepted": 0, "silent": 0, "flood": 0}
    until, at = time.perf_counter() + seconds, urlsplit(address)
    rate = messages / seconds

    async def send_wrong() -> None:
        rng, started = random.Random(0), time.perf_counter()
        uri = f"{address.replace('http', 'ws', 1)}play-random-agent?num_players=2"
        uri += f"&candidate_positions=0&test_submission_key={key}"
        while counts["messages"] < messages:
            with contextlib.suppress(OSError, WebSocketException):
                async with connect(uri, max_size=2**20, open_timeout=60) as game:
                    await game.recv()
                    await game.recv()
                    for _ in range(MAX_INVALID_MESSAGES):
                        due = started + counts["messages"] / rate
                        await asyncio.sleep(max(0.0, due - time.perf_counter()))
                        await game.send(hostile(rng))
                        counts["messages"] += 1
                        with contextlib.suppress(ConnectionClosed):
                            answer = orjson.loads(await game.recv())
                            counts["accepted"] += "error_details" not in answer

    async def be_silent() -> None:
        while time.perf_counter() < until:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(at.hostname, at.port)
                counts["silent"] += 1
                writer.write(b"GET /evaluation-info/x HTTP/1.1\r\nHost: x\r\nX-Never: ")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), until - time.perf_counter())
                writer.close()

    async def flood() -> None:
        while time.perf_counter() < until:
            with contextlib.suppress(OSError), socket.create_connection((at.hostname, at.port)):
                counts["flood"] += 1
            await asyncio.sleep(1 / FLOOD_PER_S)

    await asyncio.gather(send_wrong(), *(be_silent() for _ in range(SILENT)), flood())
    return counts


def attacker(answer: Any, *given: Any) -> None:
    """A process: sends what `attack` counted."""
    answer.send(asyncio.run(attack(*given)))


def main() -> None:
    """Prints the figures, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="without, and with the attack")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--games", type=int, default=20, help="of the others, at once")
    parser.add_argument("--rate", type=float, default=100.0, help="moves/s of the others")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        keys, _ = fill(Path(folder), chosen.games)
        store = Store(Path(folder) / "challenge.sqlite")
        test_key = store.add_key("load", "test")
        store.close()
        limits = ["--limits.address-connections", "2000", "--limits.address-openings", "1000000"]
        limits += ["--limits.key-openings", "1000000"]
        with served(Path(folder), ["--proxies-3p", *limits]) as (address, pid):
            parts = processes(pid)

            def others() -> dict[str, Any]:
                playing = play(address, keys, chosen.games, chosen.seconds, chosen.rate)
                found: dict[str, Any] = asyncio.run(measured(pid, playing, chosen.seconds))
                return found

            asyncio.run(play(address, keys, chosen.games, 5.0, chosen.rate))
            record["alone"] = others()
            before = {name: memory_mb(part) for name, part in parts.items()}
            ours, theirs = multiprocessing.Pipe()
            given = (theirs, address, test_key, chosen.seconds, chosen.messages)
            attacking = multiprocessing.get_context("spawn").Process(target=attacker, args=given)
            attacking.start()
            record["attacked"] = others()
            record["attack"] = ours.recv()
            attacking.join()
            after = {name: memory_mb(part) for name, part in parts.items()}
            record["memory_mb_more"] = {name: after[name] - before[name] for name in parts}
    for name, found in record.items():
        print(name, *(f"{k} {v}" for k, v in found.items()), file=sys.stderr)
    if chosen.json:
        print(json.dumps(record))
    if record["attack"]["accepted"] or record["attacked"]["errors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
