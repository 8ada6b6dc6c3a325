"""Number of CPU threads, which determines the rounding of a run."""

import dataclasses
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.launch import sweep as sweeping
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.threads import VARIABLE, cpu_threads
from hanabi_rl.storage.files import read_json, write_json


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores, and no environment variable."""
    for name in (VARIABLE, "NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 5}, raising=False)


def test_cpu_threads_default_to_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu_threads() == 4
    monkeypatch.setenv("NPROC", "3")
    assert cpu_threads() == 3
    monkeypatch.setenv(VARIABLE, "7")
    assert cpu_threads() == 7
    monkeypatch.setenv(VARIABLE, "many")  # XLA ignores it
    assert cpu_threads() == 3
    monkeypatch.delenv("NPROC")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    assert cpu_threads() == 9


def test_resume_warns_of_other_cpu_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = BCConfig(run_dir=str(tmp_path))
    with open_run_dir("bc", config, 2):
        pass
    assert read_json(tmp_path / "config.json")["cpu_threads"] == 4

    def resumed() -> str:
        with open_run_dir("bc", dataclasses.replace(config, resume=True), 2):
            return capsys.readouterr().err

    assert resumed() == ""
    monkeypatch.setenv(VARIABLE, "1")
    (line,) = resumed().splitlines()
    assert line.startswith(f"Warning: {tmp_path} started with 4 CPU threads and continues with 1:")
    assert line.endswith("PJRT_NPROC=4 keeps them bit-exact")
    record = read_json(tmp_path / "config.json")
    del record["cpu_threads"]  # a run of an earlier version
    write_json(tmp_path / "config.json", record)
    assert resumed() == ""


def test_sweep_runs_use_sweep_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each run is pinned to fewer cores than the sweep has."""
    pinned: list[Any] = []
    threads: list[str] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: pinned.append(cores))
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "1")

    class InThisProcess:
        sentinel, exitcode = 0, 0

        def __init__(self, target: Any, args: Any) -> None:
            self.target, self.args = target, args

        def start(self) -> None:
            """Run at once, and restore the sweep's own streams and number of threads."""
            own, streams = os.environ.pop(VARIABLE, None), (sys.stdout, sys.stderr)
            self.target(*self.args)
            sys.stdout.close()
            sys.stdout, sys.stderr = streams
            threads.append(os.environ.pop(VARIABLE))
            if own is not None:
                os.environ[VARIABLE] = own

    context = SimpleNamespace(Process=InThisProcess)
    monkeypatch.setattr(sweeping.multiprocessing, "get_context", lambda _: context)
    monkeypatch.setattr(sweeping, "wait", lambda _: None)
    for jobs in (2, 3):
        monkeypatch.delenv(VARIABLE, raising=False)
        configs = [BCConfig(run_dir=str(tmp_path / f"{jobs}-{k}")) for k in range(jobs)]
        sweeping._run_at_once(lambda *_: None, "bc", configs, jobs)
        assert threads == ["4"] * jobs and all(0 < len(cores) < 4 for cores in pinned)
        threads.clear()
        pinned.clear()
