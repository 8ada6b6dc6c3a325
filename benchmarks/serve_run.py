"""A candidate's complete challenge, played like the published client.

Three loops query the state of the games, play the next one and repeat, for two players and then for
three.

    python benchmarks/serve_run.py --games 1000 --json

`hanabi_rl/people/serve/client.py` implements the protocol. The candidate plays the first legal
action. Exits with 1 if a status, score or number of games differs from the candidate's.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from serve_load import served

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.protocol import evaluation_info, play_next, play_out

from hanabi_rl.people.serve.store import Store

LOOPS = 3
Heard = list[tuple[int, tuple[str, ...], float]]
"""players, the seats that it held, score, of every game."""


def loop(address: str, key: str) -> Heard:
    """Plays while there are games."""
    heard: Heard = []
    while True:
        games = evaluation_info(address, key)
        if games["human_ai_eval_done"] is True:
            return heard
        if not any(game["status"] == "TODO" for game in games["all_envs"]):
            time.sleep(0.1)  # the last ones are being played by the other loops
            continue
        game = play_next(address, key)
        info = game.info
        score = play_out(game)
        heard.append((info["num_players"], tuple(info["candidate_controlling"]), score))


def whole_run(address: str, key: str) -> dict[str, Any]:
    """Plays all games of a key; the figures."""
    started = time.perf_counter()
    with ThreadPoolExecutor(LOOPS) as pool:
        loops = list(pool.map(lambda _: loop(address, key), range(LOOPS)))
    heard = [game for one in loops for game in one]
    told = [
        (game["num_players"], tuple(game["candidate_controlling"]), game["score"])
        for game in evaluation_info(address, key)["all_envs"]
        if game["status"] == "DONE"
    ]
    return {
        "games": len(told),
        "games_of_a_loop": [len(one) for one in loops],
        "as_heard": collections.Counter(told) == collections.Counter(heard),
        "mean_score": statistics.fmean(score for _, _, score in told),
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    """Prints the figures, and with --json one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--games", type=int, default=1000, help="of each number of players")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="flags of `serve`")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "challenge.sqlite"))
        store.add_entry("candidate")
        keys = {n: store.add_key("candidate", "eval", {n: chosen.games}) for n in (2, 3)}
        store.close()
        limits = ["--limits.address-openings", "1000000", "--limits.key-openings", "1000000"]
        limits += ["--limits.key-infos", "1000000"]  # a candidate that does not think
        with served(Path(folder), [*limits, *chosen.serve]) as (address, _):
            for players, key in keys.items():
                record[f"{players}p"] = found = whole_run(address, key)
                print(f"{players} players:", found, file=sys.stderr)
    if chosen.json:
        print(json.dumps(record))
    if any(found["games"] != chosen.games or not found["as_heard"] for found in record.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
