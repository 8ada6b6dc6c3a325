"""Time of `hanabi-rl play` to the first state, to the reply to a first move, and to later replies.

Without a compilation cache, and with the cache of the first start; without pauses before moves.

    python benchmarks/play_start.py --players 2 --agent agent:hgroup-2p --json
    python benchmarks/play_start.py --agent 'agent:hgroup-2p?search=fast' --moves 20
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
from typing import Any, NamedTuple

from websockets.sync.client import ClientConnection, connect


class Start(NamedTuple):
    """One start of the command, in seconds."""

    table: float
    """To the first frame of a first game."""
    answer: float
    """Then to the first move of the partner."""
    processor: float
    """Processor time of the whole process, which other processes on the machine lengthen less."""
    moves: list[float]
    """From each later move to the frame in which all others have moved."""
    moves_processor: list[float]
    """The processor time of that."""


def start(arguments: list[str], cache: Path, games: Path, moves: int) -> Start:
    """Starts the command, and plays 1 + `moves` moves, of which the first is made at once."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    command = [sys.executable, "-m", "hanabi_rl", "play", *arguments, "--no-browser", "--port", "0"]
    command += ["--move-delay", "0"]
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
            frame = after_move(socket, frame)
            timeout_s = time.perf_counter() - started
            seconds, processor = [], []
            for _ in range(moves):
                if frame["over"]:
                    break
                began, used = time.perf_counter(), _processor_s(server.pid)
                frame = after_move(socket, frame)
                seconds.append(time.perf_counter() - began)
                processor.append(_processor_s(server.pid) - used)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    return Start(table_s, timeout_s, _children_s() - spent, seconds, processor)


def after_move(socket: ClientConnection, frame: dict[str, Any]) -> dict[str, Any]:
    """The frame after the first legal move, when it is our turn again or the game is over."""
    turn = frame["turn"]
    legal = [action["id"] for action in frame["actions"] if action["why_not"] is None]
    socket.send(json.dumps({"action": legal[0], "turn": turn}))
    while frame["turn"] == turn or not (frame["over"] or frame["to_move"] == frame["you"]):
        frame = json.loads(socket.recv())["frame"]
    return frame


def _processor_s(pid: int) -> float:
    """Of a process that runs."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, used[11:13])) / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints a table, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agent", default="agent:hgroup-2p")
    parser.add_argument("--players", default="2")
    parser.add_argument("--repeats", type=int, default=3, help="starts with the cache")
    parser.add_argument("--moves", type=int, default=0, help="to play after the first one")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    arguments = [chosen.agent, "--players", chosen.players]
    with tempfile.TemporaryDirectory() as folder:
        cache, games = Path(folder, "cache"), Path(folder, "games")
        runs = [
            start(arguments, cache, games / str(i), chosen.moves) for i in range(1 + chosen.repeats)
        ]
    cold, later = runs[0], [run[:3] for run in runs[1:]]
    warm = [statistics.median(values) for values in zip(*later, strict=True)]
    lines = [
        f"hanabi-rl play {' '.join(arguments)}: seconds to the first table, to the answer to a"
    ]
    lines += ["first move made at once, and of processor time"]
    for name, (table_s, timeout_s, processor_s) in (
        ("without a compilation cache", cold[:3]),
        (f"with one (median of {chosen.repeats})", warm),
    ):
        lines += [f"{name:>28} {table_s:6.1f} {timeout_s:6.1f} {processor_s:6.1f}"]
    for what, field in (("answers", "moves"), ("their processor time", "moves_processor")):
        times = sorted(second for run in runs for second in getattr(run, field))
        if times:
            lines += [
                f"{what}, {len(times)} moves: median {statistics.median(times):.3f}, 95% below "
                f"{times[int(0.95 * len(times))]:.3f}, at most {times[-1]:.3f} s"
            ]
    print(*lines, f"load {os.getloadavg()[0]:.1f}", sep="\n", file=sys.stderr)
    if chosen.json:
        print(json.dumps({"cold_s": cold, "warm_s": runs[1:], "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
