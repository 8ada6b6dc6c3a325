"""An agent submitted to a local challenge, compared with `hanabi-rl leaderboard` on its decks.

    python benchmarks/serve_submit.py --games 1000 --json

Scores and points must be equal game by game. No agent may use its own random numbers (`bot:iggi`
does): they depend on a game's number. Server and `hanabi-rl submit` are separate processes. With
--kills the latter is killed (SIGKILL) that often and restarted. Exits with 1 if a score differs or
a game is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from serve_load import ROOT, served

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.leaderboard import play_leaderboard
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.grants import Key
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.lineups import mixed_lineups


def deal(store: Store, key: Key, players: int, proxies: int, games: int, seed: int) -> None:
    """Gives the games of a key that are not begun the leaderboard's decks and line-ups."""
    ways = mixed_lineups(players, proxies)
    decks = evaluation_decks(Rules(num_players=players), games, seed)
    with store.database.transaction("write") as db:
        db.executemany(
            "UPDATE games SET deck = ?, line_up = ? "
            "WHERE key_id = ? AND num_players = ? AND position = ? AND status = 'todo'",
            [
                (deck.tobytes(), json.dumps(ways[i % len(ways)]), key.key_id, players, i)
                for i, deck in enumerate(decks)
            ],
        )


def submitted(address: str, key: str, agent: str, kills: int, games: int) -> dict[str, Any]:
    """Runs the command to its end, killed on its way; what it prints."""
    command = [sys.executable, "-m", "hanabi_rl", "submit", agent, "--server", address, "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HANABI_RL_KEY": key}
    while True:
        running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        if not kills:
            said, _ = running.communicate()
            if running.returncode:
                raise SystemExit(f"submit ended with {running.returncode}")
            return dict(json.loads(said))
        before = done(address, key)
        while done(address, key) < min(before + games // 20 + 1, games - 1):
            time.sleep(0.2)
        running.kill()
        running.communicate()
        kills -= 1


def done(address: str, key: str) -> int:
    """Games that are over."""
    from hanabi_rl.people.serve.client import ChallengeClient

    return sum(game.status == "DONE" for game in ChallengeClient(address, key).games())


def trial(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Submits, plays the same games here, and compares."""
    store = Store(folder / "challenge.sqlite")
    store.add_entry("candidate")
    key = store.add_key("candidate", "eval", {2: chosen.games, 3: chosen.games})
    known = store.key(key)
    assert known is not None
    proxies = [flag for n in (2, 3) for flag in (f"--proxies-{n}p", *chosen.proxies)]
    limits = ["--limits.address-openings", "1000000", "--limits.key-openings", "1000000"]
    with served(folder, [*proxies, *limits, "--limits.key-infos", "1000000"]) as (address, _):
        for players in (2, 3):
            deal(store, known, players, len(chosen.proxies), chosen.games, chosen.seed)
        started = time.perf_counter()
        said = submitted(address, key, chosen.agent, chosen.kills, chosen.games)
        seconds = time.perf_counter() - started
    record: dict[str, Any] = {"kills": chosen.kills, "seconds": seconds, "said": said}
    rows = store.rows(known)
    store.close()
    record["interruptions"] = sum(row.interruptions for row in rows)
    for players in (2, 3):
        of_size = [row for row in rows if row.num_players == players]
        over = np.array([(row.score, row.points) for row in of_size if row.status == "done"])
        expected = here(chosen.agent, chosen.proxies, players, chosen.games, chosen.seed)
        whole = len(over) == len(expected)
        record[f"{players}p"] = {
            "games": len(over),
            "that_differ": int((over != expected).any(axis=1).sum()) if whole else None,
            "mean": float(over[:, 0].mean()),
            "leaderboard_mean": float(expected[:, 0].mean()),
            "mean_points": float(over[:, 1].mean()),
        }
    return record


def here(agent: str, proxies: Sequence[str], players: int, games: int, seed: int) -> np.ndarray:
    """The scores and points int[games, 2] that `hanabi-rl leaderboard` comes to."""
    rules = Rules(num_players=players)
    beside = [load_policy(proxy, rules) for proxy in proxies]
    entry = play_leaderboard(load_policy(agent, rules), beside, games, seed)
    return np.stack([entry.score, entry.points], axis=1)


def main() -> None:
    """Prints the figures, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--agent", default="bot:value")
    parser.add_argument("--proxies", nargs="+", default=["bot:simple", "bot:smart"])
    parser.add_argument("--games", type=int, default=1000, help="of each number of players")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the decks")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = trial(Path(folder), chosen)
    for name, figure in record.items():
        print(f"{name:14} {figure}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(record))
    if any(record[f"{n}p"]["that_differ"] != 0 for n in (2, 3)):
        sys.exit(1)


if __name__ == "__main__":
    main()
