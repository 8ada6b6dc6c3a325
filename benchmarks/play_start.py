"""How long `hanabi-rl play` takes from the command to the first table, without a compilation cache
and with the one it left.

    python benchmarks/play_start.py --players 2 --agent bot:convention --json
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


def first_table(arguments: list[str], cache: Path, games: Path) -> tuple[float, float]:
    """Seconds from starting the command to the first frame of the first game, and the processor
    seconds of the whole process, which other processes on the machine lengthen less."""
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
            assert json.loads(socket.recv())["type"] == "frame"
        wall_s = time.perf_counter() - started
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    return wall_s, _children_s() - spent


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints a table, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agent", default="bot:convention")
    parser.add_argument("--players", default="2")
    parser.add_argument("--repeats", type=int, default=3, help="starts with the cache")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    arguments = [chosen.agent, "--players", chosen.players]
    with tempfile.TemporaryDirectory() as folder:
        cache, games = Path(folder, "cache"), Path(folder, "games")
        cold = first_table(arguments, cache, games)
        warm = [first_table(arguments, cache, games) for _ in range(chosen.repeats)]
    wall_s, processor_s = (statistics.median(values) for values in zip(*warm, strict=True))
    print(
        f"hanabi-rl play {' '.join(arguments)}: first table after {cold[0]:.1f} s "
        f"({cold[1]:.1f} s of processor time) without a compilation cache, {wall_s:.1f} s "
        f"({processor_s:.1f} s) with one (median of {len(warm)}); load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
    )
    if chosen.json:
        print(json.dumps({"cold_s": cold, "warm_s": warm, "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
