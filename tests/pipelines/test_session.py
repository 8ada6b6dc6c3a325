"""Seeds one after another, and the scripts' way of ending."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.algorithms.bc import BCConfig
from hanabi_rl.algorithms.registry import LEARNERS
from hanabi_rl.launch import script
from hanabi_rl.runs.session import Stopped, open_run_dir, per_seed

CONFIGS = Path(__file__).parents[2] / "configs"


def test_every_seed_runs_and_a_table_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[BCConfig] = []

    def run(config: BCConfig) -> dict[str, Any]:
        ran.append(config)
        return {"score": float(config.seed**2), "other": 1.0}

    config = BCConfig(seeds=(1, 2, 4), run_dir="runs/x", lr=0.5)
    assert per_seed(config, run, {"score": "self-play", "other": "rest"}) == 0
    expected = [
        dataclasses.replace(config, seeds=(), seed=seed, run_dir=f"runs/x/s{seed}")
        for seed in (1, 2, 4)
    ]
    assert ran == expected
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # The mean of 1, 4 and 16 is 7; their variance is 63, so the standard error is sqrt(63 / 3) =
    # 4.58.
    numbers = [
        ["1", "1", "1"],
        ["2", "4", "1"],
        ["4", "16", "1"],
        ["mean", "7", "1"],
        ["s.e.", "4.6", "0"],
    ]
    assert lines == [["seed", "self-play", "rest"], *numbers]


def test_one_seed_needs_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        per_seed(BCConfig(seed=5), lambda config: {"score": config.seed}, {"score": "score"}) == 0
    )
    assert capsys.readouterr().out == ""


def test_a_stopped_seed_ends_the_script_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    def run(config: BCConfig) -> dict[str, Any]:
        raise Stopped(Path("runs/x"), 143)

    assert per_seed(BCConfig(seeds=(0, 1)), run, {}) == 143
    assert "continue with --resume --run-dir runs/x" in capsys.readouterr().err


def test_a_run_folder_is_not_used_twice(tmp_path: Path) -> None:
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
    monkeypatch.setitem(LEARNERS, "bc", LEARNERS["bc"]._replace(run=run))
    with pytest.raises(SystemExit) as stop:
        script.main(CONFIGS, "bc")
    return stop.value.code


def test_a_script_runs_its_preset_and_says_which(
    monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_users_error_is_one_clear_line(monkeypatch: Any) -> None:
    def run(config: BCConfig) -> dict[str, Any]:
        raise ValueError("expected this, got that")

    assert (
        call_main(monkeypatch, run)
        == "bc.py: expected this, got that (HANABI_RL_DEBUG=1 shows where)"
    )
    assert "--preset nope: no file" in call_main(monkeypatch, run, "--preset", "nope")
    assert "--resume: expected the run to continue in --run-dir, got none" in call_main(
        monkeypatch, run, "--resume"
    )
