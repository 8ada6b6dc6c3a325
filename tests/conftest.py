"""What every test can use: `shared_data` finds recorded games, `make_games` and `taught_games` make
some, and `run_python` runs code in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from hanabi_rl.data.games import Games, pad_moves
from hanabi_rl.env.actions import Move, encode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def shared_compilations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one test compiled, the others load: whole runs compile the same functions again and
    again, and so do the workers of pytest-xdist. JAX_COMPILATION_CACHE_DIR names a folder to keep
    between sessions."""
    base = tmp_path_factory.getbasetemp()
    beside_workers = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(beside_workers / "compiled")
    options = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests recorded as their `note` stands at the end of the run, also where they passed."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name == "note" and report.when == "call":
                terminalreporter.write_line(f"NOTE {report.nodeid}: {value}")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """`shared_data("2p_hgroup_bot_val.safetensors")` is that file's path; the test skips where the
    file is not at hand."""

    def find(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs recorded games that are not part of the repository: {path}")
        return path

    return find


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """`run_python(code, devices=4)` runs `code` in a fresh interpreter where JAX sees that many CPU
    devices, and returns its stdout.

    JAX fixes the number of devices when it starts, so a test of several devices needs a process of
    its own. Warnings are errors there too. The test fails with the output where the code fails.
    `within` is a command that runs it.
    """

    def run(
        code: str, *, devices: int = 1, timeout_s: float = 600, within: Sequence[str] = ()
    ) -> str:
        environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "PYTHONPATH": str(ROOT),
        }
        warnings = [
            "-W",
            "error",
            "-W",
            "ignore:jax.core.pytype_aval_mappings is deprecated:DeprecationWarning",
        ]
        done = subprocess.run(
            [*within, sys.executable, *warnings, "-c", code],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def make_games() -> Callable[..., Games]:
    """`make_games(rules, num_games, seed)`: see `random_games`."""
    return random_games


def random_games(rules: Rules, num_games: int, seed: int = 0) -> Games:
    """Random legal games; every second one stops after 9 moves, unfinished, unless it is over by
    then."""
    rng = np.random.default_rng(seed)
    tables, moves = [], []
    for game in range(num_games):
        table, played = Table(rules, rng.permutation(full_deck(rules))), []
        while not table.over and (game % 2 == 0 or len(played) < 9):
            legal = [
                action for action in range(rules.num_moves) if table.illegal_reason(action) is None
            ]
            played.append(int(rng.choice(legal)))
            table.apply(played[-1])
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves, first_id=100)


def as_games(
    rules: Rules, tables: list[Table], moves: list[np.ndarray], first_id: int = 0
) -> Games:
    """The games played at `tables`, with ids that count from `first_id`."""
    return Games(
        rules=rules,
        decks=np.array([table.deck for table in tables], np.uint8),
        actions=pad_moves(rules, moves),
        num_actions=np.array([len(played) for played in moves], np.int32),
        scores=np.array([table.score for table in tables], np.int32),
        game_ids=np.arange(first_id, first_id + len(tables), dtype=np.int32),
        unfinished=np.array([not table.over for table in tables]),
    )


@pytest.fixture(scope="session")
def taught_games() -> Callable[..., Games]:
    """`taught_games(rules, num_games, seed)`: two-player games of one simple, deterministic and
    clonable teacher."""
    return play_taught_games


def play_taught_games(rules: Rules, num_games: int, seed: int = 0) -> Games:
    """Games on random decks in which everyone plays the first card they were just told about, else
    tells of a playable card, else discards their oldest card."""
    rng = np.random.default_rng(seed)
    tables, moves = [], []
    for _ in range(num_games):
        table, played, told = Table(rules, rng.permutation(full_deck(rules))), [], []
        while not table.over:
            action, told = taught_action(table, told)
            played.append(action)
            table.apply(action)
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves)


def taught_action(table: Table, told: list[int]) -> tuple[int, list[int]]:
    """The teacher's move after a hint about its slots `told`, and the slots that its own move tells
    about."""
    rules = table.rules
    if told:
        return encode_action(rules, Move("play", slot=told[0])), []
    other = [divmod(table.deck[order], rules.num_ranks) for order in table.hands[1 - table.player]]
    playable = [slot for slot, (color, rank) in enumerate(other) if table.fireworks[color] == rank]
    must_tell = table.info_tokens == rules.max_info_tokens
    if table.info_tokens > 0 and (playable or must_tell):
        move = Move("rank", offset=1, value=other[playable[0] if playable else 0][1])
        return encode_action(rules, move), table.touched(move)
    return encode_action(rules, Move("discard", slot=0)), []
