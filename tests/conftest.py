"""What lasts for a session: compilations, a small PPO learner, and a finished run. Plain helpers
are in `support/`."""

from __future__ import annotations

import collections
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from support.games import TINY, taught_games
from support.small_ppo import Chunk, SmallPPO, build_small_ppo

from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.data.files import save_games
from hanabi_rl.learning.cloning import BCTraining
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.tracking import Progress

CLONE = NetworkConfig(embedding=(16,), lstm=(16,), decoder=(16,), critic=(16,), dropout=0.3)


KEY = re.compile(rb"hk_(?:eval|test)_[A-Za-z0-9_-]{43}")  # whole, and not only its hint


def pytest_configure() -> None:
    """Before JAX starts its backend, here and in the processes that tests start: options that
    compile quickly, unless XLA_FLAGS are given (empty ones: what users run). Nine tenths of what
    the tests do is trace, lower and compile, and these make that a third of what it was."""
    quickly = (
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_backend_optimization_level=0",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_llvm_disable_expensive_passes=true",
    )
    os.environ.setdefault("XLA_FLAGS", " ".join(quickly))


def pytest_collection_finish() -> None:
    """Tracing makes millions of objects: a collector that visits all there are, imported modules
    and compiled programs too, takes an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rooms", action="store_true", help="print tests and seconds by room")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Seconds of setting up, running and tearing down, the sum over workers, by room."""
    if not config.getoption("rooms"):
        return
    tests, seconds = collections.Counter[str](), collections.Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                room = Path(report.nodeid.split("::")[0]).parts[1]
                tests[room] += report.when == "setup"
                seconds[room] += report.duration
    terminalreporter.section("rooms")
    for room, spent in seconds.most_common():
        terminalreporter.line(f"{room:16s} {tests[room]:6d} tests {spent:8.1f} s")
    terminalreporter.line(f"{'all':16s} {tests.total():6d} tests {seconds.total():8.1f} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test fails that printed or logged a candidate's key and did not look at it."""
    report = yield
    said = "".join(text for _, text in report.sections)
    if report.when == "teardown" and report.passed and KEY.search(said.encode()):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: a candidate's key in what it printed or logged"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After everything: no file that any test left holds a candidate's key."""
    if hasattr(session.config, "workerinput"):
        return  # the other workers are not done
    base = session.config._tmp_path_factory._basetemp  # None where no test asked for a folder
    held = [path for path in sorted(base.rglob("*")) if holds_key(path)] if base else []
    if held:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\na candidate's key in a file of a test:", *held, sep="\n", file=sys.stderr)


def holds_key(path: Path) -> bool:
    """Whether a file holds a whole key; `compiled` holds programs alone."""
    return path.is_file() and "compiled" not in path.parts and bool(KEY.search(path.read_bytes()))


@pytest.fixture(scope="session", autouse=True)
def shared_compilations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one test compiled, the others load: whole runs compile the same functions again and
    again, and so do the workers of pytest-xdist and the processes that tests start.
    JAX_COMPILATION_CACHE_DIR names a folder to keep between sessions."""
    base = tmp_path_factory.getbasetemp()
    beside_workers = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(beside_workers / "compiled")
    options = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,  # small ones are thousands
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
    """Compiled once for all tests of a worker."""
    return build_small_ppo()


@pytest.fixture(scope="session")
def second_rollout(small: SmallPPO) -> Chunk:
    """The rollout after one update: it begins in the middle of games."""
    learner, actors, _ = small.update(small.learner, small.actors)
    _, experience, key, _ = small.collect(learner, actors, small.clone)
    return Chunk(learner, experience, actors.index, key)


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> BCTraining:
    """Three epochs over 40 games of the small game, in 5 minibatches of 8."""
    folder = tmp_path_factory.mktemp("games")
    for name, number, seed in (("train", 40, 0), ("val", 16, 1)):
        save_games(folder / f"{name}.safetensors", taught_games(TINY, number, seed))
    return BCTraining(
        data=(str(folder / "train.safetensors"),),
        val=(str(folder / "val.safetensors"),),
        network=CLONE,
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
