"""Consecutive seeds, and the exit of scripts."""

import copy
import dataclasses
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.launch import script
from hanabi_rl.launch.sweep import run_seeds, run_sweep
from hanabi_rl.launch.sweep_config import GridPoint, SweepConfig
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.runs.run_dir import write_summary
from hanabi_rl.runs.session import RunStopped, open_run_dir
from hanabi_rl.storage.extras import install_command


def fails(config: BCConfig, error: BaseException, *places: str, line: str = "") -> None:
    """Start that writes its config, and files at `places` with a `line` in them, and fails."""
    with open_run_dir("bc", config, 2) as folder:
        assert (folder / "config.json").exists()
        for place in places:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(line)
        raise error


def test_failed_start_leaves_no_files(tmp_path: Path) -> None:
    """The corrected command must be a new run."""
    run_dir = tmp_path / "new" / "run"
    config = BCConfig(run_dir=str(run_dir))
    for error in (ValueError("wrong"), OSError("wrong"), KeyboardInterrupt(), RuntimeError("bug")):
        with pytest.raises(type(error)):
            fails(config, error, "metrics.jsonl", "checkpoints/0/state", "tensorboard/events")
        assert list(tmp_path.iterdir()) == []
    with open_run_dir("bc", config, 2):
        pass
    assert (run_dir / "config.json").exists()


