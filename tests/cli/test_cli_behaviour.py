"""`hanabi-rl behaviour`, as a user types it."""

import json

import pytest

from hanabi_rl.agents.names import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.measure.behaviour import communicativeness, hint_share, information_per_play
from hanabi_rl.measure.record import Record
from hanabi_rl.measure.selfplay import evaluate_selfplay


def test_behaviour_of_a_file(small_file, capsys):
    main(["behaviour", str(small_file), "--json"])
    out, err = capsys.readouterr()
    record, found = json.loads(out), Record(load_games(small_file))
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
    assert record["hint_share"] == hint_share(Record(records)).mean


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
