"""Executables are read in place of tracing, and only where they are those of this program."""

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.games import FinalStates
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage import compilation_cache, program_cache
from hanabi_rl.storage.program_cache import CachedJit, cached_shapes
from hanabi_rl.storage.user_modules import user_module

X = np.arange(3, dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a command's executables."""
    monkeypatch.setattr(program_cache, "_folder", lambda: tmp_path)
    monkeypatch.setattr(program_cache, "_is_settled", lambda: True)
    return tmp_path


def run(factor: int, *args: Any, **static: Any) -> tuple[list[float], bool]:
    """Result in a new process of the same code, and True if it traced the function."""
    traced = []

    def scaled(x: Any, *more: Any, rules: Any = None) -> Any:
        traced.append(True)
        return jnp.sum(x) * factor + (0 if rules is None else rules.num_players)

    value = CachedJit(scaled, static_argnames="rules")(*args, **static)
    return float(value), bool(traced)


def test_later_process_does_not_trace():
    assert run(2, X) == (6.0, True)
    assert run(2, X) == (6.0, False)
    assert run(2, 2 * X) == (12.0, False)
    assert run(2, X, rules=Rules(num_players=2)) == (8.0, True)
    assert run(2, X, rules=Rules(num_players=2)) == (8.0, False)
    assert run(2, X, rules=Rules(num_players=3)) == (9.0, True)


@pytest.mark.parametrize(
    "args",
    [
        (X.astype(np.int32),),
        (X[:2],),
        (jnp.float32(1),),
        (1.0,),  # weakly typed
        (X, X),
        (X, FinalStates(X, X)),
        (X, (X, X)),
    ],
)
def test_arguments_of_other_types_are_traced(args):
    run(1, X)
    others = [run(1, *args), run(1, *args)]
    assert [traced for _, traced in others] == [True, False]


def test_edited_source_traces_again_and_shares_the_executable(folder, monkeypatch):
    """Only if its program is the same."""
    run(2, X)
    files = set(folder.iterdir())
    monkeypatch.setattr(program_cache, "package_hash", lambda: "edited")
    assert run(2, X) == (6.0, True) and len(set(folder.iterdir()) - files) == 1
    monkeypatch.setattr(program_cache, "package_hash", lambda: "edited again")
    assert run(3, X) == (9.0, True) and len(set(folder.iterdir()) - files) == 3


def test_other_settings_compile_again(folder, monkeypatch):
    run(2, X)
    monkeypatch.setattr(program_cache, "_settings", lambda: "XLA_FLAGS")
    assert run(2, X) == (6.0, True) and len(list(folder.iterdir())) == 4


def test_settings_include_jax_settings(monkeypatch):
    before = program_cache._settings.__wrapped__()
    with jax.default_matmul_precision("bfloat16"):
        assert program_cache._settings.__wrapped__() != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert program_cache._settings.__wrapped__() != before


def test_classes_outside_package_are_not_cached(folder):
    """The hash of the source does not cover their code."""

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=[])
    class Own:
        def __init__(self, x: Any) -> None:
            self.x = x

    assert run(2, X, Own(X)) == run(2, X, Own(X)) == (6.0, True)
    assert not list(folder.iterdir())


def test_damaged_files_are_replaced(folder):
    run(2, X)
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert run(2, X) == (6.0, True)
    assert run(2, X) == (6.0, False)


def test_files_not_read_for_longest_are_deleted(folder, monkeypatch):
    run(2, X)
    first = set(folder.iterdir())
    monkeypatch.setattr(program_cache, "MAX_BYTES", sum(f.stat().st_size for f in first) + 100)
    run(2, X[:2])
    assert not first & set(folder.iterdir()) and run(2, X[:2]) == (2.0, False)