@pytest.mark.parametrize("stray", [False, True])
def test_missing_wandb_fails_before_start(
    stray: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder `wandb`, which W&B itself writes, is imported as an empty package."""
    monkeypatch.setitem(sys.modules, "wandb", types.ModuleType("wandb") if stray else None)
    message = f"^--wandb needs the wandb package: {re.escape(install_command('wandb'))}$"
    run_dir = tmp_path / "new" / "run"
    with (
        pytest.raises(ValueError, match=message),
        open_run_dir("bc", BCConfig(run_dir=str(run_dir), wandb=True), 2),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    sweep = SweepConfig(algorithm="bc", preset="quick", run_dir=str(run_dir), jobs=2)
    with pytest.raises(ValueError, match=message):
        run_sweep(sweep, BCConfig(wandb=True), [GridPoint("bc", {})])
    assert list(tmp_path.iterdir()) == []


def test_failed_start_removes_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="wrong"):
        fails(BCConfig(), ValueError("wrong"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs" / "other").mkdir(parents=True)
    with pytest.raises(ValueError, match="wrong"):
        fails(BCConfig(), ValueError("wrong"))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


def test_failed_start_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "metrics.jsonl").write_text("{}\n")
    config = BCConfig(run_dir=str(tmp_path))
    with pytest.raises(ValueError, match="wrong"):
        fails(config, ValueError("wrong"))
    assert {path.name for path in tmp_path.iterdir()} - {".lock"} == {"notes.txt", "old"}
    with open_run_dir("bc", config, 2):
        (tmp_path / "config.json").unlink()  # not yet written
        with pytest.raises(ValueError, match="in use by another run"):
            fails(config, ValueError("wrong"))
        assert (tmp_path / ".lock").exists()


@pytest.mark.parametrize("of", ["", "bc/"])
@pytest.mark.parametrize("place", ["metrics.jsonl", "checkpoints/3/state"])
def test_started_run_is_kept(tmp_path: Path, of: str, place: str) -> None:
    """A metrics line or a checkpoint, of the run or of the clone trained before it."""
    place = of + place
    folder = tmp_path / "run"
    config = BCConfig(run_dir=str(folder))
    with pytest.raises(ValueError, match="wrong"):
        fails(config, ValueError("wrong"), place, line='{"step": 0}\n')
    assert (folder / "config.json").exists() and (folder / place).exists()
    with pytest.raises(ValueError, match="wrong"):
        fails(dataclasses.replace(config, resume=True), ValueError("wrong"))
    assert (folder / "config.json").exists()


def installed(monkeypatch: pytest.MonkeyPatch, run: Any, **changes: Any) -> Algorithm:
    """BC with another `run`."""
    bc = copy.copy(ALGORITHMS["bc"])
    for name, value in {"run": run, **changes}.items():
        setattr(bc, name, value)
    monkeypatch.setattr("hanabi_rl.algorithms.bc.ALGORITHM", bc)
    return bc


def test_seeds_run_with_summary_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[BCConfig] = []

    def run(config: BCConfig) -> dict[str, Any]:
        ran.append(config)
        summary = {"score": float(config.seed**2), "other": 1.0}
        with open_run_dir("bc", config, 2) as folder:
            write_summary(folder, summary)
        return summary

    config = BCConfig(seeds=(1, 2, 4), run_dir=str(tmp_path / "x"), lr=0.5)
    columns = {"score": "self-play", "other": "rest"}
    algorithm = installed(monkeypatch, run, summary_columns=columns, pooled_report=lambda *_: "")
    run_seeds(algorithm, config)
    expected = [
        dataclasses.replace(config, seeds=(), seed=seed, run_dir=str(tmp_path / f"x/s{seed}"))
        for seed in (1, 2, 4)
    ]
    assert ran == expected
    table = capsys.readouterr().out
    lines = [line.split() for line in table.splitlines()]
    # mean of 1, 4 and 16: 7; variance 63, so the standard error is sqrt(63 / 3) = 4.58
    numbers = [
        ["1", "1", "1"],
        ["2", "4", "1"],
        ["4", "16", "1"],
        ["mean", "7", "1"],
        ["s.e.", "4.6", "0"],
    ]
    assert lines == [["seed", "self-play", "rest"], *numbers]

    run_seeds(algorithm, config)  # the same command again: every run is finished
    assert len(ran) == 3 and capsys.readouterr().out == table
    with pytest.raises(ValueError, match=r"x/s1: .*lr: the run has 0.5, got 0.25"):
        run_seeds(algorithm, dataclasses.replace(config, lr=0.25))


def test_one_seed_prints_no_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_seeds(installed(monkeypatch, lambda config: {"score": config.seed}), BCConfig(seeds=(5,)))
    assert capsys.readouterr().out == ""


def test_stopped_seed_sets_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: BCConfig) -> dict[str, Any]:
        raise RunStopped(Path("runs/x"), 143)

    assert call_main(monkeypatch, run, "--seeds", "0", "1") == 143
    assert "continue with --resume --run-dir runs/x" in capsys.readouterr().err


def test_run_folder_is_not_reused(tmp_path: Path) -> None:
    config = BCConfig(run_dir=str(tmp_path / "run"))
    with open_run_dir("bc", config, 2) as run_dir:
        assert run_dir == tmp_path / "run"
    with (
        pytest.raises(
            ValueError,
            match="already holds a run: add --resume to continue it, or name a new folder",
        ),
        open_run_dir("bc", config, 2),
    ):
        pass
    with open_run_dir("bc", dataclasses.replace(config, resume=True), 2) as run_dir:
        assert run_dir == tmp_path / "run"


def call_main(monkeypatch: pytest.MonkeyPatch, run: Any, *args: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["train/bc.py", *args])
    installed(monkeypatch, run)
    with pytest.raises(SystemExit) as stop:
        script.main("bc")
    return stop.value.code


def test_script_prints_its_preset(monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[BCConfig] = []

    def run(config: BCConfig) -> dict[str, Any]:
        ran.append(config)
        return {}

    assert call_main(monkeypatch, run, "--epochs", "2") == 0
    assert (ran[0].preset, ran[0].epochs) == ("quick", 2)  # without an accelerator and without data
    assert (
        "Preset 'quick' (no accelerator); choose another with --preset NAME."
        in capsys.readouterr().err
    )
    assert call_main(monkeypatch, run, "--preset", "3p-1k") == 0
    assert ran[1].game.num_players == 3 and capsys.readouterr().err == ""


def test_user_error_is_one_line_exit_2(
    monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: BCConfig) -> dict[str, Any]:
        raise ValueError("expected this,\n got that")

    def last_line(*args: str) -> str:
        assert call_main(monkeypatch, run, *args) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert last_line() == "bc.py: expected this, got that (--debug shows where)"
    assert "--preset nope: no file" in last_line("--preset", "nope")
    assert "--resume: expected the run's folder in --run-dir, got none" in last_line("--resume")
    with pytest.raises(ValueError, match="expected this"):
        call_main(monkeypatch, run, "--debug")


def test_failed_training_is_one_line_exit_1(
    monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: BCConfig) -> dict[str, Any]:
        raise NotFiniteError("expected a finite loss, got nan")

    assert call_main(monkeypatch, run) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "bc.py: expected a finite loss, got nan (--debug shows where)"
