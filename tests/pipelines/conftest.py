"""Tiny whole runs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.data.files import save_games
from hanabi_rl.env.game import Rules
from hanabi_rl.learning.cloning import BCTraining
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.tracking import Progress

GAME = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2
)
NETWORK = NetworkConfig(embedding=(16,), lstm=(16,), decoder=(16,), critic=(16,), dropout=0.3)


@pytest.fixture(scope="session")
def training(taught_games: Any, tmp_path_factory: pytest.TempPathFactory) -> BCTraining:
    """Three epochs over 40 games of the small game, in 5 minibatches of 8."""
    folder = tmp_path_factory.mktemp("games")
    for name, number, seed in (("train", 40, 0), ("val", 16, 1)):
        save_games(folder / f"{name}.safetensors", taught_games(GAME, number, seed))
    return BCTraining(
        data=(str(folder / "train.safetensors"),),
        val=(str(folder / "val.safetensors"),),
        network=NETWORK,
        batch_size=8,
        epochs=3,
        selfplay_games=1000,  # as many as are reported: one shape
        selfplay_every=2,
    )


@pytest.fixture(scope="session")
def bc_config(training: BCTraining) -> Callable[..., BCConfig]:
    """`bc_config(run_dir=...)`: the run to test with; only the data says which game it is."""

    def make(**changes: Any) -> BCConfig:
        return BCConfig(
            **(vars(training) | {"report_games": 1000, "tensorboard": False, "seed": 3} | changes)
        )

    return make


@pytest.fixture(scope="session")
def bc_run(
    bc_config: Callable[..., BCConfig], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The folder and the summary of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "bc"
    return folder, run_bc(bc_config(run_dir=str(folder), tensorboard=True))


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """`interrupt_at(module, position)`: Ctrl-C as soon as the progress of that pipeline has reached
    the position."""

    def install(module: str, position: int) -> None:
        class Interrupting(Progress):
            def update(self, position_now: int, **shown: float | str) -> None:
                super().update(position_now, **shown)
                if position_now == position:
                    os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(f"{module}.Progress", Interrupting)

    return install


def read_lines(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def read_state(run_dir: Path, step: int) -> dict[str, Any]:
    """Path, dtype, shape and SHA-256 of every leaf of a checkpoint, its loader position and its
    metrics."""
    folder = run_dir / "checkpoints" / str(step)
    manifest = json.loads((folder / "manifest" / "metadata").read_text())
    return {
        "leaves": manifest["leaves"],
        "loader": json.loads((folder / "loader" / "metadata").read_text()),
        "metrics": json.loads((folder / "evaluation" / "metadata").read_text()),
    }


@pytest.fixture(scope="session")
def lines_of() -> Callable[[Path], list[dict[str, Any]]]:
    return read_lines


@pytest.fixture(scope="session")
def state_of() -> Callable[[Path, int], dict[str, Any]]:
    return read_state


@pytest.fixture(scope="session")
def run_files() -> set[str]:
    """What every finished run's folder holds, beside its policies."""
    return {
        ".lock",
        "config.json",
        "metrics.jsonl",
        "tensorboard",
        "checkpoints",
        "summary.json",
        "learning-curve.png",
    }
