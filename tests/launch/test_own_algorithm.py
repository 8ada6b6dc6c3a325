"""Own algorithms on the command line: `python:FILE.py:CLASS`."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl import evaluate, load_policy, train
from hanabi_rl.algorithms.registry import ALGORITHMS, find_algorithm
from hanabi_rl.launch.cluster import Job
from hanabi_rl.launch.presets import configs_folder, load_preset, presets_of
from hanabi_rl.launch.script import train_command
from hanabi_rl.launch.sweep import run_once, sweep_command
from hanabi_rl.runs.found_runs import read_run
from hanabi_rl.runs.run_dir import read_record

FILE = '''
from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np

from hanabi_rl import Algorithm, IPPOConfig, NetworkPolicy, save_policy
from hanabi_rl.agents.policy import init_params
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.run_dir import write_summary
from hanabi_rl.runs.session import open_run_dir


@dataclasses.dataclass(frozen=True)
class PenaltyConfig(IPPOConfig):
    """Penalty."""

    penalty: float = 1.0
    """Weight of the penalty, which
    wraps."""


class Penalty(Algorithm):
    config = PenaltyConfig
    summary_columns = {"score": "score"}

    def run(self, config):
        with open_run_dir(self.name, config, config.game.num_players) as folder:
            network, key = config.network, jax.random.key(0)
            shapes = jax.eval_shape(lambda: init_params(config.game, network, key))
            params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
            policy = NetworkPolicy(params, config.game, config.network)
            save_policy(folder / "policy", policy, algorithm=self.name, steps=0, score=None)
            summary = {"score": config.penalty * config.seed}
            write_summary(folder, summary)
        return summary


class IPPO(Penalty):
    pass


class NoConfig(Algorithm):
    pass


class Forgotten(Penalty):
    class config(PenaltyConfig):
        other: int = 3


class Fails(Penalty):
    def __init__(self):
        raise KeyError("weights")


@dataclasses.dataclass(frozen=True)
class PlainConfig(RunConfig):
    """Extends no algorithm's config."""

    network: object = None
    penalty: float = 3.0


class Plain(Penalty):
    config = PlainConfig
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.py"
    path.write_text(FILE)
    return path


def test_run_is_trained_resumed_and_read(file: Path, tmp_path: Path, capsys: Any) -> None:
    run_dir = tmp_path / "run"
    flags = ["python:own.py:Penalty", "--preset", "small", "--run-dir", str(run_dir)]
    assert train_command([*flags, "--seed", "3", "--penalty", "2.5"]) == 0
    record = read_record(run_dir)
    assert record["algorithm"] == "penalty" and record["config"]["penalty"] == 2.5
    small = load_preset(ALGORITHMS["ippo"].config, "ippo", "small", configs_folder())
    assert record["config"]["game"]["num_colors"] == small.game.num_colors
    found = read_run(run_dir)
    assert (found.preset, found.game, found.fields["penalty"]) == ("small", small.game, "2.5")
    assert evaluate(run_dir, games=2).games.scores.size == 2

    file.write_text(FILE.replace("* config.seed", "* config.seed + 1"))
    again = [flags[0], "--resume", "--run-dir", str(run_dir)]
    assert train_command([*again, "--total-steps", "99"]) == 0
    assert json.loads((run_dir / "summary.json").read_text())["score"] == 8.5
    with pytest.raises(ValueError, match="penalty: the run has 2.5, got 7.0"):
        train_command([*again, "--penalty", "7"])
    with pytest.raises(ValueError, match="expected a run of ippo, got a run of penalty"):
        train_command(["ippo", *again[1:]])