def test_unwritable_folder_compiles(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(program_cache, "_folder", lambda: tmp_path / "file")
    assert run(2, X) == (6.0, True)


def test_freed_programs_are_read_again():
    double = CachedJit(lambda x: 2 * x)
    double(X)
    program_cache.free_programs()
    assert not double._loaded and (double(X) == 2 * X).all()


def test_edits_that_this_process_may_not_have_read(folder, monkeypatch, tmp_path_factory):
    """A file saved after the start, or within a minute before it, in a later process's source."""
    monkeypatch.undo()
    monkeypatch.setattr(program_cache, "_folder", lambda: folder)
    file = tmp_path_factory.mktemp("package") / "module.py"
    file.write_text("x = 1")
    monkeypatch.setattr(program_cache, "_source_files", lambda: [file])
    monkeypatch.setattr(program_cache, "package_hash", lambda: "text")
    for age_s, caches in ((-5.0, False), (30.0, False), (90.0, True)):
        edited = program_cache._STARTED - age_s
        os.utime(file, (edited, edited))
        run(2, X)
        assert bool(list(folder.iterdir())) == caches
        shapes = cached_shapes(_shapes, Rules(num_players=2), 7)
        assert shapes["x"].shape == (2, 7)


def test_modules_of_the_user_end_caching(monkeypatch, tmp_path):
    """They may replace functions of the package."""
    monkeypatch.undo()
    monkeypatch.setattr(compilation_cache, "keeps_programs", True)
    monkeypatch.setattr(program_cache, "_cpu_folder", lambda: tmp_path)
    assert program_cache._folder() == tmp_path
    (tmp_path / "own.py").write_text("")
    user_module(str(tmp_path / "own.py"))
    assert program_cache._folder() is None


def test_unreadable_pickles_are_replaced(folder):
    """As another version of a library leaves them."""
    run(2, X)
    for file in folder.iterdir():
        broken = b"\x80\x05cno_such_module\nname\n."
        file.write_bytes(hashlib.sha256(broken).digest() + broken)
    assert run(2, X) == (6.0, True)


def test_executables_that_jax_read_from_its_cache_are_not_kept(folder, tmp_path, monkeypatch):
    """Serialised again, they lose their functions."""
    x, names = jnp.arange(7.0), ("jax_compilation_cache_dir", "jax_enable_compilation_cache")
    before = {name: getattr(jax.config, name) for name in names}
    keeps = "jax_persistent_cache_min_compile_time_secs"
    before[keeps] = getattr(jax.config, keeps)

    def make() -> Any:
        """A function of its own; JAX's cache on disk has one program for all of them."""

        def padded(x: Any) -> Any:
            return jnp.pad(jnp.sort(x)[::-1] * jnp.cumsum(x), (3, 5)) % 7

        return padded

    try:
        for name, value in zip((*names, keeps), (str(tmp_path / "jax"), True, 0.0), strict=True):
            jax.config.update(name, value)
        jax_cache.reset_cache()
        jax.jit(make())(x).block_until_ready()
        program = CachedJit(make())
        program.jitted(x).block_until_ready()  # read from JAX's cache
        program(x)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        jax_cache.reset_cache()
    program_cache.free_programs()
    np.testing.assert_array_equal(program(x), make()(x))


def test_games_by_executables_on_disk(folder):
    """Equal games, and no program is compiled again."""
    rules = Rules(num_players=2, num_colors=2, num_ranks=2, hand_size=2)
    decks = evaluation_decks(rules, 4, seed=0)

    def actions() -> Any:
        bot = load_policy("bot:iggi", rules)
        games = play_games((bot, load_policy("bot:legal-random", rules)), rules, decks)
        return [games.moves(game).tolist() for game in range(4)]

    first = actions()
    files = set(folder.iterdir())
    program_cache.free_programs()
    assert len(files) >= 6 and actions() == first and set(folder.iterdir()) == files


def _shapes(rules: Rules, size: int) -> Any:
    TRACED.append(size)
    return {"x": jnp.zeros((rules.num_players, size), jnp.int32)}


TRACED: list[int] = []


def test_shapes_are_traced_once():
    expected = {"x": jax.ShapeDtypeStruct((2, 5), jnp.int32)}
    TRACED.clear()
    assert cached_shapes(_shapes, Rules(num_players=2), 5) == expected
    assert cached_shapes(_shapes, Rules(num_players=2), 5) == expected and TRACED == [5]
    cached_shapes(_shapes, Rules(num_players=3), 5)
    assert TRACED == [5, 5]
