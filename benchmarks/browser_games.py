"""Whole games at the table in a real Chromium, by keyboard alone: what is recorded, exported, read
back and cloned, what axe-core says, and how long a person waits for the partner.

    python benchmarks/browser_games.py --games 100 --json

Every second game is played in a window of 360 x 740, the others at 1280 x 800. Of four games in a
row the second is reloaded in its middle, the third goes on in a second tab, and the fourth loses
the network for a while. A wait is from pressing Enter to the page saying that it is one's own turn
again, less the pause, as the page itself measures it.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import (
    ARGUMENTS,
    CHROMIUM,
    SIZES,
    move_by_keys,
    my_turn,
    until,
    violations,
)
from support.serving import serve

from hanabi_rl.agents.names import load_policy
from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.data.files import load_games
from hanabi_rl.env.game import Rules
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.serve.folder import GameFolder
from hanabi_rl.serve.local import LocalPlay
from hanabi_rl.serve.runner import Runner

DISTURBED_AT = 5  # the own move before which a game is disturbed
STOPWATCH = """
window.waits = [];
let pressed = null, before = "";
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && document.title.startsWith("●")) {
    pressed = performance.now();
    before = document.title;
  }
}, true);
new MutationObserver(() => {
  const title = document.title;
  if (pressed !== null && title !== before && title.startsWith("●")) {
    waits.push(performance.now() - pressed);
    pressed = null;
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def main() -> None:
    """Plays, checks, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--partner", default="bot:convention")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds, as of `play`")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = measure(asked.games, asked.partner, asked.pause, Path(folder))
    if asked.json:
        print(json.dumps(record))
    else:
        print("\n".join(f"{name:28} {value}" for name, value in record.items()))


def measure(games: int, partner: str, pause: float, folder: Path) -> dict[str, Any]:
    """The record of `games` games with `partner`, kept in `folder`."""
    policy = load_policy(partner)
    runner = Runner([policy], policy.rules)
    play = LocalPlay(policy.rules, [partner], runner, GameFolder(folder / "games"), 0)
    started = time.perf_counter()
    waits: list[float] = []
    problems: list[str] = []
    with serve(play, pause) as address:
        play_all(address, play, games, waits, problems)
        seconds = time.perf_counter() - started
        exported = folder / "games.safetensors"
        with urllib.request.urlopen(f"{address}games.safetensors") as answer:
            exported.write_bytes(answer.read())
    accepted = load_games(exported)
    above = np.array(waits) - 1000 * pause
    return {
        "games_played": games,
        "seconds": round(seconds, 1),
        "games_recorded": len(list((folder / "games").glob("2p-*.safetensors"))),
        "games_accepted": len(accepted.scores),
        "games_cloned_from": clone(exported, len(accepted.scores), policy.rules, folder / "run"),
        "axe_violations": len(problems),
        "axe": problems[:5],
        "waits": len(waits),
        "wait_above_pause_ms_p50": round(float(np.percentile(above, 50)), 1),
        "wait_above_pause_ms_p99": round(float(np.percentile(above, 99)), 1),
        "page_bytes_packed": page_bytes(),
    }


def play_all(
    address: str, play: LocalPlay, games: int, waits: list[float], problems: list[str]
) -> None:
    """Plays `games` games; the page's waits and axe's complaints go into the lists."""
    from playwright.sync_api import sync_playwright

    disturbances: list[Callable[..., Any]] = [undisturbed, reload, second_tab, no_network]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for number in range(games):
            width, height = SIZES[number // 2 % 2]
            context = browser.new_context(viewport={"width": width, "height": height})
            context.add_init_script(STOPWATCH)
            page = open_table(context, address)
            disturb = disturbances[number % len(disturbances)]
            page = play_one(page, functools.partial(disturb, address=address), waits)
            problems += violations(page)
            context.close()
            print(f"\rgame {number + 1} of {games}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        browser.close()


def play_one(page: Any, disturb: Callable[..., Any], waits: list[float]) -> Any:
    """Plays a game to its end, disturbed in its middle; returns the page it ended on."""
    number = 0
    while my_turn(page):
        if number == DISTURBED_AT:
            waits += page.evaluate("waits.splice(0)")
            page = disturb(page)
            my_turn(page)
        move_by_keys(page, number)
        number += 1
    waits += page.evaluate("waits.splice(0)")
    return page


def open_table(context: Any, address: str) -> Any:
    """A tab with the table."""
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".board")
    return page


def undisturbed(page: Any, address: str) -> Any:
    """Nothing happens."""
    return page


def reload(page: Any, address: str) -> Any:
    """The page is loaded anew."""
    page.reload()
    page.wait_for_selector(".board")
    return page


def second_tab(page: Any, address: str) -> Any:
    """The game goes on in another tab; the first one stays open."""
    return open_table(page.context, address)


def no_network(page: Any, address: str) -> Any:
    """The connection is lost and comes back: another tab moves meanwhile."""
    other = open_table(page.context.browser.new_context(), address)
    page.context.set_offline(True)
    my_turn(other)
    move_by_keys(other, 0)
    my_turn(other)
    turn = other.title()
    other.context.close()
    page.context.set_offline(False)
    until(page, f"document.title === {json.dumps(turn)}")
    return page


def clone(path: Path, games: int, rules: Rules, run: Path) -> int:
    """Clones the games a little, and loads what came of it; the number of games."""
    small = NetworkConfig(embedding=(16,), lstm=(16,), decoder=(16,), critic=(16,))
    run_bc(
        BCConfig(
            data=(str(path),),
            network=small,
            batch_size=min(4, games),
            epochs=1,
            selfplay_games=64,
            report_games=64,
            tensorboard=False,
            run_dir=str(run),
        )
    )
    assert load_policy(run).rules == rules
    return games


def page_bytes() -> int:
    """What a browser loads for the table, packed: scripts, styles, pictures and the page."""
    serve_room = ROOT / "hanabi_rl" / "serve"
    loaded = [*(serve_room / "static").iterdir(), serve_room / "templates" / "table.html"]
    return sum(len(gzip.compress(path.read_bytes())) for path in loaded if path.is_file())


if __name__ == "__main__":
    main()