def test_presets_are_those_of_the_extended_config(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert train_command(["python:own.py:Penalty"]) == 0
    assert "Preset 'quick' (no accelerator)" in capsys.readouterr().err
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("penalty-2p-quick-s0-")
    expected = load_preset(ALGORITHMS["ippo"].config, "ippo", "quick", configs_folder())
    assert read_record(run)["config"]["total_steps"] == expected.total_steps
    assert train("python:own.py:Penalty", penalty=0.5, seed=4).summary == {"score": 2.0}
    with pytest.raises(FileNotFoundError, match="presets of ippo: .*did you mean small"):
        train_command(["python:own.py:Penalty", "--preset", "smal"])
    own = find_algorithm("python:own.py:Penalty")
    other = load_preset(own.config, own.name, "e3t/quick", configs_folder())
    assert (
        other.total_steps
        == load_preset(ALGORITHMS["e3t"].config, "e3t", "quick", configs_folder()).total_steps
    )
    assert presets_of("plain", find_algorithm("python:own.py:Plain").config) == "plain"


def test_config_without_presets_has_its_defaults(file: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        train_command(["python:own.py:Plain", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "usage: hanabi-rl train python:own.py:Plain" in shown and "(default: 3.0)" in shown


def test_help_lists_own_fields(file: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        train_command(["python:own.py:Penalty", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--penalty FLOAT" in shown and "Weight of the penalty, which wraps." in shown
    assert train_command(["--help"]) == 0
    assert "any_play,obl,python:FILE.py:CLASS}" in capsys.readouterr().out


def test_seeds_print_a_table(file: Path, capsys: Any) -> None:
    flags = ["python:own.py:Penalty", "--preset", "small", "--seeds", "1..2", "--run-dir", "x"]
    for number in range(2):  # the second time both are finished
        assert train_command(flags) == 0
        shown = capsys.readouterr()
        lines = [line.split() for line in shown.out.splitlines()]
        assert lines[-5:-2] == [["seed", "score"], ["1", "1"], ["2", "2"]]
        assert shown.err.count("finished") == 2 * number


def test_python_trains_seeds_as_the_command(file: Path, capsys: Any) -> None:
    found = train("python:own.py:Penalty", "small", seeds=range(1, 3), run_dir="x")
    assert [(str(run.run_dir), run.summary["score"]) for run in found.runs] == [
        ("x/s1", 1.0),
        ("x/s2", 2.0),
    ]
    assert found.runs[0].policy.identity() == load_policy("x/s1").identity()
    capsys.readouterr()
    flags = ["--preset", "small", "--seeds", "1", "2", "--run-dir", "x"]
    assert train_command(["python:own.py:Penalty", *flags]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{found}\n" and shown.err.count("finished") == 2
    again = train("python:own.py:Penalty", "small", seeds=[2, 3], run_dir="x")
    assert [run.summary["score"] for run in again.runs] == [2.0, 3.0]
    assert capsys.readouterr().err.count("finished") == 1

    places = [run.run_dir for run in train("python:own.py:Penalty", "small", seeds=[5, 6]).runs]
    assert [place.parent for place in places] == [Path("runs")] * 2
    assert ["-s5-" in places[0].name, "-s6-" in places[1].name] == [True, True]
    with pytest.raises(ValueError, match="expected seeds without resume, got both"):
        train("python:own.py:Penalty", seeds=[1], resume=True, run_dir="x")  # type: ignore[call-overload]


@pytest.mark.slow  # processes
def test_sweep_runs_in_processes(file: Path, capsys: Any) -> None:
    grid = ["--grid", "penalty=[1.0, 3.0]", "--seeds", "2"]
    flags = ["--algorithm", "python:own.py:Penalty", "--preset", "small", *grid]
    assert sweep_command([*flags, "--jobs", "2"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["penalty=1.0", "2"] in shown and ["penalty=3.0", "6"] in shown
    assert Path("runs/sweep-penalty-small/penalty=3.0/s2/summary.json").exists()


def test_job_of_a_cluster_is_importable_elsewhere(file: Path) -> None:
    """A pickle names no class of the file, which has another module in each process."""
    name = "python:own.py:Penalty"
    config = find_algorithm(name).config(penalty=4.0, run_dir="x")
    stored = pickle.dumps(Job(run_once, name, config))
    assert b"own_" not in stored and b"PenaltyConfig" not in stored
    restored = pickle.loads(stored)
    assert restored.config == config and restored.algorithm == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Penalti", r"expected a class of own.py \(.*\), got 'Penalti'; did you mean Penalty\?"),
        ("PlainConfig", "PlainConfig: expected a hanabi_rl.Algorithm, got class PlainConfig"),
        ("NoConfig", "NoConfig: config: expected a class of configs, .*IPPOConfig, got None"),
        ("Forgotten", r"config: expected @dataclasses.dataclass\(frozen=True\)"),
        ("Fails", r"Fails: KeyError: 'weights' \(.*own.py, line \d+: raise KeyError"),
        ("IPPO", "IPPO: expected a name of its own, got 'ippo', an algorithm of the package"),
    ],
)
def test_errors_name_the_class(file: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_command([f"python:own.py:{name}"])
    with pytest.raises(ValueError, match="no such file: none.py"):
        train_command(["python:none.py:Penalty"])
    with pytest.raises(ValueError, match="entry points hanabi_rl.algorithms"):
        train_command(["python:penalty"])
    with pytest.raises(ValueError, match="obl, python:FILE.py:CLASS; got 'penalty'"):
        train_command(["penalty"])
