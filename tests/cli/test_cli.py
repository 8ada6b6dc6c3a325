"""The `hanabi-rl` command in this process and in new processes."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.processes import run_python

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.cli.evaluate import rate_line
from hanabi_rl.cli.glossary import GLOSSARY
from hanabi_rl.data.formats.hanab_live import decode_link
from hanabi_rl.data.formats.hanab_live_decks import deck_from_seed

COMMANDS = [
    "train",
    "sweep",
    "zero-shot",
    "runs",
    "compare",
    "evaluate",
    "cross-play",
    "leaderboard",
    "gauntlet",
    "adaptation",
    "br-prox",
    "challenge",
    "predict",
    "behaviour",
    "conventions",
    "human-likeness",
    "interdependence",
    "metrics",
    "unit-tests",
    "play",
    "live",
    "llm",
    "agents",
    "glossary",
    "export",
    "replay",
    "serve",
    "submit",
    "data",
    "partners",
    "entries",
    "keys",
    "study",
    "games",
]


def test_help_lists_commands_without_importing_jax():
    out = run_python(
        "import sys\n"
        "from hanabi_rl.cli import main\n"
        f"for command in {[[], *([name] for name in COMMANDS[3:])]}:\n"
        "    try: main([*command, '--help'])\n"
        "    except SystemExit as stop: assert stop.code == 0\n"
        "print([name for name in ('jax', 'jaxmarl', 'distrax', 'flax', 'matplotlib') if name in "
        "sys.modules])\n"
    )
    assert f"{{{','.join(COMMANDS)}}}" in out
    assert "{info,convert,split,download,demos}" in out
    assert out.splitlines()[-1] == "[]"


def test_evaluate_prints_table_and_json_line(capsys):
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
    assert record["zero_rate"] == record["histogram"][0] / 32
    low, high = record["ci95"]
    assert low <= record["mean"] <= high
    assert set(record["links"]) == {"best", "median", "worst"}
    assert "mean 95% interval" in err and record["links"]["worst"] in err


def test_evaluate_accepts_policy_and_run_folder(policy_folder, capsys):
    records = []
    for agent in (policy_folder, policy_folder.parent):
        main(["evaluate", str(agent), "--games", "16", "--sample", "--json"])
        records.append(json.loads(capsys.readouterr().out))
    first, second = records
    assert first["policy_hash"] == load_policy(policy_folder).identity()
    assert first["sampled"] and first["links"] == {}
    for key in ("policy_hash", "mean", "histogram"):
        assert first[key] == second[key]


def test_evaluate_plays_named_deals(capsys):
    main(["evaluate", "bot:random", "--seed-names", "p2v0s1..31", "p2v0s40", "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["games"], record["seed_names"]) == (32, ["p2v0s1..31", "p2v0s40"])
    assert "2 players, hanab.live deals p2v0s1..31 p2v0s40" in err
    named = {deck_from_seed(f"p2v0s{number}").tobytes() for number in (*range(1, 32), 40)}
    assert {decode_link(link).deck.tobytes() for link in record["links"].values()} <= named


@pytest.mark.parametrize(("wall_s", "rate"), [(12.3, "0.41"), (0.5, "10"), (0.002, "2,500")])
def test_evaluate_rate_is_never_zero(wall_s, rate):
    assert f"compilation included ({rate} games/s)" in rate_line(5, wall_s)


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "bot:random"],
        ["cross-play", "bot:random", "--out", "m"],
        ["play", "bot:random"],
    ],
)
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["p3v0s1..5"], "--seed-names: expected deals of 2 players, which the agents play, got 'p"),
        (["p2v9s1..5"], "--seed-names: expected variant 0 (No Variant"),
        (["p2v0s5..1"], "--seed-names: expected a range from low to high, got 'p2v0s5..1'"),
        (["p2v0s1..2", "p2v0s2"], "--seed-names: expected each deal once, got p2v0s2 in"),
        ([], "--seed-names: expected at least one name such as"),
        (["p2v0s1..5", "--seed", "0"], "--seed: expected no --seed with --seed-names, which fixes"),
    ],
)
def test_invalid_seed_names_print_one_line(command, flags, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main([*command, "--seed-names", *flags])
    err = capsys.readouterr().err
    assert caught.value.code == 2 and message in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "nowhere"], "expected an agent"),
        (["evaluate", "a", "b"], "evaluate: expected no more arguments, got b"),
        (["predict", "a", "b.json", "c.json"], "predict: expected no more arguments, got c.json"),
        (["replay", "a.json", "b.json"], "replay: expected no more arguments, got b.json"),
        (
            ["data", "convert", "a", "b", "c", "d"],
            "data convert: expected no more arguments, got c",
        ),
        (
            ["data", "split", "a.json", "b.json", "--sizes", "3"],
            "data split: expected no more arguments, got b.json",
        ),
        (["data", "info"], "PATH|LINK: expected at least one file or link, got none"),
        (["evaluate", "bot:genius"], "bot:convention"),
        (["evaluate", "a", "--seed-names", "p2v0s1", "--games", "5"], "--games: expected no --gam"),
        (
            ["cross-play", "a", "--seed-names", "p2v0s1", "--games", "5", "--out", "m"],
            "--games: ex",
        ),
        (["evaluate", "bot:random", "--players", "7"], "num_players must be 2 to 5, got 7"),
        (["evaluate", "bot:random", "--games", "0"], "--games: expected a whole number from 1"),
        (["evaluate", "bot:random", "--seed", "-1"], "--seed: expected a whole number from 0 to 4"),
        (["metrics", "bot:random", "--games", "9999999999"], "--games: expected a whole number"),
        (["play", "--move-delay", "nan"], "--move-delay: expected a number from 0 to 1"),
        (["data", "info", "missing.safetensors"], "missing.safetensors"),
        (["replay", "missing.json"], "missing.json"),
        (["study", "exampel"], "one of casual, example, kitchen, siu, got exampel"),
        (["leaderboard", "--board", "no.json", "--agents", "a"], "--board: expected a leaderboard"),
        (
            ["br-prox", "bot:random", "--partners", "no"],
            "no: no such partner file",
        ),
        (
            ["submit", "--server", "a", "bot:a", "--key-file", "no"],
            "--key-file: expected a file with",
        ),
        (
            ["live", "--agent", "a", "--credentials", "no"],
            "--credentials: expected a file of two l",
        ),
        # before any game is played
        (["gauntlet", "bot:random", "--plot", "/dev/null/a.png"], "--plot: cannot write to"),
        (
            ["human-likeness", "bot:random", "--games", "a.json", "--plot", "a"],
            "--plot: expected a file",
        ),
        (["br-prox", "bot:random", "--partners", "a", "--plot", "/"], "--plot: expected a file en"),
        (["cross-play", "bot:random", "--out", "/dev/null"], "--out: cannot write to"),
        (["predict", "bot:random", "a.json", "--out", "/dev/null"], "--out: cannot write to"),
        (
            ["challenge", "--out", "/dev/null"],
            "--out: cannot write to",
        ),
        (
            ["zero-shot", "--out", "/dev/null"],
            "--out: cannot write to",
        ),
        (["sweep", "--run-dir", "/dev/null"], "--run-dir: cannot write to"),
        (
            ["train", "ippo", "--preset", "quick", "--run-dir", "/dev/null/a"],
            "--run-dir: cannot write",
        ),
        (
            ["partners", "train", "a", "--count", "2", "--out", "/dev/null"],
            "--out: cannot write to",
        ),
        (
            ["data", "split", "a.json", "--sizes", "1", "--out", "/dev/null"],
            "--out: cannot write to",
        ),
        (["export", "agent:clone-2p", "clone.pt"], "OUT: expected a file ending in .safetensors"),
    ],
)
def test_user_error_is_one_line_with_exit_code_2(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and message in err
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        main([*args, "--debug"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bc", "--seed", "9223372036854775808"], "--seed: expected a whole number from 0 to 4,29"),
        (["bc", "--seed", "-1"], "--seed: expected a whole number from 0 to 4,294,967,295, got -1"),
        (["bc", "--lr", "nan"], "--lr: expected a number from 0 to 10, got nan"),
        (["bc", "--seeds", "0", "4294967296"], "--seeds: expected a whole number from 0 to 4,294"),
        (["bc", "--network.dropout", "nan"], "network.dropout: expected a rate in [0, 1), got nan"),
        (["hdr_ippo", "--total-steps", "inf"], "--total-steps: expected a whole number, got inf"),
        (["hdr_ippo", "--bc.lr", "inf"], "--bc.lr: expected a number from 0 to 10, got inf"),
        (["ippo", "--total-steps", "1.5"], "--total-steps: expected a whole number, got 1.5"),
        (["ippo", "--total-steps", "9e15"], "--total-steps: expected at most 733,007,757,311"),
        (["ippo", "--num-envs", "100"], "num_envs=100 must be divisible by num_shuffle_blocks=8"),
        (["e3t", "--epsilon", "-0.5"], "--epsilon: expected a number from 0 to 1, got -0.5"),
        (["obl", "--privileged-critic"], "--privileged-critic: expected none in off-belief learn"),
        (
            ["behaviour_preferring", "--event-weights.misplay", "nan"],
            "--event-weights.misplay: expected a num",
        ),
    ],
)
def test_invalid_training_number_leaves_no_files(args, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", *args])
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("Preset")]
    assert stop.value.code == 2 and len(err) == 1 and message in err[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--grid", "lr=[1e-3, nan]"], "--grid.lr: expected a number from 0 to 10, got nan"),
        (["--grid", "lr=[1e-3, inf]"], "--grid.lr: expected a number from 0 to 10, got inf"),
        (["--grid", "total_steps=[-5]"], "--grid.total_steps: expected a whole number from 1 to"),
        (["--grid", f"lr={'[' * 9999}"], "--grid lr="),
        (["--kl-weights", "nan"], "--grid.kl_weight: expected a number from 0 to 1, got nan"),
        (["--jobs", "0"], "--jobs: expected a whole number from 1 to 1,024, got 0"),
        (["--seeds", "-1"], "--seeds: expected a whole number from 0 to 4,294,967,295, got -1"),
    ],
)
def test_invalid_sweep_number_leaves_no_files(args, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["sweep", *args])
    err = capsys.readouterr().err
    assert stop.value.code == 2 and len(err.splitlines()) == 1 and message in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["likeness", "bot:random"], "likeness was renamed to human-likeness"),
        (["gauntlet", "bot:a", "--human-proxies", "b"], "--human-proxies was renamed to --family"),
        (["challenge", "--held_out=5"], "--held-out was renamed to --heldout-games"),
        (["partners", "select", "--select", "dpp"], "--select was renamed to --search"),
        (["submit", "a", "bot:b", "--patience", "9"], "--patience was renamed to --timeout"),
        (["unit-tests", "careful"], "careful was renamed to reference:memoryless"),
    ],
)
def test_old_names_are_rejected_with_new_name(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_tyro_errors_are_unchanged(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "bc", "--epochs", "many"])
    assert stop.value.code == 2 and "--epochs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "ippo", "--sed", "3"], "run hanabi-rl train ippo --help"),
        (["train", "bc", "--num-players", "x"], "hanabi-rl train bc: error: argument --num-play"),
        (["sweep", "--kl-weights", "0,0.1"], "hanabi-rl sweep: error: argument --kl-weights: inv"),
        (["sweep", "--sed", "3"], "run hanabi-rl sweep --help"),
        (["gauntlet", "bot:iggi", "--gmaes", "3"], "run hanabi-rl gauntlet --help"),
        (["data", "info", "--skip", "3"], "run hanabi-rl data info --help"),
    ],
)
def test_invalid_flag_names_the_help_command(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_similar_options_are_those_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["gauntlet", "bot:iggi", "--gmaes", "3"])
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "Perhaps you meant: --games INT games per partner and seat" in error
    assert not {"adaptation", "evaluate", "behaviour"} & {*error.split()}


def test_trained_policy_has_fixed_number_of_players(policy_folder, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(policy_folder), "--players", "3"])
    assert "expected --players 2" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--help"], pytest.param(["agents"], marks=pytest.mark.slow)])
def test_closed_pipe_is_not_an_error(args):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hanabi_rl", *args], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_version_flag_prints_version(capsys):
    main(["--version"])
    assert re.fullmatch(r"hanabi-rl \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


def test_help_joins_wrapped_lines_of_an_argument(capsys, monkeypatch):
    """findings/tyro-wrapped-help.sh"""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["play", "--help"])
    out = capsys.readouterr().out
    assert "what a partner with memory (agent:adhoc-2p) learned about you in the games in" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evalute", "bot:iggi"], "evalute: expected a command, .*; did you mean evaluate[?]"),
        (["data", "inf", "x"], "data inf: expected a command, .*; did you mean info[?]"),
        (["cross_pley"], "did you mean cross-play?"),
        (["train", "ipo"], "did you mean ippo?"),
        (["train", "ippo", "--preset", "quik"], "did you mean quick?"),
        (["zzzzzz"], r"expected a command, .*games \(--debug"),
    ],
)
def test_unknown_command_suggests_a_similar_one(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_glossary_explains_a_term(capsys: pytest.CaptureFixture[str]) -> None:
    main(["glossary"])
    printed = capsys.readouterr().out
    assert all(f"\n{term} " in printed for term in GLOSSARY)
    assert [*GLOSSARY] == sorted(GLOSSARY, key=str.lower)
    main(["glossary", "J_br"])
    assert capsys.readouterr().out == f"J_BR: {GLOSSARY['J_BR']}\n"
    with pytest.raises(SystemExit):
        main(["glossary", "pointz"])
    assert "did you mean points?" in capsys.readouterr().err
