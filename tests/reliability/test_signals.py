"""Killed or interrupted runs end, once resumed, like uninterrupted runs."""

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.training import Run, wait_for

SAVE_EVERY = {"bc": 5, "hdr_ippo": 3, "br_bc": 3}  # updates; see presets/
ALGOS = tuple(SAVE_EVERY)


def like(run: Run, folder: Path) -> Run:
    """A run with the same flags in another folder."""
    return Run(run.algo, folder, *run.flags)


def harm_of_kill(run: Run, before: int) -> str | None:
    """Harm of a SIGKILL, if any; `before`: last committed step at the start of the process."""
    steps = run.steps()
    saved = steps[-1] if steps else 0
    lost = run.logged() - saved
    if saved < before:
        return f"step {before} was committed, now the last is {saved}"
    return f"{lost} updates are lost" if lost > SAVE_EVERY[run.algo] else None


@pytest.mark.slow  # short form: algorithms/test_run_bc.py, in one process
@pytest.mark.parametrize("algo", ALGOS)
def test_killed_runs_end_like_uninterrupted_runs(
    algo: str,
    uninterrupted: Callable[[str], Run],
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
) -> None:
    """SIGKILL at random times while the run holds its folder, several per run."""
    count = injections({"bc": 1}.get(algo, 0), 67)
    if count == 0:
        pytest.skip("short form: one learner")
    reference, rng, kills = uninterrupted(algo), random.Random(f"kill {algo}"), tally("kill")
    expected, window_s = reference.result(), 4.0
    for number in itertools.count():
        run = like(reference, tmp_path / str(number))
        while number_of(kills) < count:
            steps = run.steps()
            started = time.monotonic()
            process = run.start()
            process.join(rng.uniform(0, window_s))
            if process.exitcode is not None:
                assert process.exitcode == 0, run.output()
                window_s = time.monotonic() - started
                break
            process.kill()
            process.join()
            kills.add(
                f"run {number}, after step {steps[-1:]}", harm_of_kill(run, max(steps, default=0))
            )
        if run.process is not None:
            assert run.process.exitcode == 0 or run.finish() == 0, run.output()
            if run.result() != expected or run.leftovers():
                kills.add(f"run {number}", f"different result, or leftovers {run.leftovers()}")
        if number_of(kills) >= count:
            break


def number_of(kills: object) -> int:
    return kills.survived + len(kills.lost)  # type: ignore[attr-defined]


@pytest.mark.parametrize("algo", ALGOS)
def test_sigterm_saves_and_exits_with_143(
    algo: str,
    uninterrupted: Callable[[str], Run],
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
) -> None:
    count = injections(0, 7)
    if count == 0:
        pytest.skip("short form: tests/runs/test_runs.py and test_killed_runs_...")
    reference, rng, stops = uninterrupted(algo), random.Random(f"term {algo}"), tally("SIGTERM")
    expected = reference.result()
    for number in range(count):
        run = like(reference, tmp_path / str(number))
        process = run.start()
        wait_for(lambda run=run: (run.folder / "metrics.jsonl").exists())
        process.join(rng.uniform(0, 1.5))
        logged = run.logged()
        process.terminate()
        process.join()
        saved = max(run.steps(), default=0)
        if process.exitcode != 143:
            stops.add(f"run {number}", f"exit code {process.exitcode}\n{run.output()[-500:]}")
        elif not saved >= logged > -1 or run.logged() > saved:
            stops.add(f"run {number}", f"update {run.logged()} was logged, {saved} saved")
        elif run.finish() != 0 or run.result() != expected or run.leftovers():
            stops.add(
                f"run {number}",
                f"different result, or leftovers {run.leftovers()}: {run.output()[-500:]}",
            )
        else:
            stops.add(f"run {number}", None)


def test_double_ctrl_c_keeps_last_checkpoint(
    uninterrupted: Callable[[str], Run],
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
) -> None:
    if not injections(0, 1):
        pytest.skip("short form: tests/runs/test_runs.py")
    row = tally("Ctrl-C twice")
    run = like(uninterrupted("hdr_ippo"), tmp_path / "run")
    process = run.start()
    wait_for(lambda: len(run.steps()) > 0 or process.exitcode is not None)
    good = run.steps()[-1]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130 and "KeyboardInterrupt" not in run.output(), run.output()
    assert run.steps()[-1] >= good
    assert (
        run.finish() == 0
        and run.result() == uninterrupted("hdr_ippo").result()
        and run.leftovers() == []
    )
    row.add("hdr_ippo", None)
