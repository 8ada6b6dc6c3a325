"""Number of injected faults, and their results.

One test per guarantee. Each injects a few faults by default, all with HANABI_RL_INJECTIONS=full:
`python tests/reliability/run.py` does so and prints the table of docs/reliability.md.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.games import TINY, teacher_games
from support.training import Run

from hanabi_rl.data.files import save_games


@pytest.fixture(scope="session")
def injections() -> Callable[[int, int], int]:
    """`injections(short, full)`: number of faults to inject in this session."""
    whole = os.environ.get("HANABI_RL_INJECTIONS", "short") == "full"
    return lambda short, full: full if whole else short


class Tally:
    """Counts the faults of one row of the table; the test fails if a fault did harm."""

    def __init__(self, row: str) -> None:
        self.row, self.survived, self.lost = row, 0, list[str]()

    def add(self, fault: str, harm: str | None) -> None:
        """Record one injected fault and the harm that it did, if any."""
        if harm is None:
            self.survived += 1
        else:
            self.lost.append(f"{fault}: {harm}")


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Callable[[str], Tally]]:
    """`tally("kill")` counts the faults of a row; `run.py` collects the rows."""
    rows: list[Tally] = []

    def begin(row: str) -> Tally:
        rows.append(Tally(row))
        return rows[-1]

    yield begin
    for row in rows:
        record_property("row", f"{row.row}|{row.survived}|{len(row.lost)}")
        assert row.survived + len(row.lost) > 0, f"{row.row}: no fault was injected"
        assert not row.lost, (
            f"{row.row}: {len(row.lost)} of {row.survived + len(row.lost)} did harm: {row.lost[:5]}"
        )


@pytest.fixture(scope="session")
def game_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of small games for training and validation."""
    folder = tmp_path_factory.mktemp("games")
    files = folder / "train.safetensors", folder / "val.safetensors"
    for path, number, seed in zip(files, (40, 16), (0, 1), strict=True):
        save_games(path, teacher_games(TINY, number, seed))  # type: ignore[arg-type]
    return files


@pytest.fixture(scope="session")
def clone(game_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An uninterrupted finished BC run."""
    train, val = map(str, game_files)
    run = Run("bc", tmp_path_factory.mktemp("runs") / "clone", "--data", train, "--val", val)
    assert run.finish() == 0, run.output()
    return run


@pytest.fixture(scope="session")
def uninterrupted(clone: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """`uninterrupted("hdr_ippo")`: an uninterrupted finished run of that algorithm."""
    finished = {"bc": clone}

    def find(algo: str) -> Run:
        if algo not in finished:
            folder = tmp_path_factory.mktemp("runs") / algo
            finished[algo] = Run(algo, folder, "--bc-policy", str(clone.folder))
            assert finished[algo].finish() == 0, finished[algo].output()
        return finished[algo]

    return find
