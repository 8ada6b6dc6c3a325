"""How a session of tests goes. Its fixtures are in `support/fixtures.py`, beside plain helpers."""

from __future__ import annotations

import collections
import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

KEY = re.compile(rb"hk_(?:eval|test)_[A-Za-z0-9_-]{43}")  # whole, and not only its hint


def pytest_configure(config: pytest.Config) -> None:
    """Before JAX starts its backend, here and in the processes that tests start: options that
    compile quickly, unless XLA_FLAGS are given (empty ones: what users run). Nine tenths of what
    the tests do is trace, lower and compile. What is marked slow plays and learns for longer: level
    1, which runs faster and halves what compiling costs, where level 0 makes it a third."""
    slow = config.option.markexpr == "slow"
    quickly = (
        "--xla_cpu_use_fusion_emitters=false",
        f"--xla_backend_optimization_level={int(slow)}",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_llvm_disable_expensive_passes=true",
    )
    os.environ.setdefault("XLA_FLAGS", " ".join(quickly))
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        drop_old_programs(config.cache.mkdir("compiled"))
    if hasattr(config, "workerinput") or config.option.dist == "no":
        # Not where workers are told what to run: it takes 5 seconds to import, before they start.
        gc.disable()  # importing makes objects that stay: until `pytest_collection_finish`
        config.pluginmanager.import_plugin("support.fixtures")


def drop_old_programs(folder: Path) -> None:
    """What sessions kept of XLA (`support/fixtures.py`) goes when there is a gigabyte of it, some
    ten times what one session compiles: most of it is of code that has changed since."""
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > 2**30:
        shutil.rmtree(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Folders to workers, or files (`support/by_package.py`)."""
    from support.by_package import PackageScheduling

    return PackageScheduling(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in no folder come first: tutorials take longest, and at the end one worker would wait
    for the other."""
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_collection_finish() -> None:
    """Tracing makes millions of objects: a collector that visits all there are, imported modules
    and compiled programs too, takes an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--by-package", action="store_true", help="print tests and seconds by package")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Seconds of setting up, running and tearing down, the sum over workers, by folder."""
    if not config.getoption("by_package"):
        return
    tests, seconds = collections.Counter[str](), collections.Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.nodeid.split("::")[0]).parts[1]
                tests[folder] += report.when == "setup"
                seconds[folder] += report.duration
    terminalreporter.section("by package")
    for folder, spent in seconds.most_common():
        terminalreporter.line(f"{folder:16s} {tests[folder]:6d} tests {spent:8.1f} s")
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
    return path.is_file() and bool(KEY.search(path.read_bytes()))
