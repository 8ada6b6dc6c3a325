"""`hanabi-rl unit-tests`, as a user types it."""

import dataclasses
import json

import pytest

from hanabi_rl.algorithms.bc import training_games
from hanabi_rl.cli import main
from hanabi_rl.data.files import save_games
from hanabi_rl.env.game import Rules
from hanabi_rl.learning.cloning import BCTraining
from hanabi_rl.measure.unit_tests import TESTS
from hanabi_rl.play.demos import demo_games


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "convention.safetensors"
    save_games(path, demo_games(Rules(), "convention", 24, 0))
    return str(path)


@pytest.mark.slow
def test_a_table_with_failures_to_look_at(recorded, capsys):
    args = ["unit-tests", "careful", "bot:random", "--instances", "6", "--games", recorded]
    main([*args, "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["instances"] == 6 and list(record["agents"]) == ["careful", "bot:random"]
    careful, by_chance = record["agents"].values()
    assert list(careful["tests"]) == [test.name for test in TESTS]
    assert careful["categories"] == {"SR": 1.0, "AR": 1.0, "A+MR": 1.0}
    assert all(not test["failures"] for test in careful["tests"].values())
    failed = by_chance["tests"]["S1"]
    assert len(failed["failures"]) == round((1 - failed["share"]) * 6) > 0
    assert failed["failures"][0].startswith("https://hanab.live/shared-replay-json/2")
    low, high = failed["share_ci95"]
    assert 0 <= low <= failed["share"] <= high <= 1
    assert "careful: no failure" in err and "S1: told in full, it does not act" in err
    assert err.splitlines()[1].split()[:2] == ["S1", "SR"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bot:simple", "--instances", "0"], "--instances: expected at least 1, got 0"),
        (["agent:human-3p"], "which it was trained for, got 2"),
    ],
)
def test_wrong_requests_are_one_line(recorded, capsys, args, message):
    with pytest.raises(SystemExit) as stopped:
        main(["unit-tests", *args, "--games", recorded])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_situations_are_not_mined_from_the_games_that_clones_are_trained_on(monkeypatch):
    """Both are games of bot:convention by itself; a clone trains on those of seed 0."""
    mined = []

    def run_tests(agent, games, *args, **kwargs):
        mined.append({deck.tobytes() for deck in games.decks})
        raise ValueError("enough")

    monkeypatch.setattr("hanabi_rl.measure.unit_tests.chance_levels", lambda *args: {})
    monkeypatch.setattr("hanabi_rl.measure.unit_tests.run_tests", run_tests)
    with pytest.raises(SystemExit):
        main(["unit-tests", "careful", "--instances", "6"])
    trained = BCTraining()
    cloned = training_games(dataclasses.replace(trained, demo_games=24), Rules(), seed=0)
    decks = {deck.tobytes() for games in cloned for deck in games.decks}
    (situations,) = mined
    assert len(situations) == len(decks) == 24 and not situations & decks
