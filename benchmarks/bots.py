"""Self-play of all bots with 2 to 5 players, with their published scores.

    python benchmarks/bots.py --json
    python benchmarks/bots.py --write yes
    python benchmarks/bots.py --write yes --only rules

`--write` stores the scores where `hanabi-rl agents` reads them; run it when a bot's version
changes, with `--only` for single bots.
"""

import sys
from pathlib import Path

import common

from hanabi_rl.agents.bots.registry import BOTS, SCORES_FILE, make_bot
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.files import read_json, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.bot_scores import SELFPLAY


def scores_of(name: str, players: int, games: int, seed: int) -> common.Record:
    """One cell: mean score and points with their 95% intervals, shares of lost and perfect
    games."""
    played = evaluate_selfplay(make_bot(name, Rules(players)), games, seed).summary
    return {
        "games": games,
        "mean": round(played.mean.mean, 3),
        "ci95": [round(bound, 3) for bound in played.mean.bounds],
        "points": round(played.points.mean, 3),
        "points_ci95": [round(bound, 3) for bound in played.points.bounds],
        "zero_rate": round(played.zero_rate, 4),
        "perfect_rate": round(played.perfect_rate or 0.0, 4),
    }


def measure(games: int = 5000, seed: int = 0, write: str = "no", only: str = "") -> common.Record:
    """Plays every cell; returns the JSON record."""
    record: common.Record = read_json(SCORES_FILE) if only else {}
    of_hanabi = [name for name, bot in BOTS.items() if bot.game in (None, "hanabi")]
    for name in [only] if only else of_hanabi:
        bot = BOTS[name]
        scores = {}
        for players in bot.listed_players:
            cell = scores_of(name, players, games, seed)
            low, high = cell["points_ci95"]
            published = SELFPLAY.get(name, {}).get(players, "")
            print(
                f"| bot:{name} | {players} | {cell['mean']:.2f} | {cell['points']:.2f} "
                f"[{low:.2f}, {high:.2f}] | {cell['zero_rate']:.1%} | {cell['perfect_rate']:.1%} | "
                f"{published} |",
                file=sys.stderr,
            )
            scores[str(players)] = cell
        record[name] = {"version": bot.version, "scores": scores}
    if write == "yes":
        write_json(SCORES_FILE, record)
    return record


if __name__ == "__main__":
    common.run(__doc__, measure)
