"""Training processes to interrupt: the scripts' code on tiny games and networks."""

import json
import multiprocessing
import os
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jax
from support.processes import xla_flags

from hanabi_rl.storage.tensors import read_metadata

PRESETS = Path(__file__).parents[1] / "reliability" / "presets"
PATIENCE_S = 300.0  # for busy machines; no test depends on durations

# The server imports the package once; runs are forked from it before JAX starts threads.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["hanabi_rl.launch.script"])


class Run:
    """A run folder and its process."""

    def __init__(self, algo: str, folder: Path, *flags: str) -> None:
        self.algo, self.folder, self.flags = algo, folder, flags
        self.log = folder.with_name(f"{folder.name}.log")
        self.process: BaseProcess | None = None

    def start(self, *flags: str, devices: int = 1) -> BaseProcess:
        """Start or resume the run with more `flags`; wait until it holds its folder."""
        resume = (self.folder / "config.json").exists()
        base_flags = (
            ["--resume"]
            if resume
            else ["--preset", str(PRESETS / f"{self.algo}.toml"), *self.flags]
        )
        args = (
            self.algo,
            [*base_flags, "--run-dir", str(self.folder), *flags],
            self.log,
            _cache(),
            devices,
        )
        process = _context.Process(target=_train, args=args)
        process.start()
        self.process = process
        lock, holder = self.folder / ".lock", f"process {process.pid} on"
        wait_for(
            lambda: (
                not process.is_alive() or (lock.exists() and lock.read_text().startswith(holder))
            )
        )
        return process

    def finish(self, *flags: str, devices: int = 1) -> int | None:
        """Run to the end; return the exit code."""
        process = self.start(*flags, devices=devices)
        process.join()
        return process.exitcode

    def steps(self) -> list[int]:
        """Committed checkpoints, ascending."""
        folders = (self.folder / "checkpoints").glob("*/commit_success.txt")
        return sorted(int(path.parent.name) for path in folders)

    def logged(self) -> int:
        """Last update in a complete line of `metrics.jsonl`, or 0."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return int(json.loads(lines[-1])["step"]) if lines else 0

    def result(self) -> dict[str, Any]:
        """Results of a finished run: state digests, positions, metrics, policies, summary."""
        last = self.folder / "checkpoints" / str(self.steps()[-1])
        items = ("manifest/metadata", "loader/metadata", "evaluation/metadata")
        policies = sorted(self.folder.glob("policy*/*.safetensors"))
        lines = [
            json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()
        ]
        return {
            "checkpoint": {item: json.loads((last / item).read_text()) for item in items},
            "policies": {
                str(path.relative_to(self.folder)): read_metadata(path) for path in policies
            },
            "metrics": [_untimed(line) for line in lines],
            "summary": _untimed(json.loads((self.folder / "summary.json").read_text())),
        }

    def leftovers(self) -> list[str]:
        """Remains of interrupted atomic writes, and uncommitted steps."""
        unfinished = [
            step
            for step in (self.folder / "checkpoints").glob("*")
            if not (step / "commit_success.txt").exists()
        ]
        names = [
            path
            for path in self.folder.rglob("*")
            if path.suffix in (".tmp", ".old") or "orbax-check" in path.name
        ]
        return [str(path.relative_to(self.folder)) for path in (*unfinished, *names)]

    def output(self) -> str:
        """Output of the run's processes."""
        return self.log.read_text() if self.log.exists() else ""


def wait_for(condition: Any) -> None:
    """Poll `condition`; fail after `PATIENCE_S`."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"condition still false after {PATIENCE_S:g} s"
        time.sleep(0.01)


def _untimed(record: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in record.items()
        if key not in ("wall_s", "steps_per_s", "run_dir")
    }


def _cache() -> str | None:
    return jax.config.jax_compilation_cache_dir


def _train(algo: str, args: list[str], log: Path, cache: str | None, devices: int) -> None:
    """Child process: `python train/<algo>.py <args>`."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ["XLA_FLAGS"] = xla_flags(devices)
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    from hanabi_rl.launch.script import main

    sys.argv = [f"train/{algo}.py", *args]
    main(algo)
