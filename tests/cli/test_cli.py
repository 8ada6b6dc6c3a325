"""The `hanabi-rl` command, in this process and in fresh ones."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.processes import run_python

from hanabi_rl.agents.names import load_policy
from hanabi_rl.cli import main

COMMANDS = [
    "train",
    "sweep",
    "evaluate",
    "cross-play",
    "leaderboard",
    "br-prox",
    "challenge",
    "predict",
    "behaviour",
    "interdependence",
    "metrics",
    "unit-tests",
    "play",
    "agents",
    "export",
    "replay",
    "serve",
    "study",
    "data",
    "partners",
    "entries",
    "keys",
    "games",
]


def test_help_lists_the_commands_and_imports_no_accelerator_library():
    out = run_python(
        "import sys\n"
        "from hanabi_rl.cli import main\n"
        f"for command in {[[], *([name] for name in COMMANDS[2:])]}:\n"
        "    try: main([*command, '--help'])\n"
        "    except SystemExit as stop: assert stop.code == 0\n"
        "print([name for name in ('jax', 'jaxmarl', 'distrax', 'flax', 'matplotlib') if name in "
        "sys.modules])\n"
    )
    assert f"{{{','.join(COMMANDS)}}}" in out
    assert "{info,convert,split,download,demos}" in out
    assert out.splitlines()[-1] == "[]"


def test_evaluate_prints_a_table_and_one_line_of_json(capsys):
    main(["evaluate", "bot:random", "--games", "32", "--seed", "5", "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["agent"], record["players"], record["games"], record["seed"]) == (
        "bot:random",
        2,
        32,
        5,
    )
    assert len(record["histogram"]) == 26 and sum(record["histogram"]) == 32
    assert record["mean"] == pytest.approx(np.dot(record["histogram"], range(26)) / 32)
    assert record["zero_share"] == record["histogram"][0] / 32
    low, high = record["ci95"]
    assert low <= record["mean"] <= high
    assert set(record["links"]) == {"best", "median", "worst"}
    assert "mean 95% interval" in err and record["links"]["worst"] in err


def test_evaluate_takes_a_policy_folder_and_its_run(policy_folder, capsys):
    records = []
    for agent in (policy_folder, policy_folder.parent):
        main(["evaluate", str(agent), "--games", "16", "--sample", "--json"])
        records.append(json.loads(capsys.readouterr().out))
    first, second = records
    assert first["policy_hash"] == load_policy(policy_folder).identity()
    assert first["sampled"] and first["links"] == {}
    for key in ("policy_hash", "mean", "histogram"):
        assert first[key] == second[key]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "nowhere"], "expected an agent"),
        (["evaluate", "bot:genius"], "bot:convention"),
        (["evaluate", "bot:random", "--players", "7"], "num_players must be 2 to 5, got 7"),
        (["evaluate", "bot:random", "--games", "0"], "at least one game"),
        (["data", "info", "missing.safetensors"], "missing.safetensors"),
        (["replay", "missing.json"], "missing.json"),
    ],
)
def test_a_users_error_is_one_line_and_exit_code_2(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and message in err
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        main([*args, "--debug"])


def test_a_trained_policy_plays_only_its_own_number_of_players(policy_folder, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(policy_folder), "--players", "3"])
    assert "expected --players 2" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--help"], ["agents"]])
def test_a_reader_that_has_left_is_no_error(args):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hanabi_rl", *args], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
