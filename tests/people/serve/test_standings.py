"""Leaderboard: listed candidates, order and figures, by hand."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from support.serving import agree, claim, write_moves

from hanabi_rl.people.serve.standings import as_csv, progress, standings
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.lineups import CANDIDATE


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "challenge.sqlite")
    agree(store, {2: ("a", "b"), 3: ("c",)})
    return store


def enter(store: Store, name: str, scores: dict[int, list[int]], left: int = 0) -> None:
    """Add a candidate with scores by number of players (a perfect 25 for points), `left` of which
    were interrupted once."""
    store.add_entry(name, f"team {name}")
    key = store.key(store.add_key(name, "eval", {n: len(each) for n, each in scores.items()}))
    assert key is not None
    for number in range(sum(map(len, scores.values()))):
        lease = claim(store, key)
        if number < left:
            store.release(lease, counts_as_interruption=True)
            lease = claim(store, key)
        score = scores[lease.num_players].pop(0)
        if score >= 0:  # a negative score stays open
            write_moves(store, lease, 0, [0], (score, 25))


def test_standings_are_sorted_by_mean_per_size(store: Store) -> None:
    enter(store, "middle", {2: [10, 12, 10, 12], 3: [3] * 6})
    enter(store, "best", {2: [25, 0, 25, 0]})
    enter(store, "worst", {2: [4, 4, 4, 5], 3: [7] * 6})
    rows = [(row["players"], row["name"], row["mean"]) for row in standings(store)]
    assert rows == [
        (2, "best", 12.5),
        (2, "middle", 11.0),
        (2, "worst", 4.25),
        (3, "worst", 7.0),
        (3, "middle", 3.0),
    ]


def test_candidate_is_listed_after_all_games(store: Store) -> None:
    enter(store, "open", {2: [9, 9, 9, 9], 3: [9, 9, 9, 9, 9, -1]})
    assert [(row["players"], row["games"]) for row in standings(store)] == [(2, 4)]
    (entry,) = store.entries()
    assert progress(store.rows(entry["keys"][0])) == {"done": 9, "active": 1, "todo": 0}


def test_row_figures_by_hand(store: Store) -> None:
    """The interval by hand: the standard deviation of four (n - 1), halved, times 3.1824, Student's
    t of 3 degrees of freedom at 0.975, clipped to scores from 0 to 25."""
    enter(store, "mine", {2: [0, 25, 8, 17]}, left=3)
    (row,) = standings(store)
    assert row["team"] == "team mine" and row["games"] == 4 and row["interruptions"] == 3
    assert (row["mean"], row["median"], row["points_mean"]) == (12.5, 12.5, 25.0)
    assert (row["zero_rate"], row["perfect_rate"]) == (0.25, 0.25)
    assert (row["mean_low"], row["mean_high"]) == (0, 25)
    (entry,) = store.entries()
    scores = {game.lineup: game.score for game in store.rows(entry["keys"][0])}
    names = {CANDIDATE: "candidate", 0: "proxy 1", 1: "proxy 2"}
    assert {tuple(each["seats"]): each["mean"] for each in row["lineups"]} == {
        tuple(names[holder] for holder in lineup): score for lineup, score in scores.items()
    }
    (line,) = csv.DictReader(io.StringIO(as_csv([row])))
    assert line["name"] == "mine" and float(line["mean"]) == 12.5 and line["interruptions"] == "3"
    enter(store, "steady", {2: [11, 14, 12, 13]})
    (steady,) = (each for each in standings(store) if each["name"] == "steady")
    half = (steady["mean_high"] - steady["mean_low"]) / 2
    spread = (sum((score - 12.5) ** 2 for score in (11, 14, 12, 13)) / 3) ** 0.5
    assert steady["mean_low"] == pytest.approx(12.5 - half)
    assert half == pytest.approx(3.18245 * spread / 2, rel=1e-4)
