"""Complete games in Chromium, by keyboard or pointer only, against `hanabi-rl play`.

Half of the games run at 1280 x 800, half at 360 x 740; three of four have a reload, a second tab or
a lost network.

    python benchmarks/browser_games.py --games 100 --json
    python benchmarks/browser_games.py --games 20 --pointer 20

Needs Debian's chromium and Playwright's Python package. Prints the numbers of games recorded,
exported, accepted by `load_games` and cloned; the findings of axe-core; the browser's console
messages (without those about a removed network); the size of the page; and the time from a move to
the partner's, without the pause.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import browser as keys

from hanabi_rl.data.files import load_games

INCIDENTS = ("none", "reload", "two tabs", "lost network")
WATCH = """
const Plain = WebSocket, times = (window.moveTimes = []), sockets = (window.sockets = []);
window.WebSocket = class extends Plain {
  constructor(...given) {
    super(...given);
    sockets.push(this);
    this.addEventListener("message", (event) => {
      const frame = JSON.parse(event.data).frame;
      if (frame && this.sent && frame.turn === this.sent.turn + 2) {
        times.push(performance.now() - this.sent.at);
        this.sent = null;
      }
    });
  }
  send(text) {
    this.sent = { turn: JSON.parse(text).turn, at: performance.now() };
    super.send(text);
  }
};
"""
SEEN = """() => ({
  turn: document.title.match(/Turn (\\d+)/)[1],
  hints: [...document.querySelectorAll("button.hint[aria-disabled=false]")]
    .map((button) => button.dataset.key),
  full: document.querySelector(".counters strong").textContent === "8",
})"""


@contextlib.contextmanager
def table(agent: str, pause: float, out: Path) -> Iterator[str]:
    """`hanabi-rl play` in a process of its own; its address."""
    command = [sys.executable, "-m", "hanabi_rl", "play", agent, "--no-browser", "--port", "0"]
    server = subprocess.Popen(
        [*command, "--move-delay", str(pause), "--out", str(out)],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[4]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def move(page: Any, number: int, by_pointer: bool) -> None:
    """Gives a legal hint twice of three times, else discards or plays the oldest card."""
    seen = page.evaluate(SEEN)
    if number % 3 == 2 or not seen["hints"]:
        pressed = ["p" if seen["full"] else "d", "1", "Enter"]
        clicked = ["card-1", "play" if seen["full"] else "discard", "go"]
    else:
        button = seen["hints"][number % len(seen["hints"])]
        _, _, kind, value = button.split("-")
        pressed = ["h", "rygwb"[int(value)] if kind == "color" else value, "Enter"]
        clicked = [button, "go"]
    if by_pointer:
        for name in clicked:
            page.locator(f"[data-key={name}]").click()
    else:
        keys.press(page, pressed)
    keys.until(page, f"!document.title.includes('Turn {seen['turn']}:')")


def meet(page: Any, incident: str, times: list[float]) -> Any:
    """What befalls a game in its middle; the page that it goes on in."""
    times += page.evaluate("moveTimes.splice(0)")
    if incident == "reload":
        page.reload()
    elif incident == "two tabs":
        other, page = page, page.context.new_page()
        page.goto(other.url)
        page.wait_for_selector(".board")
        other.close()
    elif incident == "lost network":
        page.context.set_offline(True)
        page.evaluate("sockets.at(-1).close()")
        keys.until(page, "document.getElementById('network').textContent.includes('lost')")
        page.context.set_offline(False)
        keys.until(page, "document.getElementById('network').textContent === ''")
    page.wait_for_selector(".board")
    return page


def listen(context: Any, said: list[str]) -> None:
    """Adds what the consoles of all its pages say to `said`, and what their scripts throw."""

    def hear(message: Any) -> None:
        if message.type in ("error", "warning") and "ERR_INTERNET_DISCONNECTED" not in message.text:
            said.append(f"{message.type}: {message.text}")

    def watch(page: Any) -> None:
        page.on("console", hear)
        page.on("pageerror", lambda error: said.append(f"thrown: {error}"))

    context.on("page", watch)


def play_games(
    context: Any, address: str, games: int, times: list[float], by_pointer: bool = False
) -> list[str]:
    """Plays them one after the other; what axe-core found in the first."""
    page = context.new_page()
    found: list[str] = []
    page.goto(address)
    page.wait_for_selector(".board")
    for game in range(games):
        number = 0
        while keys.my_turn(page):
            move(page, number, by_pointer)
            number += 1
            if number == 4:
                page = meet(page, INCIDENTS[game % len(INCIDENTS)], times)
                found += keys.violations(page) if game == 0 else []
        assert not keys.scrolls_sideways(page)
        found += keys.violations(page) if game == 0 else []
        times += page.evaluate("moveTimes.splice(0)")
        if game < games - 1:
            with page.expect_navigation():
                if by_pointer:
                    page.locator("[data-key=new]").click()
                else:
                    keys.press(page, ["n"])
            page.wait_for_selector(".board")
    return found


def packed(address: str) -> int:
    """Bytes of all that a browser loads for a table."""
    scripts = sorted(path.name for path in keys.STATIC.glob("*.js"))
    paths = ("", *(f"static/{name}" for name in (*scripts, "table.css", "icon.svg")))
    total = 0
    for path in paths:
        with urllib.request.urlopen(address + path) as answer:
            total += len(gzip.compress(answer.read()))
    return total


def clone(data: list[Path], folder: Path) -> bool:
    """Whether a small clone trains on the games."""
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.algorithms.bc import run_bc
    from hanabi_rl.algorithms.bc_training import BCConfig
    from hanabi_rl.nn.networks import NetworkConfig

    run_bc(
        BCConfig(
            data=tuple(map(str, data)),
            network=NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,)),
            batch_size=4,
            epochs=2,
            selfplay_games=64,
            report_games=1000,
            tensorboard=False,
            run_dir=str(folder),
        )
    )
    return load_policy(folder).rules.num_players == 2


def run(games: int, pointer: int, agent: str, pause: float, folder: Path) -> dict[str, Any]:
    """Plays, then exports, loads and clones; the figures."""
    from playwright.sync_api import sync_playwright

    times: list[float] = []
    found: list[str] = []
    said: list[str] = []
    started, out = time.perf_counter(), folder / "games"
    with table(agent, pause, out) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=keys.CHROMIUM, args=keys.ARGUMENTS)
        for number, (width, height) in enumerate(keys.SIZES):
            context = browser.new_context(viewport={"width": width, "height": height})
            context.add_init_script(WATCH)
            listen(context, said)
            for count, by_pointer in ((games, False), (pointer, True)):
                if share := (count + 1 - number) // 2:
                    found += play_games(context, address, share, times, by_pointer)
            context.close()
        browser.close()
        played_s = time.perf_counter() - started
        with urllib.request.urlopen(f"{address}games.safetensors") as answer:
            (folder / "exported.safetensors").write_bytes(answer.read())
        size = packed(address)
    kept = sorted(out.glob("2p-*.safetensors"))
    exported = load_games(folder / "exported.safetensors")
    above = np.array(times) - 1000 * pause
    figures = {
        "by_keyboard": games,
        "by_pointer": pointer,
        "recorded": len(kept),
        "exported": len(exported),
        "accepted": sum(len(load_games(path)) for path in kept),
        "violations": found,
        "console": said,
        "page_bytes": size,
        "moves": len(times),
        "p50_ms": float(np.percentile(above, 50)),
        "p99_ms": float(np.percentile(above, 99)),
        "seconds": played_s,
        "load": os.getloadavg()[0],
    }
    for name, value in figures.items():  # before the clone, which takes its time to compile
        print(f"{name:>12}  {value}", file=sys.stderr, flush=True)
    return figures | {"cloned": clone(kept, folder / "clone")}


def main() -> None:
    """Prints the figures, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--games", type=int, default=100, help="by keyboard")
    parser.add_argument("--pointer", type=int, default=0, help="games by pointer")
    parser.add_argument("--agent", default="bot:convention")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds of the partner")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(chosen.games, chosen.pointer, chosen.agent, chosen.pause, Path(folder))
    print(f"{'cloned':>12}  {figures['cloned']}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
