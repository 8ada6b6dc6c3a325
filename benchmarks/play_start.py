"""How long `hanabi-rl play` takes from the command to the first table, and to the partner's answer
to a first move made at once, without a compilation cache and with the one it left.

    python benchmarks/play_start.py --players 2 --agent agent:hgroup-2p --json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from websockets.sync.client import connect


def start(arguments: list[str], cache: Path, games: Path) -> tuple[float, float, float]:
    """Seconds from starting the command to the first frame of a first game, then to the first move
    of the partner, and the processor seconds of the whole process, which other processes on the
    machine lengthen less."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    command = [sys.executable, "-m", "hanabi_rl", "play", *arguments, "--no-browser", "--port", "0"]
    started, spent = time.perf_counter(), _children_s()
    server = subprocess.Popen(
        [*command, "--out", str(games)],
        env=environment | {"HANABI_RL_CACHE": str(cache), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[4]
        with urllib.request.urlopen(address) as page:
            table = page.geturl()
        with connect(table.replace("http", "ws", 1) + "/ws") as socket:
            frame = json.loads(socket.recv())["frame"]
            table_s = time.perf_counter() - started
            legal = [action["id"] for action in frame["actions"] if action["why_not"] is None]
            socket.send(json.dumps({"action": legal[0], "turn": 0}))
            while json.loads(socket.recv())["frame"]["turn"] < 2:
                pass
        answer_s = time.perf_counter() - started
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    return table_s, answer_s, _children_s() - spent


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints a table, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agent", default="agent:hgroup-2p")
    parser.add_argument("--players", default="2")
    parser.add_argument("--repeats", type=int, default=3, help="starts with the cache")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    arguments = [chosen.agent, "--players", chosen.players]
    with tempfile.TemporaryDirectory() as folder:
        cache, games = Path(folder, "cache"), Path(folder, "games")
        runs = [start(arguments, cache, games / str(i)) for i in range(1 + chosen.repeats)]
    cold, warm = runs[0], [statistics.median(values) for values in zip(*runs[1:], strict=True)]
    lines = [
        f"hanabi-rl play {' '.join(arguments)}: seconds to the first table, to the answer to a"
    ]
    lines += ["first move made at once, and of processor time"]
    for name, (table_s, answer_s, processor_s) in (
        ("without a compilation cache", cold),
        (f"with one (median of {chosen.repeats})", warm),
    ):
        lines += [f"{name:>28} {table_s:6.1f} {answer_s:6.1f} {processor_s:6.1f}"]
    print(*lines, f"load {os.getloadavg()[0]:.1f}", sep="\n", file=sys.stderr)
    if chosen.json:
        print(json.dumps({"cold_s": cold, "warm_s": runs[1:], "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
