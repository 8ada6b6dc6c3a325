"""`hanabi-rl unit-tests` from the command line."""

import dataclasses
import json

import numpy as np
import pytest
from support.games import as_games

from hanabi_rl.algorithms.bc import training_games
from hanabi_rl.cli import main
from hanabi_rl.data.files import save_games
from hanabi_rl.evaluation.measure.reference_players import memory_reference
from hanabi_rl.evaluation.measure.unit_tests import TESTS
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.play.demos import demo_games


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "convention.safetensors"
    save_games(path, demo_games(Rules(), "convention", 24, 0))
    return str(path)


@pytest.mark.slow
def test_table_lists_failures(recorded, capsys):
    args = [
        "unit-tests",
        "reference:memoryless",
        "bot:random",
        "--instances",
        "6",
        "--games",
        recorded,
    ]
    main([*args, "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["instances"] == 6 and list(record["agents"]) == [
        "reference:memoryless",
        "bot:random",
    ]
    careful, by_chance = record["agents"].values()
    assert list(careful["tests"]) == [test.name for test in TESTS]
    assert careful["categories"] == {"SR": 1.0, "AR": 1.0, "A+MR": 0.0}
    assert [len(test["failures"]) for test in careful["tests"].values()] == [0] * 13 + [6] * 3
    trust = careful["tests"]["M2"]["by_history"]
    assert trust == {"hints were of playable cards": 1.0, "hints were of useless cards": 0.0}
    assert not any(
        by_chance["tests"][name]["share"] for name in ("A1", "A2", "A3", "M1", "M2", "M3")
    )
    failed = by_chance["tests"]["S1"]
    assert len(failed["failures"]) == round((1 - failed["share"]) * 6) > 0
    assert failed["failures"][0].startswith("https://hanab.live/shared-replay-json/2")
    low, high = failed["share_ci95"]
    assert 0 <= low <= failed["share"] <= high <= 1
    assert "M2: trusts hints" in err and "S1: does not play a fully known card" in err
    assert err.splitlines()[1].split()[:2] == ["S1", "SR"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["bot:simple", "--instances", "0"],
            "--instances: expected a whole number from 1 to 10,000,000, got 0",
        ),
        (
            ["agent:human-3p"],
            "convention.safetensors: expected games of 3 players, got 2 players (",
        ),
        (["agent:human-3p", "--players", "2"], "which it was trained for, got 2"),
        (["bot:simple", "--players", "4"], "expected the standard game of 2 or 3 players, got"),
        (
            ["reference:memoryless", "--players", "5"],
            "expected the standard game of 2 or 3 players, got",
        ),
        (["agent:ippo-4p"], "expected the standard game of 2 or 3 players, got"),
    ],
)
def test_invalid_unit_test_flags_print_one_line(recorded, capsys, args, message):
    with pytest.raises(SystemExit) as stopped:
        main(["unit-tests", *args, "--games", recorded])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_mined_situations_exclude_training_games(monkeypatch):
    """Both are self-play games of bot:convention; clones are trained on those of seed 0."""
    mined = []

    def run_tests(agent, games, *args, **kwargs):
        mined.append({deck.tobytes() for deck in games.decks})
        raise ValueError("enough")

    monkeypatch.setattr("hanabi_rl.evaluation.measure.unit_tests.chance_levels", lambda *args: {})
    monkeypatch.setattr("hanabi_rl.evaluation.measure.unit_tests.run_tests", run_tests)
    with pytest.raises(SystemExit):
        main(["unit-tests", "reference:memoryless", "--instances", "6"])
    trained = BCTrainConfig()
    cloned = training_games(dataclasses.replace(trained, demo_games=24), Rules(), seed=0)
    decks = {deck.tobytes() for games in cloned for deck in games.decks}
    (situations,) = mined
    assert len(situations) == len(decks) == 24 and not situations & decks


@pytest.mark.slow  # evaluation/measure/test_unit_tests.py covers three players
def test_three_players(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hanabi_rl.cli.unit_tests._MIN_RANDOM_SITUATIONS", 1)
    path = tmp_path / "games.safetensors"
    save_games(path, three_player_games())
    main(
        [
            "unit-tests",
            "reference:memory",
            "--players",
            "3",
            "--instances",
            "1",
            "--games",
            str(path),
            "--json",
        ]
    )
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["players"] == 3 and "reference:memory: no failure" in err
    assert set(record["agents"]["reference:memory"]["categories"].values()) == {1.0}


def three_player_games():
    """A game of cautious players, with a card known playable late, and so on the last turn."""
    rules, rng = Rules(num_players=3), np.random.default_rng(4)
    table = PythonGame(rules, rng.permutation(full_deck(rules)))
    while not table.over:
        table.apply(memory_reference(table, rng))
    return as_games(rules, [table], [np.array(table.actions, np.int32)])
