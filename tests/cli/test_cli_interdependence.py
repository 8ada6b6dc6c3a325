"""`hanabi-rl interdependence` from the command line."""

import json

import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.interdependence import constructive, not_helpful


def test_interdependence_of_a_file(small_file, capsys):
    main(["interdependence", str(small_file), "--reference-games", "0", "--json"])
    out, err = capsys.readouterr()
    record, found = json.loads(out), GameAnalysis(load_games(small_file))
    assert (record["file"], record["players"], record["games"]) == (str(small_file), 2, 12)
    assert record["constructive"] == constructive(found).mean > 0
    assert record["not_helpful_ci95"] == not_helpful(found).bounds
    assert [pair["giver"] for pair in record["pairs"]] == ["seat 0", "seat 1"]
    by_pair = [pair["constructive"] for pair in record["pairs"]]
    assert sum(by_pair) == pytest.approx(record["constructive"])
    bad = ("misplays", "useful_discards", "useless_discards", "loops")
    assert record["nonconstructive"] == pytest.approx(sum(record[name] for name in bad))
    a_point = constructive(found).numerator.sum() / found.links.points.sum()
    assert record["constructive_per_point"] == pytest.approx(a_point)
    for pair in record["pairs"]:
        line = next(of for of in err.splitlines() if of.startswith(pair["giver"] + " ->"))
        shown = f"{pair['constructive_per_point']:.2f}", f"{pair['nonconstructive']:.2f}"
        assert " ".join(shown) in " ".join(line.split())
    assert record["references"] == {} and "bot:random" not in err.splitlines()[1]
    assert "giver -> receiver" in err and "seat 1 -> seat 0" in err


@pytest.mark.slow
def test_interdependence_compares_with_reference_bots(policy_folder, capsys):
    args = ["interdependence", "bot:convention", str(policy_folder), "--games", "6", "--json"]
    main(args)
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["agent"], record["partner"]) == ("bot:convention", str(policy_folder))
    assert record["partner_hash"] == load_policy(policy_folder).identity()
    names = [(pair["giver"], pair["receiver"]) for pair in record["pairs"]]
    assert names == [("agent", "partner"), ("partner", "agent")]
    beside = record["references"]
    assert list(beside) == ["bot:random", "bot:convention"]
    assert beside["bot:random"]["not_helpful"] > beside["bot:convention"]["not_helpful"]
    heads = next(line for line in err.splitlines() if "95% interval" in line)
    assert heads.split()[-2:] == ["bot:random", "bot:convention"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere.safetensors"], "expected a file of games"),
        (["nowhere"], "expected an agent"),
        (["FILE", "bot:random"], "expected no partner for the recorded games"),
        (
            ["bot:random", "--reference-games", "-1"],
            "--reference-games: expected a whole number from 0 to 10,000,000, got -1",
        ),
    ],
)
def test_errors_are_one_line_and_exit_code_2(small_file, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main(["interdependence", *[str(small_file) if arg == "FILE" else arg for arg in args]])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
