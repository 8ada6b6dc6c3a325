"""Session fixtures: compilation cache, a small PPO learner, a finished run."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from filelock import FileLock
from jax.experimental.compilation_cache import compilation_cache
from support.games import TINY, teacher_games
from support.small_ppo import Chunk, SmallPPO, build_small_ppo

from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.data.files import save_games
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.storage.compilation_cache import cpu_fingerprint
from hanabi_rl.storage.progress import Progress

CLONE = NetworkConfig(embedding=(16,), lstm=(16,), decoder=(16,), critic=(16,), dropout=0.3)


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder shared by all workers of the session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def shared_compilations(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Persistent compilation cache for all workers, child processes and later sessions.

    JAX_COMPILATION_CACHE_DIR overrides the folder. `--cache-clear` empties it, and `-p
    no:cacheprovider` makes it temporary.
    """
    if hasattr(request.config, "cache"):
        cache = request.config.cache.mkdir("compiled") / cpu_fingerprint()
    else:
        cache = shared_folder(tmp_path_factory) / "compiled"
    options = {
        "jax_compilation_cache_dir": os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(cache),
        "jax_persistent_cache_min_compile_time_secs": 0.0,  # includes thousands of small programs
        "jax_persistent_cache_enable_xla_caches": "none",  # as `keep_compiled`: equal keys
    }
    before = {name: getattr(jax.config, name) for name in options}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        compilation_cache.reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="session")
def small() -> SmallPPO:
    """Compiled once per worker."""
    return build_small_ppo()


@pytest.fixture(scope="session")
def second_rollout(small: SmallPPO) -> Chunk:
    """The rollout after one update, which begins mid-game."""
    learner, actors, _ = small.update(small.learner, small.actors)
    _, experience, key, _ = small.collect(learner, actors, small.clone)
    return Chunk(learner, experience, actors.index, key)


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> BCTrainConfig:
    """Three epochs over 40 tiny games, 5 minibatches of 8."""
    folder = shared_folder(tmp_path_factory) / "taught"
    with FileLock(f"{folder}.lock"):
        for name, number, seed in (("train", 40, 0), ("val", 16, 1)):
            if not (path := folder / f"{name}.safetensors").exists():
                folder.mkdir(exist_ok=True)
                save_games(path, teacher_games(TINY, number, seed))
    return BCTrainConfig(
        data=(str(folder / "train.safetensors"),),
        val=(str(folder / "val.safetensors"),),
        network=CLONE,
        batch_size=8,
        epochs=3,
        selfplay_games=1000,  # equal to the number reported: one shape
        selfplay_every=2,
    )


@pytest.fixture(scope="session")
def bc_config(training: BCTrainConfig) -> Callable[..., BCConfig]:
    """`bc_config(run_dir=...)`: config of the test run; the data determine its game."""

    def make(**changes: Any) -> BCConfig:
        return BCConfig(
            **(vars(training) | {"report_games": 1000, "tensorboard": False, "seed": 3} | changes)
        )

    return make


@pytest.fixture(scope="session")
def bc_run(
    bc_config: Callable[..., BCConfig], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """Folder and summary of an uninterrupted run, trained by the first worker that needs it."""
    folder = shared_folder(tmp_path_factory) / "bc"
    summary = folder.with_name("bc.json")
    with FileLock(f"{folder}.lock"):
        if not summary.exists():
            summary.write_text(json.dumps(run_bc(bc_config(run_dir=str(folder), tensorboard=True))))
    return folder, json.loads(summary.read_text())


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """`interrupt_at(module, position)`: Ctrl-C once the pipeline's progress reaches `position`."""

    def install(module: str, position: int) -> None:
        class Interrupting(Progress):
            def update(self, position_now: int, **metrics: float | str) -> None:
                super().update(position_now, **metrics)
                if position_now == position:
                    os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(f"{module}.Progress", Interrupting)

    return install
