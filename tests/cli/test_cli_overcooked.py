"""Measuring commands with agents of Overcooked, and those that refuse them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.games import shared_data
from support.policies import network_policy

from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.cli import main
from hanabi_rl.cli.live import agent_by_players
from hanabi_rl.evaluation.measure.cells import CellCache
from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents, play_matrix
from hanabi_rl.evaluation.overcooked import unit_tests
from hanabi_rl.evaluation.reporting.matrix import write_matrix
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.play.game_episodes import play_episodes

ROOM = "overcooked:cramped_room"


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """File of a policy for 12 steps."""
    path = tmp_path_factory.mktemp("agent") / "policy.safetensors"
    write_file(path, network_policy(Overcooked(horizon=12, last_action=True), 0))
    return str(path)


def result_of(capsys, *args):
    """JSON and text of a command."""
    main([*map(str, args), "--json"])
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_evaluate_has_no_figures_of_hanabi(agent, capsys):
    record, text = result_of(capsys, "evaluate", agent, "--games", 3, "--seed", 2)
    played = play_episodes((load_policy(agent),) * 2, 3, 2)
    assert record["mean"] == played.scores.mean() and record["games"] == 3
    assert (record["game"], record["sampled"], record["perfect_rate"]) == (ROOM, True, None)
    assert "histogram" not in record and "sampled self-play, overcooked:cramped_room" in text


def test_bots_take_the_game_of_the_flag_or_of_trained_agents(agent):
    errand, rand = load_agents(
        ["bot:errand?errand=dishes", "bot:random"], None, "overcooked:counter_circuit"
    )
    assert errand.rules == rand.rules == Overcooked(kitchen="counter_circuit")
    policy, still = load_agents([agent, "bot:still"], None, ROOM)
    assert still.rules == policy.rules == Overcooked(horizon=12, last_action=True)
    for names, players, game, message in [
        (["bot:errand"], None, None, r"expected overcooked, which it plays \(--game overcooked"),
        (["bot:simple"], None, ROOM, "simple: expected hanabi, which it plays, got overcooked"),
        ([agent], None, "overcooked:counter_circuit", "--game: expected overcooked, kitchen"),
        (["bot:still"], 3, ROOM, "--players: expected 2 in overcooked:cramped_room, got 3"),
        (["bot:errand?errand=x"], None, ROOM, "errand: expected one of soup, onions, dishes"),
        (["bot:still?smoothing=0"], None, ROOM, "smoothing"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_agents(names, players, game)
    assert load_agents(["bot:random"], 3, "hanabi")[0].rules.num_players == 3


@pytest.mark.slow
def test_matrix_keeps_the_seats_apart(tmp_path, capsys):
    """Against games played one by one; in either order of the agents, also from the cache."""
    rules = Overcooked(kitchen="asymmetric_advantages", horizon=90, last_action=True)
    names = ["bot:errand", "bot:still"]
    policies = [load_policy(name, rules) for name in names]
    setting = EvalSetting(4, seed=3)
    expected = np.array(
        [
            [play_episodes((first, second), 4, 3).scores.mean() for second in policies]
            for first in policies
        ]
    )
    assert expected[0, 1] != expected[1, 0]
    cache = CellCache(tmp_path / "cells")
    matrix = play_matrix(make_agents(policies, names, names), setting, cache=cache)
    np.testing.assert_array_equal(matrix.means, expected)
    turned = make_agents(policies[::-1], names[::-1], names[::-1])
    for cells in (cache, None):
        again = play_matrix(turned, setting, cache=cells)
        np.testing.assert_array_equal(again.means, expected[::-1, ::-1])
    write_matrix(matrix, tmp_path)
    record = json.loads((tmp_path / "matrix.json").read_text())
    assert (record["seats"], record["sampled"]) == ("row 0, column 1", True)
    rows = (tmp_path / "matrix.csv").read_text().splitlines()[1:]
    assert [float(row.split(",")[4]) for row in rows] == expected.reshape(-1).tolist()
    assert (tmp_path / "matrix.png").stat().st_size > 1000


def test_cross_play_says_that_seats_are_kept_apart(agent, tmp_path, capsys):
    args = "cross-play", agent, "bot:still", "--games", 2, "--out", tmp_path
    record, text = result_of(capsys, *args)
    assert "The row's agent is at seat 0, the column's agent at seat 1" in text
    assert "Games of a cell: 2; on the diagonal (self-play): 2." in text
    assert record["game"] == ROOM and record["decks"] == 2
    _, text = result_of(capsys, *args)
    assert "0 of 3 cells played" in text


def test_predict(capsys, tmp_path):
    file = f"{shared_data('overcooked_human_2019.safetensors')}?part=test"
    record, text = result_of(
        capsys, "predict", "bot:random", file, "--game", ROOM, "--out", tmp_path
    )
    assert (tmp_path / "prediction.png").stat().st_size > 5000
    assert sum(of["decisions"] for of in record["by_action"].values()) == record["decisions"]
    assert record["by_action"]["up"]["cross_entropy"] == pytest.approx(np.log(6))
    assert record["cross_entropy"] == pytest.approx(np.log(6))
    assert record["constant_cross_entropy"] == pytest.approx(1.06, abs=0.0051)
    assert record["constant_accuracy"] == pytest.approx(0.71, abs=0.0051)
    assert record["constant_accuracy_of_moves"] == 0
    low, high = record["constant_cross_entropy_ci95"]
    assert low < record["constant_cross_entropy"] < high
    assert (record["games"], record["groups"]) == (8, 8) and "8 pairs of players" in text


def test_interdependence_by_seat_and_of_a_file(capsys):
    args = "interdependence", "bot:errand", "bot:still", "--game", ROOM, "--games", 2
    record, text = result_of(capsys, *args)
    assert [of["constructive"] for of in record["by_seat"]] == [0, 0]
    assert all(of["points"] > 0 for of in record["by_seat"]) and "bot:errand at seat 1" in text
    file = f"{shared_data('overcooked_human_2019.safetensors')}?part=test"
    game = "overcooked:forced_coordination"
    record, _ = result_of(capsys, "interdependence", file, "--game", game)
    assert record["constructive"] == 4 * record["points"] / 20  # three onions and a dish per soup
    assert record["constructive_counter"] == record["constructive_given_by_1"]
    assert record["games"] == record["pairs"] == 6


@pytest.mark.slow
def test_unit_tests(capsys, monkeypatch):
    chosen = tuple(test for test in unit_tests.TESTS if test.name in ("S1", "A3"))
    monkeypatch.setattr(unit_tests, "TESTS", chosen)
    game = "overcooked:coordination_ring"
    record, text = result_of(
        capsys, "unit-tests", "bot:still", "--game", game, "--instances", 3, "--seed", 1
    )
    tests = record["agents"]["bot:still"]["tests"]
    assert list(tests) == ["S1", "A3"] and tests["S1"]["seat_0"] == tests["S1"]["seat_1"] == 0
    assert [list(of) for of in record["agents"]["bot:still"]["categories"]] == [["SR", "AR"]] * 2
    assert "bot:still, seat 1" in text and record["random_play"]["tests"]["S1"]["instances"] == 3


@pytest.mark.parametrize(
    "command",
    [
        "metrics AGENT",
        "behaviour AGENT",
        "conventions AGENT",
        "adaptation AGENT bot:random",
        "leaderboard --proxies bot:random --agents AGENT",
    ],
)
def test_commands_of_hanabi_refuse_agents_of_overcooked(agent, capsys, command):
    with pytest.raises(SystemExit):
        main(command.replace("AGENT", agent).split())
    error = capsys.readouterr().err
    assert f"{agent}: expected an agent of hanabi, got one of overcooked" in error
    assert "Traceback" not in error
    with pytest.raises(ValueError, match="expected an agent of hanabi, got one of overcooked"):
        agent_by_players(agent, (2,))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate AGENT --seed-names p2v0s1", "--seed-names: expected agents of hanabi"),
        ("unit-tests AGENT --games x.json", "--games and reference players: expected agents of"),
        ("unit-tests AGENT reference:memory", "--games and reference players: expected agents of"),
        ("predict bot:convention FILE", "or a bot with --game overcooked:KITCHEN"),
        ("predict AGENT FILE?part=x", "expected ?part=train or ?part=test"),
        ("interdependence FILE", "expected --game overcooked:KITCHEN, got none"),
        ("interdependence FILE bot:random", "expected no partner for the recorded games"),
    ],
)
def test_wrong_arguments_are_refused(agent, capsys, command, message):
    file = str(shared_data("overcooked_human_2019.safetensors"))
    with pytest.raises(SystemExit):
        main(command.replace("AGENT", agent).replace("FILE", file).split())
    assert message in capsys.readouterr().err
