"""`hanabi-rl human-likeness` from the command line."""

import json

import pytest
from support.games import TINY, TINY_3P, random_games

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data import files
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.human_likeness import human_variation, read_measures
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.reporting.human_likeness import LABELS


def test_human_likeness_of_a_file(policy_folder, small_file, tmp_path, capsys):
    picture = tmp_path / "out" / "likeness.png"
    agent, file = str(policy_folder), str(small_file)
    args = [
        "--games",
        file,
        "--clone",
        agent,
        "--selfplay-games",
        "16",
        "--tables",
        "--plot",
        str(picture),
    ]
    main(["human-likeness", agent, *args, "--json"])
    out, err = capsys.readouterr()
    record, people = json.loads(out), read_measures(GameAnalysis(load_games(small_file)))
    assert (record["games"], record["decks"], record["selfplay_games"]) == (12, 12, 16)
    figures = {figure["name"]: figure for figure in record["figures"]}
    spread = human_variation(people).of
    assert list(figures) == list(LABELS) == list(spread)
    for name, figure in figures.items():
        assert figure["spread"] == pytest.approx(spread[name])
    assert figures["score"]["people"]["value"] == people["score"].mean
    (own,) = figures["score"]["agents"].values()
    outside = abs(own["value"] - people["score"].mean) > spread["score"]
    assert own["within"] is not outside
    (predicted,) = record["predictions"].values()
    assert predicted["accuracy"] == predict(load_policy(agent), load_games(file)).accuracy().mean
    (with_itself,) = record["with_clone"].values()
    assert with_itself["mean"] == own["value"]
    assert all(f"Table {number}" in err for number in (2, 3, 10)) and "(paper)" not in err
    assert picture.stat().st_size > 10_000


def test_predicted_file_needs_the_same_rules(monkeypatch, capsys):
    found = {"a.json": random_games(TINY, 1), "b.json": random_games(TINY_3P, 1)}
    monkeypatch.setattr(files, "load_distinct_games", lambda paths: found[str(paths[0])])
    with pytest.raises(SystemExit):
        main(["human-likeness", "bot:random", "--games", "a.json", "--predict", "b.json"])
    assert "--predict b.json: expected games of 2 players, got 3 players" in capsys.readouterr().err


def test_human_likeness_without_agents_is_rejected(small_file, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["human-likeness", "--games", str(small_file)])
    assert stop.value.code == 2
    assert "expected at least one agent, got none" in capsys.readouterr().err
