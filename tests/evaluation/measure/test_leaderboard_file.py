"""Leaderboard files: those in docs are valid, and invalid rows are rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hanabi_rl.agents.loading import BOT, BUNDLED, load_policy, parse_name
from hanabi_rl.cli import main
from hanabi_rl.evaluation.measure import leaderboard
from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry
from hanabi_rl.evaluation.measure.leaderboard_file import (
    LeaderboardRow,
    read_board,
    row_of,
    with_row,
    write_board,
)
from hanabi_rl.games.hanabi.rules import Rules

BOARDS = sorted((Path(__file__).parents[3] / "docs" / "leaderboard").glob("*.json"))


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_documented_leaderboards(path: Path, tmp_path: Path) -> None:
    """Rows are valid, bundled agents have the same identity, and writing changes nothing."""
    board = read_board(path)
    for player in (*board.proxies, *board.rows):
        if parse_name(player.agent).scheme in (BOT, BUNDLED):
            policy = load_policy(player.agent, Rules(num_players=board.players))
            assert policy.identity() == player.hash, player.agent
    write_board(tmp_path / path.name, board)
    assert (tmp_path / path.name).read_text() == path.read_text()


def row(**changes: Any) -> dict[str, Any]:
    return {
        "agent": "bot:iggi",
        "hash": "a" * 64,
        "submitted_by": "me",
        "version": "1",
        "mean": 12.0,
        "ci95": [11.0, 13.0],
        "median": 12.0,
        "zero_rate": 0.1,
        "perfect_rate": 0.0,
        **changes,
    }


def written(path: Path, rows: list[Any], **changes: Any) -> Path:
    board = {
        "format_version": 2,
        "about": "A test.",
        "players": 2,
        "games": 1000,
        "seed": 0,
        "proxies": [{"agent": "bot:simple", "hash": "c" * 64}],
        "rows": rows,
    }
    path.write_text(json.dumps(board | changes))
    return path


AT = "hf:me/a@" + "0" * 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "runs/mine"}, "an agent that anyone can load .*, got runs/mine"),
        ({"agent": "hf:me/a"}, "a commit of 40 hexadecimal digits after hf:me/a@.* got None"),
        ({"agent": "hf:me/a@main"}, "a commit of 40 hexadecimal digits .* got main"),
        ({"hash": "a"}, "expected the SHA-256 of bot:iggi, got 'a'"),
        ({"hash": "c" * 64}, "no proxy in the rows"),
        ({"mean": 14.0}, "expected a mean of bot:iggi in its interval"),
        ({"ci95": [1.0]}, r"expected ci95 of bot:iggi to be \[low, high\]"),
        ({"perfect_rate": 0.95}, "expected rates of bot:iggi from 0 to 1"),
        ({"median": 26.0}, "expected a median of bot:iggi"),
        ({"mean": "12"}, "rows: bot:iggi.mean: expected float, got '12'"),
        ({"submitted_by": " "}, "expected submitted_by of bot:iggi"),
        ({"note": "x"}, "rows: bot:iggi: unknown field 'note'"),
    ],
)
def test_invalid_rows(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert read_board(
        written(tmp_path / "a.json", [row(), row(agent=AT, hash="b" * 64, mean=11.0)])
    )
    with pytest.raises(ValueError, match=f"a.json: .*{message}"):
        read_board(written(tmp_path / "a.json", [row(**change)]))


@pytest.mark.parametrize(("common", "rare"), [(0, 3), (25, 20)])
def test_row_interval_is_clipped_to_scores(tmp_path: Path, common: int, rare: int) -> None:
    """The t interval of 1,000 games, all but one of score 0 (or the maximum), exceeds the range:
    its half-width is 1.962 / sqrt(1000) SDs, here |rare - common| / sqrt(1000)."""
    score = np.full(1000, common, np.int32)
    score[0] = rare
    entry = LeaderboardEntry(score, score, np.zeros(1000, np.int32), ((-1, 0),), 25)
    added = row_of(entry, "bot:random", "d" * 64, "me", "1")
    mean, half = common + (rare - common) / 1000, 1.962 * abs(rare - common) / 1000
    expected = (max(mean - half, 0.0), min(mean + half, 25.0))
    assert (added.mean, added.ci95) == (mean, pytest.approx(expected, abs=1e-3))
    path = written(tmp_path / "a.json", [])
    write_board(path, with_row(read_board(path), added))
    assert read_board(path).rows == (added,)


def test_invalid_leaderboards(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    worse = row(agent=AT, hash="b" * 64, mean=11.0)
    without = {key: value for key, value in row().items() if key != "submitted_by"}
    for rows, changes, message in (
        ([worse, row()], {}, "rows in descending order of mean"),
        ([row(), row()], {}, "each agent once"),
        ([without], {}, "bot:iggi: expected a field submitted_by, got none"),
        ([3], {}, "rows: expected objects, got int"),
        ([], {"games": 100}, "at least 1,000 games"),
        ([], {"proxies": []}, "at least one proxy"),
        ([], {"players": 6}, "2 to 5 players"),
        ([], {"format_version": 3}, "format_version 2, got 3"),
    ):
        with pytest.raises(ValueError, match=f"a.json: .*{message}"):
            read_board(written(path, rows, **changes))


def test_format_1_loads(tmp_path: Path) -> None:
    old = {"submitted_by": "by", "zero_rate": "zero_share", "perfect_rate": "perfect_share"}
    renamed = {old.get(key, key): value for key, value in row().items()}
    renamed["agent"], proxy = (
        "agent:anyone-3p",
        {"agent": "agent:human-3p-robust", "hash": "c" * 64},
    )
    first = written(tmp_path / "1.json", [renamed], format_version=1, proxies=[proxy])
    proxy["agent"] = "agent:human-3p-population"
    second = written(tmp_path / "2.json", [row(agent="agent:adhoc-3p")], proxies=[proxy])
    assert read_board(first) == read_board(second)


def test_row_is_inserted_by_mean(tmp_path: Path) -> None:
    board = read_board(written(tmp_path / "a.json", [row()]))
    better = LeaderboardRow(**row(agent=AT, hash="b" * 64, mean=12.5, ci95=(11.0, 13.0)))
    board = with_row(board, better)
    assert [row.agent for row in board.rows] == [AT, "bot:iggi"]
    again = LeaderboardRow(**row(mean=12.9, ci95=(11.0, 13.0)))
    assert [row.mean for row in with_row(board, again).rows] == [12.9, 12.5]


def test_command_adds_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proxy = {"agent": "bot:simple", "hash": load_policy("bot:simple").identity()}
    path = written(tmp_path / "a.json", [], proxies=[proxy])
    for flags, message in (
        (["--agents", "bot:iggi"], "--board requires --agents and --submitted-by"),
        (["--agents", str(tmp_path), "--submitted-by", "me"], "anyone can load"),
        (["--agents", "bot:iggi", "--submitted-by", "me", "--games", "9"], "as other flags"),
        (["--agents", "bot:iggi", "--submitted-by", "me", "--json"], "as other flags"),
    ):
        with pytest.raises(SystemExit):
            main(["leaderboard", "--board", str(path), *flags])
        assert message in capsys.readouterr().err
    main(
        [
            "leaderboard",
            "--board",
            str(path),
            "--agents",
            "bot:legal-random",
            "--submitted-by",
            "me",
        ]
    )
    (added,) = read_board(path).rows
    assert (added.agent, added.submitted_by, added.mean) == ("bot:legal-random", "me", 0.0)
    changed = written(tmp_path / "b.json", [], proxies=[proxy | {"hash": "d" * 64}])
    with pytest.raises(SystemExit):
        main(
            ["leaderboard", "--board", str(changed), "--agents", "bot:iggi", "--submitted-by", "me"]
        )
    assert "expected bot:simple to be dddd" in capsys.readouterr().err


def test_command_refuses_proxies_and_duplicates_before_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaderboard, "play_leaderboard", None)
    names = ("bot:simple", "bot:iggi")
    proxies = [{"agent": name, "hash": load_policy(name).identity()} for name in names]
    path = written(tmp_path / "a.json", [], proxies=proxies)
    for agents, message in (
        (["bot:piers", "bot:iggi"], f"--agents: expected no proxy of {path}, got bot:iggi"),
        (["bot:piers", "bot:piers"], "--agents: expected policies that differ"),
    ):
        with pytest.raises(SystemExit):
            main(["leaderboard", "--board", str(path), "--agents", *agents, "--submitted-by", "me"])
        assert message in capsys.readouterr().err
