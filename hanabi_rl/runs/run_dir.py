"""Run folder: name, lock, config.json, summary.json, and graceful stop.

`runs/<algorithm>-<players>p-<preset>-s<seed>-<UTC time>/` holds `config.json`, `input_hashes.json`,
`metrics.jsonl`, `tensorboard/`, `checkpoints/<step>/`, `policy/` (best score), `policy-latest/`,
`summary.json` and plots.
"""

from __future__ import annotations

import datetime
import fcntl
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from hanabi_rl.runs.threads import cpu_threads
from hanabi_rl.storage.files import check_writable, read_json, to_json, write_json

FORMAT_VERSION = 1
LOCK, METRICS = ".lock", "metrics.jsonl"
BEST_POLICY, LATEST_POLICY = "policy", "policy-latest"
"""Policy folders of a run: best score, and last."""
BEST_ACCURACY, BEST_LOSS = "policy-accuracy", "policy-loss"
"""Policy folders of a clone: best validation accuracy, lowest validation cross-entropy."""
EVALUATED = "policies"
"""Folder in which `save_evaluated` saves all evaluated policies, by environment steps."""
MEMBERS = "members"
"""Folder with one folder per member of a population, which has a run's policy folders."""
INPUT_HASHES = "input_hashes.json"
"""SHA-256 of the agents and games used by a run, by flag and name."""
_WRITTEN_BY_RUNS = (
    "config.json",
    "checkpoints",
    METRICS,
    BEST_POLICY,
    LATEST_POLICY,
    "summary.json",
)
_PACKAGES = ("hanabi-rl", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def create_run(
    algorithm: str,
    *,
    num_players: int,
    preset: str | None,
    seed: int,
    run_dir: Path | None = None,
    root: Path = Path("runs"),
) -> Path:
    """Create and return the folder of a new run: `run_dir`, or a new name under `root`. Raises
    ValueError if `run_dir` holds a run or parts of one, or is not writable."""
    check_writable("--run-dir", run_dir or root)
    if run_dir is not None:
        found = [name for name in _WRITTEN_BY_RUNS if (run_dir / name).exists()]
        if "config.json" in found:
            raise ValueError(
                f"--run-dir {run_dir} already holds a run: add --resume to continue it, or name a "
                "new folder"
            )
        if found:
            raise ValueError(
                f"--run-dir {run_dir}: expected a new folder, got one with {', '.join(found)}"
            )
        run_dir.mkdir(parents=True, exist_ok=True)
        return run_dir
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    label = preset_label(preset or "default", {num_players})
    name = "-".join(filter(None, (algorithm, f"{num_players}p", label, f"s{seed}", now)))
    for attempt in range(1, 1000):  # runs that start within the same second
        folder = root / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise ValueError(f"expected a free name for a run under {root}, got 999 folders named {name}")


_PLAYERS = re.compile(r"(?:^|(?<=[-_]))([2-5])p(?:[-_]|$)")


def preset_players(preset: str | None) -> int | None:
    """Number of players in a preset's name (`2p-human`, `adhoc-3p`); None without one."""
    found = _PLAYERS.search(Path(preset or "").stem)
    return int(found[1]) if found else None


def preset_label(preset: str, players: Collection[int]) -> str:
    """The preset's part of a run folder's name: its stem, without a number of players that differs
    from `players`."""
    stem = Path(preset).stem
    if preset_players(preset) is None or {preset_players(preset)} == set(players):
        return stem
    return _PLAYERS.sub("", stem, count=1).rstrip("-_")


def member_folders(run_dir: Path) -> list[Path]:
    """Folders of the members of a population's run, in order."""
    return sorted((run_dir / MEMBERS).iterdir(), key=lambda folder: int(folder.name))


@contextmanager
def lock_run_dir(
    folder: Path, what: str = "run", flag: str = "--run-dir", name: str = LOCK
) -> Iterator[None]:
    """Lock a run's folder for this process; the file `name` stays, the lock ends with the process.

    Args:
        what: type of program, for errors.
        flag: flag that names the folder, for errors.

    Raises:
        ValueError: another process holds the lock, or the folder is not writable.
    """
    try:
        file = (folder / name).open("a+")
    except OSError as error:
        raise ValueError(f"{folder}: cannot write to the {what}'s folder: {error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ValueError(
                f"{folder}: in use by another {what} ({file.read().strip() or 'just started'}): "
                f"wait for it, stop it, or use another {flag}"
            ) from error
        except OSError as error:  # some network file systems cannot lock
            warnings.warn(
                f"{folder} cannot be locked, so do not start two {what}s in it: {error}",
                stacklevel=3,
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield


def missing_parents(path: Path) -> list[Path]:
    """`path` and its parents that do not exist, innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def _has_started(place: Path) -> bool:
    """True if `place` holds a metrics line or a checkpoint, of a run or of its clone's."""
    lines = [place] if place.name == METRICS else place.rglob(METRICS)
    steps = place.glob("*") if place.name == "checkpoints" else place.glob("**/checkpoints/*")
    saved = (path.name.isdigit() and int(path.name) > 0 for path in steps)
    return any(path.stat().st_size for path in lines) or any(saved)


@contextmanager
def remove_if_not_started(run_dir: Path, made: Sequence[Path] = ()) -> Iterator[None]:
    """After a failed start, delete its files in `run_dir` and the folders `made`. A run with a
    metrics line or a checkpoint has started and stays. This process holds the lock."""
    before = set(run_dir.iterdir()) - {run_dir / LOCK}
    try:
        yield
    except BaseException:
        written = set(run_dir.iterdir()) - before
        if not any(map(_has_started, written)):
            for place in written:
                shutil.rmtree(place) if place.is_dir() else place.unlink()
            remove_empty(made)
        raise


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove the empty ones of `folders`, innermost first."""
    for folder in folders:
        with suppress(OSError):  # the folder holds other files
            folder.rmdir()


def write_config(run_dir: Path, config: Mapping[str, Any], *, algorithm: str, seed: int) -> None:
    """Write `config.json`: the resolved config, versions and hardware."""
    record = {
        "format_version": FORMAT_VERSION,
        "algorithm": algorithm,
        "seed": seed,
        "commit": source_commit(),
        "versions": versions(),
        "cpu_threads": cpu_threads(),
        "config": config,
    }
    write_json(run_dir / "config.json", record)


def read_record(run_dir: Path) -> dict[str, Any]:
    """Read the `config.json` that `write_config` saved in `run_dir`. Raises ValueError if `run_dir`
    holds no run, or a run of another format."""
    path = run_dir / "config.json"
    if not path.exists():
        raise ValueError(f"expected a run folder with a config.json, got {run_dir}")
    record = read_json(path)
    version = record.get("format_version") if isinstance(record, dict) else None
    if version != FORMAT_VERSION:
        raise ValueError(f"{path}: expected format_version {FORMAT_VERSION}, got {version}")
    if missing := [key for key in ("algorithm", "config") if key not in record]:
        raise ValueError(f"{path}: expected a key {missing[0]!r}, got only {sorted(record)}")
    return dict(record)


def read_config(run_dir: Path, *, algorithm: str | None = None) -> dict[str, Any]:
    """Config in `read_record`. Raises ValueError also for a run of another `algorithm`."""
    record = read_record(run_dir)
    if algorithm is not None and record["algorithm"] != algorithm:
        raise ValueError(
            f"{run_dir}: expected a run of {algorithm}, got a run of {record['algorithm']}"
        )
    return dict(record["config"])


def check_resumable(
    saved: Mapping[str, Any], config: Mapping[str, Any], *, may_differ: Collection[str]
) -> None:
    """Raise ValueError, naming fields and values, if a resumed run changes its config, except in
    the fields `may_differ` (dots for nesting)."""
    old, new = flat_config(to_json(saved)), flat_config(to_json(config))
    missing = object()
    changed = [
        f"{name}: the run has {old.get(name)!r}, got {new.get(name)!r}"
        for name in sorted(old.keys() | new.keys())
        if name not in may_differ and old.get(name, missing) != new.get(name, missing)
    ]
    if changed:
        raise ValueError("--resume: expected the run's config, but " + "; ".join(changed))


def read_input_hashes(run_dir: Path) -> dict[str, str]:
    """Read `input_hashes.json` (`given.json` in older runs); empty if the file is missing."""
    paths = [run_dir / name for name in (INPUT_HASHES, "given.json")]
    path = next((path for path in paths if path.exists()), None)
    return {} if path is None else read_json(path)


def check_input_hashes(run_dir: Path, hashes: Mapping[str, str]) -> dict[str, str]:
    """The run's saved input hashes, extended by `hashes`.

    Args:
        hashes: SHA-256 of each agent and file of games, by flag and name; configs have only the
            name.

    Raises:
        ValueError: an input has changed since the run started.
    """
    known = read_input_hashes(run_dir)
    for name, found in hashes.items():
        if known.setdefault(name, found) != found:
            raise ValueError(
                f"{name}: expected the run's original input (SHA-256 {known[name]}), got another "
                f"one ({found}): restore it, or start a new run"
            )
    return known


def write_input_hashes(run_dir: Path, hashes: Mapping[str, str]) -> None:
    """Add `hashes` to `input_hashes.json`. Raises ValueError as `check_input_hashes`."""
    known = check_input_hashes(run_dir, hashes)
    if hashes:
        write_json(run_dir / INPUT_HASHES, known)


def flat_config(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Field -> value of a config of nested dictionaries, dots for nesting."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= (
            flat_config(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{key}": value}
        )
    return flat


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Write `summary.json` atomically, with the format version last."""
    write_json(run_dir / "summary.json", {**summary, "format_version": FORMAT_VERSION})


def versions() -> dict[str, str]:
    """Versions of Python and of packages that affect results; "not installed" for a bare
    checkout."""

    def version(name: str) -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def source_commit() -> str | None:
    """Commit of this package's checkout, with `-dirty` if tracked files differ; None without
    one."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():  # installed; a repository further up is another project's
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class GracefulStop:
    """Context that turns the first Ctrl-C or SIGTERM into a flag: a loop can save before it ends.

        with GracefulStop() as stop:
            while step < total and not stop.requested:
                ...
            checkpointer.save(...)   # inside: a signal must not interrupt saving
        sys.exit(stop.exit_code)     # 0, 130 after Ctrl-C, 143 after SIGTERM

    A second Ctrl-C raises KeyboardInterrupt at once. Main thread only, like Python's signals. The
    first signal prints `message` on stderr.
    """

    def __init__(
        self,
        message: str = "Stopping after this update and saving; Ctrl-C again stops at once without "
        "saving.",
    ) -> None:
        self._message = f"\n{message}\n".encode()
        self._signal: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """True after a signal."""
        return self._signal is not None

    @property
    def exit_code(self) -> int:
        """Exit code of the process: 0, or 128 plus the signal's number."""
        return 0 if self._signal is None else 128 + self._signal

    def __enter__(self) -> GracefulStop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = self._signal or number
        # not `print`: a signal may arrive during a write to the same stream
        os.write(2, self._message)
