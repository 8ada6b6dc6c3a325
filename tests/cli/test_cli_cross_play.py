"""`hanabi-rl cross-play` and `hanabi-rl leaderboard`."""

import csv
import json

import numpy as np
import pytest
from support.games import TINY, TINY_3P, teacher_games
from support.policies import network_policy
from support.tables import text_of

from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.cli import main
from hanabi_rl.cli.agents import algorithms_of, assign_groups
from hanabi_rl.cli.leaderboard import candidates
from hanabi_rl.data import files as data_files
from hanabi_rl.evaluation.measure import crossplay
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.evaluation.reporting.leaderboard import leaderboard_parts
from hanabi_rl.games.hanabi.rules import Rules


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run folders `s0`, `s1` (bc) and `rl` of the same shape, and `three` for three players."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, (name, algorithm, players) in enumerate(
        [("s0", "bc", 2), ("s1", "bc", 2), ("rl", "hdr_ippo", 2), ("three", "bc", 3)]
    ):
        policy = network_policy(TINY if players == 2 else TINY_3P, seed)
        save_policy(folder / name / "policy", policy, algorithm=algorithm, steps=1, score=None)
    return folder


def test_cross_play_prints_table_and_writes_files(runs, tmp_path, capsys, monkeypatch):
    agents = [str(runs / name) for name in ("s0", "s1", "rl")]
    args = ["cross-play", *agents, "--games", "16", "--seed", "5", "--out", str(tmp_path)]
    main([*args, "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record == json.loads((tmp_path / "matrix.json").read_text())
    assert [(agent["label"], agent["group"]) for agent in record["agents"]] == [
        ("s0", "bc"),
        ("s1", "bc"),
        ("rl", "hdr_ippo"),
    ]
    expected = evaluate_pair(load_policy(agents[0]), load_policy(agents[2]), 16, seed=5).summary
    rows = list(csv.DictReader((tmp_path / "matrix.csv").read_text().splitlines()))
    assert (
        float(rows[2]["mean"]) == expected.mean.mean
        and rows[2]["row"] == "s0"
        and rows[2]["column"] == "rl"
    )
    assert "6 of 6 cells played" in err and "self-play" in err
    assert (tmp_path / "matrix.png").stat().st_size > 10_000

    monkeypatch.setattr(crossplay, "play_games", None)  # no game is replayed
    main([*args, "--group", "ours=s0,rl"])
    out, err = capsys.readouterr()
    assert "0 of 6 cells played" in err and "ours" in out
    assert [
        group["group"] for group in json.loads((tmp_path / "matrix.json").read_text())["groups"]
    ] == ["ours", "bc"]


def test_groups_accept_agent_options_with_commas() -> None:
    agents = ["bot:simple", "bot:simple?safe=0.6,0.1", "bot:value"]
    kinds = algorithms_of(agents, load_agents(agents))
    chosen = ["safe=bot:simple?safe=0.6,0.1,bot:value"]
    assert assign_groups(agents, agents, kinds, chosen) == ["simple", "safe", "safe"]
    with pytest.raises(ValueError, match="got 'bot:simple.safe=0.7'"):
        assign_groups(agents, agents, kinds, ["safe=bot:simple?safe=0.7,0.1"])
    with pytest.raises(ValueError, match="--group value=...: add bot:value or rename the group"):
        assign_groups(agents, agents, kinds, ["value=bot:simple"])


def test_agent_in_two_groups_is_rejected() -> None:
    agents = ["bot:simple", "bot:iggi", "bot:value"]
    assert assign_groups(agents, agents, agents, ["G=bot:iggi", "G=bot:iggi,bot:value"])[1:] == [
        "G",
        "G",
    ]
    with pytest.raises(ValueError, match="expected bot:iggi in one group, got it in G and in H"):
        assign_groups(agents, agents, agents, ["G=bot:simple,bot:iggi", "H=bot:iggi,bot:value"])


def test_interrupt_prints_folder_of_cells(runs, tmp_path, capsys, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(crossplay, "play_games", interrupt)
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "cross-play",
                str(runs / "s0"),
                "--out",
                str(tmp_path),
                "--cache",
                str(tmp_path / "kept"),
            ]
        )
    assert stop.value.code == 130 and str(tmp_path / "kept") in capsys.readouterr().err


def test_leaderboard_prints_own_and_published_rows(runs, tmp_path, capsys, monkeypatch):
    games = teacher_games(TINY, 8)
    # files hold games of the standard deck only
    monkeypatch.setattr(data_files, "load_games", lambda path: games)
    proxies, agents = [str(runs / "s0"), str(runs / "s1")], [str(runs / "rl"), str(runs / "s0")]
    flags = ["--games", "16", "--data", "human.json", "--out", str(tmp_path), "--json"]
    main(["leaderboard", "--proxies", *proxies, "--agents", *agents, *flags])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record == json.loads((tmp_path / "leaderboard.json").read_text())
    assert [proxy["label"] for proxy in record["proxies"]] == ["s0", "s1"]
    assert [agent["agent"] for agent in record["agents"]] == ["rl", "s0"]
    assert [lineup["games"] for lineup in record["agents"][0]["lineups"]] == [4] * 4
    prediction = predict(load_policy(agents[0]), games)
    assert (
        record["agents"][0]["cross_entropy_per_timestep"]
        == prediction.cross_entropy_per_timestep().mean
    )
    assert "candidate, s1" in err
    assert "OBL" not in err and "published" not in err  # the paper has another game


@pytest.mark.slow  # test_duplicate_seeds_are_rejected covers the selection
def test_best_predicting_seed_is_selected(runs, tmp_path, capsys, monkeypatch):
    """AH2AC2 section 5.2: by cross-entropy on validation games; reported values are on other
    games."""
    files = {"val.json": teacher_games(TINY, 8), "test.json": teacher_games(TINY, 6, 1)}
    monkeypatch.setattr(data_files, "load_games", lambda path: files[str(path)])
    seeds = [str(runs / name) for name in ("s0", "s1", "rl")]
    losses = [
        predict(load_policy(s), files["val.json"]).cross_entropy_per_timestep().mean for s in seeds
    ]
    best = ["s0", "s1", "rl"][int(np.argmin(losses))]
    args = ["leaderboard", "--proxies", "bot:random", "--agents", *seeds, "--games", "8", "--json"]
    group = ["--group", f"BC={','.join(seeds)}", "--val", "val.json", "--data", "test.json"]
    main([*args, *group, "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["agents"]
    assert (row["agent"], row["chosen"]) == ("BC", best)
    assert list(row["val_cross_entropy_per_timestep"].values()) == losses
    chosen = load_policy(runs / best)
    shown = predict(chosen, files["test.json"]).cross_entropy_per_timestep().mean
    assert row["cross_entropy_per_timestep"] == shown
    text = f"BC: selected {best} by validation nats per timestep: s0 {losses[0]:.4f}, s1 "
    assert text in err
    assert "self-play of the proxy" in err
    own = json.loads(out)["proxy_self_play"]
    assert own["games"] == 8 and own["lineups"][0]["seats"] == ["bot:random", "bot:random"]


def test_selection_games_differ_from_reported_games(runs, capsys, monkeypatch):
    games = teacher_games(TINY, 8)
    files = {"val.json": games, "test.json": games.select([5, 7])}
    monkeypatch.setattr(data_files, "load_games", lambda path: files[str(path)])
    seeds = [str(runs / name) for name in ("s0", "s1")]
    group = ["--group", f"BC={','.join(seeds)}", "--val", "val.json", "--data", "test.json"]
    with pytest.raises(SystemExit):
        main(["leaderboard", "--proxies", "bot:random", "--agents", *seeds, *group])
    said = "--val: expected games not in --data, got 2 of them"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Rules(), "OBL (L4) 21.04"),
        (Rules(num_players=3), "HDR-IPPO 14.03"),
        (Rules(num_players=4), None),
        (Rules(num_colors=4), None),
        (Rules(num_cards_of_rank=(3, 2, 2, 2, 2)), None),
    ],
)
def test_published_rows_only_for_the_same_game(rules, expected):
    scores, first = np.array([3, 5]), np.zeros(2, int)
    seats = ((-1, *range(rules.num_players - 1)),)
    entry = LeaderboardEntry(scores, scores, first, seats, rules.max_score)
    proxies = [f"proxy {number}" for number in range(rules.num_players - 1)]
    text = text_of(leaderboard_parts, {"ours": entry}, proxies, rules, 2)
    assert ("published (AH2AC2" in text) == (expected is not None)
    assert expected is None or expected in " ".join(text.split())
    assert "candidate, proxy 0" in text and "4.00 [" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["cross-play", "bot:random", "bot:random", "--out", "OUT"], "policies that differ"),
        (["cross-play", "RUNS/s0", "RUNS/three", "--out", "OUT"], "s0 for 2 players and "),
        (["cross-play", "RUNS/s0", "nowhere", "--out", "OUT"], "expected an agent"),
        (["cross-play", "RUNS/s0", "--players", "3", "--out", "OUT"], "expected --players 2"),
        (
            ["cross-play", "RUNS/s0", "--out", "OUT", "--group", "x=y"],
            "expected one of the agents s0, got 'y'",
        ),
        (
            ["cross-play", "RUNS/s0", "--out", "OUT", "--group", "x"],
            "expected --group NAME=AGENT,AGENT",
        ),
        (["leaderboard", "--proxies", "bot:genius", "--agents", "RUNS/s0"], "bot:convention"),
        (
            ["leaderboard", "--proxies", "RUNS/three", "--agents", "RUNS/s0"],
            "three for 3 players and ",
        ),
        (
            ["leaderboard", "--proxies", "RUNS/s1", "--agents", "RUNS/s0", "--games", "1"],
            "at least one game per lineup, 2, got 1",
        ),
        (
            ["leaderboard", "--proxies", "RUNS/s1", "--agents", "RUNS/s0", "--group", "A=s0"],
            "--group: expected --val, recorded games to select a seed",
        ),
        (
            ["leaderboard", "--proxies", "RUNS/s1", "RUNS/s1/policy", "--agents", "RUNS/s0"],
            "--proxies: expected policies that differ",
        ),
        (
            ["leaderboard", "--proxies", "RUNS/s1", "--agents", "RUNS/s0", "RUNS/s0/policy"],
            "--agents: expected policies that differ",
        ),
        (  # before the games of the other agent are played
            ["leaderboard", "--proxies", "RUNS/s1", "--agents", "RUNS/s0", "RUNS/s1"],
            "--agents s1: expected a proxy other than the candidate",
        ),
    ],
)
def test_a_users_error_is_one_line(runs, tmp_path, capsys, args, message):
    args = [arg.replace("RUNS", str(runs)).replace("OUT", str(tmp_path)) for arg in args]
    with pytest.raises(SystemExit) as stop:
        main(args)
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == "" and len(err.splitlines()) == 1 and message in err
    assert not list(tmp_path.iterdir())


def test_duplicate_seeds_are_rejected():
    """A policy under two names is not a second seed, and no seed is in two rows."""
    policies = [network_policy(TINY, seed) for seed in (0, 1, 0)]
    labels, games = ["a", "b", "c"], teacher_games(TINY, 2)

    def rows(groups):
        return [row.label for row in candidates(labels, policies, groups, games)]

    assert rows({}) == labels
    assert rows({"x": [1, 2]}) == ["a", "x"] and rows({"x": [0], "y": [2, 1]}) == ["x", "y"]
    for groups, message in [
        ({"x": [0, 2]}, "--group x: expected policies that differ, got the same one as a and as c"),
        ({"x": [0, 1], "y": [1, 2]}, "--group y: expected every agent once, got b again"),
        ({"x": [0, 0]}, "--group x: expected every agent once, got a again"),
        ({"a": [1, 2]}, "--group a: expected another name than that of an agent"),
    ]:
        with pytest.raises(ValueError, match=message):
            rows(groups)


def test_no_agents_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["cross-play", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "agent" in capsys.readouterr().err.lower()
