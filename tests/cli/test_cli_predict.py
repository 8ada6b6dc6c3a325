"""`hanabi-rl predict` from the command line."""

import json

import numpy as np
import pytest
from support.games import teacher_games

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.play.decks import evaluation_decks


def test_predict_prints_table_json_and_plot(small_file, policy_folder, capsys, tmp_path):
    main(
        [
            "predict",
            str(policy_folder),
            str(small_file),
            "--surprising",
            "3",
            "--json",
            "--out",
            str(tmp_path / "new"),
        ]
    )
    out, err = capsys.readouterr()
    record = json.loads(out)
    games, policy = load_games(small_file), load_policy(policy_folder)
    prediction = predict(policy, games)
    assert record["accuracy"] == prediction.accuracy().mean
    assert record["cross_entropy_ci95"] == prediction.cross_entropy().bounds
    assert record["policy_hash"] == policy.identity()
    assert (record["games"], record["decisions"]) == (12, games.num_actions.sum())
    assert sum(share["decisions"] for share in record["by_move"].values()) == record["decisions"]
    assert sum(share["decisions"] for share in record["by_turn"].values()) == record["decisions"]
    assert len(record["surprising"]) == 3
    assert "12 games of 2 players, every seat" in err and record["surprising"][2]["move"] in err
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "prediction.json",
        "prediction.png",
    ]


def test_random_bot_cross_entropy_is_log_legal_moves(small_file, capsys):
    main(["predict", "bot:random", str(small_file), "--json"])
    record = json.loads(capsys.readouterr().out)
    games = load_games(small_file)
    nats = []
    for game in range(len(games)):
        table = PythonGame(games.rules, games.decks[game])
        for action in games.moves(game):
            legal = [a for a in range(games.rules.noop) if table.illegal_reason(a) is None]
            nats.append(np.log(len(legal)))
            table.apply(int(action))
    assert record["decisions"] == len(nats)
    assert record["cross_entropy"] == pytest.approx(np.mean(nats), rel=1e-5)


def test_games_without_human_moves_are_rejected(tmp_path, capsys):
    """As `hanabi-rl play` saves a game that the user leaves after the partner's first move."""
    rules = Rules()
    deck = tuple(evaluation_decks(rules, 1, 0)[0].tolist())
    left = Game(1, rules, deck, frozenset({1}), moves=(5,), status="done", end_reason="left")
    path = GameFolder(tmp_path).finish(left)
    with pytest.raises(SystemExit) as caught:
        main(["predict", "bot:random", str(path)])
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and out == ""
    assert f"{path}: expected at least one turn (human seats) to predict, got none" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["predict", "FOLDER", "nowhere.safetensors"], "expected a file of games"),
        (["predict", "nowhere", "FILE"], "expected an agent"),
        (
            ["predict", "FOLDER", "FILE", "--surprising", "-1"],
            "--surprising: expected a whole number from 0 to 2,147,483,647, got -1",
        ),
    ],
)
def test_errors_are_one_line_and_exit_code_2(small_file, policy_folder, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main(
            [{"FILE": str(small_file), "FOLDER": str(policy_folder)}.get(arg, arg) for arg in args]
        )
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_games_of_other_rules_are_rejected(policy_folder, capsys, tmp_path):
    save_games(
        tmp_path / "games.safetensors",
        teacher_games(Rules(num_colors=3, num_ranks=3, hand_size=2), 2),
    )
    with pytest.raises(SystemExit):
        main(["predict", str(policy_folder), str(tmp_path / "games.safetensors")])
    assert "expected an agent for 3 colours, 8 hint tokens and 3 lives" in capsys.readouterr().err
