"""Pytest hooks of the test session; fixtures are in `support/fixtures.py`."""

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

KEY = re.compile(rb"hk_(?:eval|test)_[A-Za-z0-9_-]{43}")  # a whole key, not its hint


def pytest_configure(config: pytest.Config) -> None:
    """Set fast-compiling XLA options before JAX starts, unless XLA_FLAGS is set (empty: defaults).

    90% of the test time is tracing, lowering and compiling. Level 0 cuts compilation to a third.
    Tests marked slow run longer and use level 1, which runs faster and halves compilation.
    """
    slow = config.option.markexpr == "slow"
    quickly = (
        "--xla_cpu_use_fusion_emitters=false",
        f"--xla_backend_optimization_level={int(slow)}",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_llvm_disable_expensive_passes=true",
    )
    os.environ.setdefault("XLA_FLAGS", " ".join(quickly))
    # any setting stops commands from keeping freed memory: hundreds of programs share this process
    os.environ.setdefault("MALLOC_PERTURB_", "0")
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        drop_old_programs(config.cache.mkdir("compiled"))
    if hasattr(config, "workerinput") or config.option.dist == "no":
        # not in the process that starts workers: importing JAX takes 5 seconds
        gc.disable()  # imported objects stay: until `pytest_collection_finish`
        config.pluginmanager.import_plugin("support.fixtures")


def drop_old_programs(folder: Path) -> None:
    """Delete the compilation cache above 1 GB (10 sessions): most of it belongs to changed code."""
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > 2**30:
        shutil.rmtree(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Assign folders or files to workers (`support/by_package.py`)."""
    from support.by_package import PackageScheduling

    return PackageScheduling(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests outside folders first: tutorials take longest, and at the end workers would idle."""
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)


def pytest_collection_finish() -> None:
    """Freeze imported objects: a garbage collector that visits them takes an eighth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--by-package", action="store_true", help="print tests and seconds by package")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the time of setup, run and teardown in seconds, summed over workers, by folder."""
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
    """Fail tests that print or log a candidate's key without checking it."""
    report = yield
    printed = "".join(text for _, text in report.sections)
    if report.when == "teardown" and report.passed and KEY.search(printed.encode()):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: a candidate's key in printed or logged text"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Check that no file left by a test contains a candidate's key."""
    if hasattr(session.config, "workerinput"):
        return  # other workers are still running
    base = session.config._tmp_path_factory._basetemp  # None if no test used a folder
    leaked = [path for path in sorted(base.rglob("*")) if holds_key(path)] if base else []
    if leaked:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\na candidate's key in a file of a test:", *leaked, sep="\n", file=sys.stderr)


def holds_key(path: Path) -> bool:
    return path.is_file() and bool(KEY.search(path.read_bytes()))
