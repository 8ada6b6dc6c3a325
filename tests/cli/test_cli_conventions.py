"""`hanabi-rl conventions` from the command line."""

import json

import pytest

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.conventions import convention_figures, read_conventions
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.storage.files import to_json


def test_conventions_of_a_file(small_file, capsys):
    main(["conventions", str(small_file), "--json"])
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["rows"].values()
    assert row == to_json(convention_figures(read_conventions(load_games(small_file))))
    assert f"{row['adherence']:.1%}" in err and row["games"] == 12


def test_conventions_of_an_agent(policy_folder, capsys):
    main(["conventions", str(policy_folder), "--games", "16", "--seed", "3", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"].values()
    records = evaluate_selfplay(load_policy(policy_folder), 16, 3).records
    assert row == to_json(convention_figures(read_conventions(records)))


@pytest.mark.slow  # compiles two programs
def test_convention_bot_adheres_more_than_random(capsys):
    main(["conventions", "bot:convention", "bot:random", "--games", "12", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows["bot:convention"]["adherence"] > 0.8 > 0.4 > rows["bot:random"]["adherence"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "expected agents or files of games, got none"),
        (["bot:random", "bot:random"], "expected each source once, got bot:random, bot:random"),
    ],
)
def test_missing_or_duplicate_sources_are_rejected(args, message, capsys):
    with pytest.raises(SystemExit):
        main(["conventions", *args])
    assert message in capsys.readouterr().err
