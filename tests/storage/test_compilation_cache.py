"""Compiled programs are cached for later processes, in every program, unless disabled."""

import gc
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from hanabi_rl.algorithms import registry
from hanabi_rl.launch import process_setup
from hanabi_rl.storage import compilation_cache
from hanabi_rl.storage.compilation_cache import (
    cache_folder,
    cpu_fingerprint,
    enable_compilation_cache,
)

PROGRAM = """
import logging, sys
{before}
from hanabi_rl.storage.compilation_cache import enable_compilation_cache
enable_compilation_cache()
import jax
said = []
class Listener(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logger = logging.getLogger("jax._src.compiler")
logger.addHandler(Listener())
logger.setLevel(logging.DEBUG)
print(float(jax.jit(lambda x: jax.numpy.sin(x) * {number})(3.0)))
print(sum("cache hit" in line for line in said), jax.config.jax_compilation_cache_max_size)
"""


def settings(folder: Path) -> dict[str, str]:
    """Environment of a user without settings, except that short programs are cached too."""
    names = (
        "JAX_COMPILATION_CACHE_DIR",
        "JAX_COMPILATION_CACHE_MAX_SIZE",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES",  # set by the tests
    )
    own = {name: value for name, value in os.environ.items() if name not in names}
    return own | {
        "HANABI_RL_CACHE": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return settings(tmp_path)


def start(environment: dict[str, str], number: int, before: str = "") -> subprocess.Popen[str]:
    code = PROGRAM.format(number=number, before=before)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> list[str]:
    """The program's result, its cache hits and the size limit of the cache."""
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.split()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """A cache, and the outputs of the two parallel processes that filled it, with JAX imported
    before or not."""
    folder = tmp_path_factory.mktemp("cache")
    both = [start(settings(folder), 7, before) for before in ("", "import jax")]
    return folder, [output(process) for process in both]


def test_parallel_and_later_processes_share_cache(filled):
    """The later process reads more programs than one of the two before, which compiled some."""
    folder, ((one, hits, bound), (other, other_hits, _)) = filled
    assert one == other and bound == str(2**30)
    assert list((folder / "compiled" / cpu_fingerprint()).glob("*-cache"))
    again, later_hits, _ = output(start(settings(folder), 7))
    assert again == one and int(later_hits) > min(int(hits), int(other_hits))


@pytest.mark.parametrize("before", ["", "import jax"])
def test_copied_cache_is_valid(filled, tmp_path, before):
    """As in an image or on a cluster. By default JAX 0.10 has the folder's path in its keys."""
    folder, ((first, hits, _), (_, other_hits, _)) = filled
    copy = shutil.copytree(folder, tmp_path / "copied")
    again, later_hits, _ = output(start(settings(copy), 7, before))
    assert again == first and int(later_hits) > min(int(hits), int(other_hits))


@pytest.mark.slow  # processes
def test_copied_jax_cache_dir_is_valid(environment, tmp_path):
    folder = tmp_path / "own"
    output(start(environment | {"JAX_COMPILATION_CACHE_DIR": str(folder)}, 7))
    copy = shutil.copytree(folder, tmp_path / "copied")
    _, hits, _ = output(start(environment | {"JAX_COMPILATION_CACHE_DIR": str(copy)}, 7))
    assert int(hits) > 0


@pytest.mark.slow  # processes
def test_jax_cache_variables_apply(environment, tmp_path):
    other = tmp_path / "other"
    bound = {"JAX_COMPILATION_CACHE_MAX_SIZE": "5000000"}
    output(start(environment | bound | {"JAX_COMPILATION_CACHE_DIR": str(other)}, 7))
    assert list(other.iterdir()) and not (tmp_path / "compiled").exists()
    output(start(environment | {"JAX_ENABLE_COMPILATION_CACHE": "0"}, 7))
    assert not (tmp_path / "compiled").exists()


def test_cache_of_other_cpu_is_not_used(environment, tmp_path, monkeypatch):
    """A job inherits the variables of the machine that submitted it."""
    for name in (
        "JAX_COMPILATION_CACHE_DIR",
        "JAX_COMPILATION_CACHE_MAX_SIZE",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES",
    ):
        monkeypatch.setenv(name, "")  # restores the values set below for later tests
        monkeypatch.delenv(name)
    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path))
    monkeypatch.setattr(compilation_cache, "sys", type("NoJAX", (), {"modules": {}}))
    cpu = tmp_path / "cpuinfo"
    monkeypatch.setattr(compilation_cache, "CPU_INFO", cpu)
    folders = []
    for text in ("flags : avx512f\ncpu MHz : 1", "flags : avx512f\ncpu MHz : 2", "flags : avx2"):
        cpu.write_text(text)
        enable_compilation_cache()
        folders.append(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert folders[0] == folders[1] != folders[2]
    assert {Path(folder).parent for folder in folders} == {tmp_path / "compiled"}


def test_cache_folder_location(tmp_path, monkeypatch):
    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HANABI_RL_CACHE", "~/cache")
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("HANABI_RL_CACHE")
    assert cache_folder().name == "hanabi-rl"


def test_unknown_home_in_cache_path_is_literal(tmp_path, monkeypatch):
    """As in a shell."""
    for name in ("HANABI_RL_CACHE", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.setenv(name, "~no-such-user/cache")
    before = jax.config.jax_compilation_cache_dir
    try:
        enable_compilation_cache()
        assert jax.config.jax_compilation_cache_dir == "~no-such-user/cache"
        assert cache_folder() == Path("~no-such-user/cache")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_jax_cache_dir_expands_home(tmp_path, monkeypatch):
    """JAX would create a folder called `~`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "~/compiled")
    before = jax.config.jax_compilation_cache_dir
    try:
        enable_compilation_cache()
        assert jax.config.jax_compilation_cache_dir == f"{tmp_path}/compiled"
        assert os.environ["JAX_COMPILATION_CACHE_DIR"] == f"{tmp_path}/compiled"
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("cli.app", ([],)), ("launch.script", ("ippo",)), ("launch.sweep", ())],
)
def test_every_command_enables_compilation_cache(module, arguments, monkeypatch):
    """Before it reads its first argument."""

    class KeptError(Exception):
        pass

    def keep():
        raise KeptError

    program = importlib.import_module(f"hanabi_rl.{module}")
    monkeypatch.setattr(process_setup, "enable_compilation_cache", keep)
    with pytest.raises(KeptError):
        program.main(*arguments)


def test_command_raises_gc_threshold(monkeypatch):
    monkeypatch.setattr(process_setup, "enable_compilation_cache", lambda: None)
    before = gc.get_threshold()
    try:
        process_setup.configure_process()
        assert gc.get_threshold() == (process_setup._OBJECTS, *before[1:])
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(not compilation_cache.MAPS.exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("limit", [0, 10**6])
def test_programs_are_freed_only_where_mappings_run_out(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[bool] = []
    monkeypatch.setattr(compilation_cache, "MAX_MAPS", limit)
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    compilation_cache.free_compiled_programs()
    assert cleared == [True] * (limit == 0)


def test_runs_free_programs_of_earlier_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of twelve runs in one process ended in a segmentation fault."""
    order: list[str] = []
    algorithm = SimpleNamespace(run=lambda config: order.append(config) or {})
    monkeypatch.setattr(registry, "ALGORITHMS", {"any": algorithm})
    monkeypatch.setattr(registry, "free_compiled_programs", lambda: order.append("free"))
    for config in ("first", "second"):
        assert registry.run("any", config) == {}  # type: ignore[arg-type]
    assert order == ["free", "first", "free", "second"]
