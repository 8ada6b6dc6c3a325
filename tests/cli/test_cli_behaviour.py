"""`hanabi-rl behaviour` from the command line."""

import json

import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import concatenate_games
from hanabi_rl.evaluation.measure.behaviour import (
    communicativeness,
    hint_rate,
    information_per_play,
)
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay


def test_behaviour_of_a_file(small_file, capsys):
    main(["behaviour", str(small_file), "--json"])
    out, err = capsys.readouterr()
    record, found = json.loads(out), GameAnalysis(load_games(small_file))
    assert (record["file"], record["players"], record["games"]) == (str(small_file), 2, 12)
    assert record["information_per_play"] == information_per_play(found).mean
    assert record["communicativeness_ci95"] == communicativeness(found).bounds
    assert "every seat" in err and "Table 10" not in err  # the paper has another game


def test_behaviour_of_an_agent(policy_folder, capsys):
    main(["behaviour", str(policy_folder), "--games", "16", "--seed", "3", "--sample", "--json"])
    record, policy = json.loads(capsys.readouterr().out), load_policy(policy_folder)
    records = evaluate_selfplay(policy, 16, 3, sample=True).records
    assert (record["agent"], record["policy_hash"]) == (str(policy_folder), policy.identity())
    assert (record["games"], record["sampled"], record["turns"]) == (
        16,
        True,
        records.num_actions.sum(),
    )
    assert record["hint_rate"] == hint_rate(GameAnalysis(records)).mean


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere.safetensors"], "expected a file of games"),
        (["nowhere"], "expected an agent"),
        (["POLICY", "--players", "3"], "expected --players 2"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(policy_folder, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main(["behaviour", *[str(policy_folder) if arg == "POLICY" else arg for arg in args]])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["behaviour", "FILE"],
        ["interdependence", "FILE"],
        ["metrics", "FILE"],
        ["predict", "AGENT", "FILE"],
        ["leaderboard", "--proxies", "bot:random", "--agents", "AGENT", "--data", "FILE"],
        ["unit-tests", "reference:memoryless", "--games", "FILE"],
        ["export", "AGENT", "OUT", "--about", "it", "--games", "2", "--predict", "FILE"],
    ],
)
def test_duplicate_games_count_once(policy_folder, small_file, tmp_path, capsys, args):
    games, twice = load_games(small_file), tmp_path / "twice.safetensors"
    save_games(twice, concatenate_games([games, games.select([4])]))
    names = {
        "FILE": str(twice),
        "AGENT": str(policy_folder),
        "OUT": str(tmp_path / "x.safetensors"),
    }
    with pytest.raises(SystemExit) as stop:
        main([names.get(arg, arg) for arg in args])
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == "" and not (tmp_path / "x.safetensors").exists()
    assert f"twice.safetensors, game 12 (game_id {games.game_ids[4]}): duplicate of game" in err


def test_one_game_has_no_interval(policy_folder, small_file, tmp_path, capsys):
    """Tables and JSON have no interval, as with `evaluate --games 1`; the plot is drawn."""
    one = tmp_path / "one.safetensors"
    save_games(one, load_games(small_file).select([0]))
    main(["predict", str(policy_folder), str(one), "--json", "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    figures = json.loads(out)
    parts = [figures, *figures["by_move"].values(), *figures["by_turn"].values()]
    assert all(part["accuracy_ci95"] == [None, None] for part in parts)
    assert figures["accuracy"] is not None and err.count("n/a: no interval") == 1
    assert (tmp_path / "out" / "prediction.png").stat().st_size > 10_000
    for args in (["behaviour", str(one)], ["interdependence", str(one), "--reference-games", "0"]):
        main([*args, "--json"])
        out, err = capsys.readouterr()
        bounds = [value for key, value in json.loads(out).items() if key.endswith("_ci95")]
        assert [None, None] in bounds and all(b in (None, [None, None]) for b in bounds)
        assert err.count("n/a: no interval") == 1
