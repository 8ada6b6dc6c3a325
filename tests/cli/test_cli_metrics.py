"""`hanabi-rl metrics` from the command line."""

import json

import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.registry import objective_figures
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats

SMALL = ["coordination", "response_entropy", "context_independence", "action_entropy"]
"""Metrics for which a dozen games are a small sample."""


def test_metrics_of_an_agent_with_a_partner(policy_folder, tmp_path, capsys):
    args = ["metrics", str(policy_folder), "--partners", "bot:random", "--games", "8"]
    main([*args, "--seed", "3", "--out", str(tmp_path / "out"), "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    policy = load_policy(policy_folder)
    (row,) = record["rows"]
    assert next(iter(record["agents"].values())) == policy.identity()
    alone = objective_figures(GameAnalysis(evaluate_selfplay(policy, 8, 3).records))
    assert row["selfplay"] == json.loads(json.dumps(alone)) | {"small_sample": SMALL}
    assert row["with_partners"]["small_sample"] == SMALL and "*: small sample" in err
    assert row["pairs"]["bot:random"]["games"] == 16
    assert row["with_partners"]["points"] == row["pairs"]["bot:random"]["points"]
    assert "Agent / partner" in err and "Table 3" not in err and record["published"] is None
    assert (tmp_path / "out" / "metrics.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == record
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 2


def test_metrics_reuses_cross_play_cells(policy_folder, tmp_path, capsys, monkeypatch):
    agents = [str(policy_folder), "bot:random", "--games", "8"]
    main(["cross-play", *agents, "--out", str(tmp_path)])
    monkeypatch.setattr(
        "hanabi_rl.evaluation.measure.matrix.evaluate_pair", None
    )  # no game is played
    main(["metrics", *agents, "--cache", str(tmp_path / "cells")])
    assert "bot:random" in capsys.readouterr().out


def test_metrics_of_files(small_file, tmp_path, capsys):
    games, mixed = load_games(small_file), tmp_path / "mixed.safetensors"
    save_games(mixed, with_counted_seats(games, [False, True]))
    main(["metrics", str(small_file), str(mixed), "--json"])
    out, err = capsys.readouterr()
    rows = json.loads(out)["rows"]
    assert [row["label"] for row in rows] == [
        *("games, every seat", "mixed, human seats", "mixed, other seats")
    ]
    expected = json.loads(json.dumps(objective_figures(GameAnalysis(games))))
    assert rows[0]["recorded"] == expected | {"small_sample": SMALL}
    assert rows[1]["recorded"]["turns"] + rows[2]["recorded"]["turns"] == games.num_actions.sum()
    assert "Recorded games" in err


def test_paper_values_on_request(small_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hanabi_rl.evaluation.reporting.objective_metrics.check_paper", bool)
    main(["metrics", str(small_file), "--paper", "--out", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    assert "Table 3" in err and "HolmesBot" in json.loads(out)["published"]["table_3"]


def test_files_have_unique_labels_and_content(small_file, tmp_path, capsys):
    games = load_games(small_file)
    for folder, which in (("a", slice(0, 6)), ("b", slice(6, 12)), ("c", slice(0, 6))):
        (tmp_path / folder).mkdir()
        save_games(tmp_path / folder / "games.safetensors", games.select(which))
    files = [str(tmp_path / folder / "games.safetensors") for folder in "abc"]
    main(["metrics", *files[:2], "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["label"] for row in rows] == ["a/games, every seat", "b/games, every seat"]
    for pair in ([files[0], files[2]], [files[1], files[1]]):
        with pytest.raises(SystemExit) as caught:
            main(["metrics", *pair])
        out, err = capsys.readouterr()
        assert caught.value.code == 2 and out == "" and len(err.splitlines()) == 1
        assert f"expected different files, got the same games in {pair[0]} and {pair[1]}" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "expected agents, or files of games"),
        (["FILE", "bot:random"], "expected agents, or files of games"),
        (["FILE", "--partners", "bot:random"], "--partners: expected none with files of games"),
        (["nowhere.safetensors"], "expected a file of games"),
        (["nowhere"], "expected an agent"),
        (["FILE", "--paper"], "--paper: expected the standard game of 2 players"),
        (["bot:random", "bot:random?colors=0,1,2"], "colours 0 to 4"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(small_file, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main(["metrics", *[str(small_file) if arg == "FILE" else arg for arg in args]])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
