"""Run folders that are locked, read-only, finished or of another run: refused with an error."""

import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import run_python
from support.training import Run, wait_for

from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.runs.run_dir import create_run, lock_run_dir, read_config
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.storage.dataclass_io import from_dict


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of all files except the lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(run: Run, message: str, *flags: str) -> str | None:
    """Start a process in the run's folder; return the fault in its refusal, if any."""
    before, printed = contents(run.folder), len(run.output())
    code, last = run.finish(*flags), run.output()[printed:].strip()
    if code != 2 or re.search(message, last) is None or "Traceback" in last:
        return f"exit code {code}: {last[-500:]}"
    return None if contents(run.folder) == before else "files were overwritten"


@pytest.fixture
def finished(clone: Run, tmp_path: Path) -> Run:
    """A copy of a finished BC run."""
    shutil.copytree(clone.folder, tmp_path / "run")
    return Run("bc", tmp_path / "run", *clone.flags)


@pytest.mark.slow  # two processes; refused in one process below
def test_second_run_in_folder_is_refused(
    clone: Run, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    """The first run continues undisturbed; its lock ends with its process."""
    row, run = tally("run folders"), Run("bc", tmp_path / "run", *clone.flags)
    first = run.start()
    wait_for(lambda: run.steps() or first.exitcode is not None)
    os.kill(first.pid or 0, 19)  # SIGSTOP: keeps the folder locked meanwhile
    second = Run("bc", run.folder)
    row.add(
        "two at once",
        refused(second, f"in use by another run \\(process {first.pid} on .*wait for it"),
    )
    first.kill()
    first.join()
    with lock_run_dir(run.folder):
        pass
    if injections(0, 1):  # otherwise only in test_signals.py: nothing was overwritten above
        assert run.finish() == 0 and run.result() == clone.result(), run.output()
        assert run.leftovers() == []


def test_finished_run_is_only_evaluated_again(
    finished: Run, injections: Callable[..., int], tally: Callable
) -> None:
    if not injections(0, 1):
        pytest.skip("short form: tests/algorithms/test_run_bc.py")
    row, expected = tally("run folders"), finished.result()
    redone = ("learning-curve.png", "summary.json")  # the summary contains the folder's name
    unchanged = {
        path: digest
        for path, digest in contents(finished.folder).items()
        if not path.endswith(redone)
    }
    code = finished.finish()
    after = contents(finished.folder)
    harm = (
        None
        if all(after[path] == digest for path, digest in unchanged.items())
        else "files were overwritten"
    )
    if code != 0 or "has its 3 epochs: only measuring it again" not in finished.output():
        harm = f"exit code {code}: {finished.output()[-500:]}"
    row.add("a finished run resumed", harm if finished.result() == expected else "another result")


def test_other_algorithm_or_config_is_refused(
    finished: Run, injections: Callable[..., int], tally: Callable
) -> None:
    if not injections(0, 1):
        pytest.skip("short form: one process below, two in test_second_run_in_folder_is_refused")
    row = tally("run folders")
    other = Run("br_bc", finished.folder)
    row.add(
        "another algorithm", refused(other, "br_bc.py: .*expected a run of br_bc, got a run of bc ")
    )
    changed = "--resume: expected the run's config, but lr: the run has 0.005, got 0.1"
    row.add("a changed config", refused(finished, changed, "--lr", "0.1"))
    again = Run("bc", finished.folder, *finished.flags)
    (finished.folder / "config.json").rename(finished.folder / "elsewhere")
    row.add(
        "a folder without its config",
        refused(again, "expected a new folder, got one with checkpoints, metrics"),
    )


def test_python_config_is_validated(finished: Run) -> None:
    saved = from_dict(BCConfig, read_config(finished.folder))
    same = dataclasses.replace(saved, run_dir=str(finished.folder), resume=True)
    for algo, config, message in (
        ("bc", dataclasses.replace(same, epochs=9), "epochs: the run has 3, got 9"),
        ("bc", dataclasses.replace(same, seed=1), "seed: the run has 0, got 1"),
        ("other_play", same, "expected a run of other_play, got a run of bc"),
    ):
        with pytest.raises(ValueError, match=message), open_run_dir(algo, config, 2):
            pass


READ_ONLY = """
from pathlib import Path
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.run_dir import read_config
import dataclasses
folder = Path({folder!r})
config = from_dict(BCConfig, read_config(folder))
config = dataclasses.replace(config, run_dir=str(folder), resume=True)
for config in (config, dataclasses.replace(config, run_dir=str(folder / "new"), resume=False)):
    try:
        with open_run_dir("bc", config, 2):
            print("opened")
    except (ValueError, OSError) as error:
        print("REFUSED", error)
"""


@pytest.mark.slow  # a separate process
def test_read_only_folder_is_refused(finished: Run, tally: Callable) -> None:
    """For a user without write permission: by file mode, or for root by a read-only mount."""
    folder, inside = finished.folder, list[str]()
    if os.geteuid() == 0:
        mount = f'mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && exec "$@"'
        inside = ["unshare", "-rm", "sh", "-c", mount, "sh"]
        if (
            shutil.which("unshare") is None
            or subprocess.run([*inside, "true"], capture_output=True).returncode
        ):
            pytest.skip("root writes to read-only folders, and cannot mount one here")
    else:
        folder.chmod(0o555)
    row, before = tally("run folders"), contents(folder)
    lines = [
        line
        for line in run_python(READ_ONLY.format(folder=str(folder)), within=inside).splitlines()
        if line
    ]
    folder.chmod(0o755)
    right = len(lines) == 2 and all(
        line.startswith("REFUSED") and str(folder) in line for line in lines
    )
    row.add("a read-only folder", None if right and contents(folder) == before else f"{lines}")


def test_partial_writes_are_removed_on_open(finished: Run) -> None:
    folder, policy = finished.folder, contents(finished.folder / "policy")
    (folder / ".policy.123.tmp").mkdir()
    for name in (".summary.json", "policy/.policy.safetensors"):
        (folder / f"{name}.123.tmp").write_text("{")
    config = dataclasses.replace(
        from_dict(BCConfig, read_config(folder)), run_dir=str(folder), resume=True
    )
    with open_run_dir("bc", config, 2):
        assert finished.leftovers() == [] and contents(folder / "policy") == policy


def test_lock_is_released_and_names_holder(tmp_path: Path) -> None:
    folder = create_run("bc", num_players=2, preset=None, seed=0, run_dir=tmp_path / "run")
    for _ in range(2):
        with (
            lock_run_dir(folder),
            pytest.raises(ValueError, match=f"in use by another run .process {os.getpid()} on"),
        ):
            lock_run_dir(folder).__enter__()
