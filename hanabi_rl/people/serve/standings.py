"""Leaderboard of a challenge, from the games in its store. NumPy only."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from hanabi_rl.evaluation.measure.intervals import bootstrap_median, mean_interval
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.grants import GameStatus
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.lineups import seat_names
from hanabi_rl.storage.files import to_json

MAX_SCORE = Rules().max_score
COLUMNS = (
    "players",
    "name",
    "team",
    "mean",
    "mean_low",
    "mean_high",
    "median",
    "zero_rate",
    "perfect_rate",
    "points_mean",
    "games",
    "interruptions",
)


def standings(store: Store) -> list[dict[str, Any]]:
    """One row per evaluation key and number of players with all games done, best first; `lineups`
    lists the mean of each lineup."""
    found = []
    for entry in store.entries():
        for key in entry["keys"]:
            rows = store.rows(key)
            for players in sorted({row.num_players for row in rows}):
                games = [row for row in rows if row.num_players == players]
                if all(row.status == "done" for row in games):
                    found.append(_figures(games) | _about(entry, players))
    return sorted(found, key=lambda row: (row["players"], -row["mean"]))


def progress(rows: Sequence[GameStatus]) -> dict[str, int]:
    """Number of a key's games that are done, active and todo."""
    return {
        status: sum(row.status == status for row in rows) for status in ("done", "active", "todo")
    }


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str] = COLUMNS) -> str:
    """Return the `columns` of `standings`, or of other rows, as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _about(entry: dict[str, Any], players: int) -> dict[str, Any]:
    return {"players": players, **{name: entry[name] for name in ("name", "team", "link")}}


def _figures(games: Sequence[GameStatus]) -> dict[str, Any]:
    score = np.array([game.score for game in games], float)
    mean, median = mean_interval(score, min_value=0, max_value=MAX_SCORE), bootstrap_median(score)
    low, high = to_json(mean.bounds)  # None: a single game has no bounds
    return {
        "mean": mean.mean,
        "mean_low": low,
        "mean_high": high,
        "median": median.mean,
        "zero_rate": float(np.mean(score == 0)),
        "perfect_rate": float(np.mean(score == MAX_SCORE)),
        "points_mean": float(np.mean([game.points for game in games])),
        "games": len(games),
        "interruptions": sum(game.interruptions for game in games),
        "lineups": _by_lineup(games),
    }


def _by_lineup(games: Sequence[GameStatus]) -> list[dict[str, Any]]:
    found = []
    for lineup in sorted({game.lineup for game in games}, reverse=True):
        score = np.array([game.score for game in games if game.lineup == lineup], float)
        names = [f"proxy {i + 1}" for i in range(max(lineup, default=-1) + 1)]
        mean = mean_interval(score).mean if len(score) > 1 else float(score[0])
        found.append({"seats": seat_names(lineup, names), "games": len(score), "mean": mean})
    return found
