"""Malformed files: mutations of real files, and files crafted to exhaust memory or execute code."""

import json
import os
import pickle
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.compiled import init_network
from support.games import random_games

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig

RULES = Rules()
SLACK = 8 << 20
WORDS = (
    *(
        b"0",
        b"1",
        b"-1",
        b"-5",
        b"0.5",
        b"89",
        b"4294967296",
        b"1e999",
        b"9" * 400,
        b"null",
        b"true",
        b"NaN",
    ),
    *(
        b'""',
        b'"\\ud800"',
        b'"I64"',
        b'"BF16"',
        b'"F32"',
        b'"U8"',
        b"[]",
        b"{}",
        b",",
        b":",
        b'"',
        b"\xff",
        b"\x00",
    ),
    *(b"[" * 500, b'{"a":' * 500),
)


def flip(draw: Any, content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]


def put_word(draw: Any, content: bytes, at: int) -> bytes:
    return content[:at] + draw(st.sampled_from(WORDS)) + content[at + draw(st.integers(0, 3)) :]


def put_number(draw: Any, content: bytes, at: int) -> bytes:
    """Replace the next number by another one."""
    found = re.compile(rb"\d+").search(content, at)
    start, stop = found.span() if found else (at, at)
    return content[:start] + str(draw(st.integers(-3, 2**64))).encode() + content[stop:]


def cut(draw: Any, content: bytes, at: int) -> bytes:
    return content[:at]


def drop(draw: Any, content: bytes, at: int) -> bytes:
    return content[:at] + content[at + draw(st.integers(1, 64)) :]


def repeat(draw: Any, content: bytes, at: int) -> bytes:
    return content[:at] + content[max(0, at - draw(st.integers(1, 64))) :]


def put_length(draw: Any, content: bytes, at: int) -> bytes:
    """A safetensors file with a wrong header length."""
    return (
        struct.pack("<Q", draw(st.sampled_from((0, 1, 2**20, 2**40, 2**63, 2**64 - 1))))
        + content[8:]
    )


def mutate(draw: Any, content: bytes, header: int) -> bytes:
    """Mutate `content` one to four times, half of the time within the first `header` bytes."""
    for _ in range(draw(st.integers(1, 4))):
        end = min(header, len(content)) if draw(st.booleans()) else len(content)
        if end > 0:
            change = draw(
                st.sampled_from((flip, put_word, put_number, cut, drop, repeat, put_length))
            )
            content = change(draw, content, draw(st.integers(0, end - 1)))
    return content


def peak_of(read: Callable[[], object]) -> tuple[int, Exception | None]:
    """Peak memory of Python and NumPy in bytes, and the exception."""
    tracemalloc.start()
    try:
        read()
        error = None
    except Exception as caught:
        error = caught
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, error


@pytest.fixture(scope="module")
def games() -> Games:
    return random_games(RULES, 4)


@pytest.mark.parametrize("suffix", [".safetensors", ".json", ".jsonl"])
def test_mutated_game_files_are_read_or_refused(
    suffix: str, games: Games, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    path, files = tmp_path / f"games{suffix}", tally("malformed files")
    save_games(path, games)
    original = path.read_bytes()
    header = 8 + struct.unpack("<Q", original[:8])[0] if suffix == ".safetensors" else 200
    load_games(path)  # compile beforehand: not part of the measured memory
    times = 2 if suffix == ".safetensors" else 20

    @seed(10)
    @settings(
        max_examples=injections(25, 3500), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def read(data: Any) -> None:
        content = mutate(data.draw, original, header)
        path.write_bytes(content)
        peak, error = peak_of(lambda: load_games(path))
        harm = None
        if error is not None and not isinstance(error, GameDataError):
            harm = f"{type(error).__name__}: {error}"
        elif peak > times * len(content) + SLACK:
            harm = f"{peak} bytes of memory for {len(content)}"
        files.add(repr(content[:40]), harm)

    read()


def test_mutated_policies_are_read_or_refused(
    injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    files, folder = tally("malformed files"), tmp_path / "policy"
    small = Rules(num_colors=2, num_ranks=2, hand_size=2)
    network = NetworkConfig(embedding=(4,), lstm=(), decoder=(4,), critic=(4,))
    params = init_network(
        Actor(network, small.num_actions),
        jax.random.key(0),
        network,
        small.obs_shape,
        small.num_actions,
    )
    policy = NetworkPolicy(params=params, rules=small, network=network)
    save_policy(folder, policy, algorithm="bc", steps=0, score=None)
    path = folder / "policy.safetensors"
    original = path.read_bytes()
    header = 8 + struct.unpack("<Q", original[:8])[0]

    @seed(10)
    @settings(
        max_examples=injections(20, 1000), database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def read(data: Any) -> None:
        content = mutate(data.draw, original, header)
        path.write_bytes(content)
        peak, error = peak_of(lambda: load_policy(folder))
        harm = None
        if error is not None and not isinstance(error, ValueError):
            harm = f"{type(error).__name__}: {error}"
        elif peak > 2 * len(content) + SLACK:
            harm = f"{peak} bytes of memory for {len(content)}"
        files.add(repr(content[:40]), harm)

    read()


def lying_header(shape: list[int], begin: int = 0, end: int = 0) -> bytes:
    """Header of a safetensors file with a tensor `actions` of this shape."""
    header = json.dumps(
        {"actions": {"dtype": "I32", "shape": shape, "data_offsets": [begin, end]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header


def empty_games(turns: int) -> bytes:
    """A file of zero games with very long arrays: no data bytes are missing."""
    shapes: dict[str, list[int]] = {name: [0] for name in ("game_ids", "num_actions", "scores")}
    shapes |= {"actions": [0, turns, 2], "decks": [0, 50, 2], "num_players": []}
    tensors = {
        name: {"dtype": "I32", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    tensors["num_players"]["data_offsets"] = [0, 4]
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<i", 2)


BOMBS = {
    "header-length.safetensors": struct.pack("<Q", 2**62) + b"{}",
    "shape.safetensors": lying_header([2**40, 89, 2]),
    "offsets.safetensors": lying_header([2**30, 89, 2], 0, 2**40),
    "no-games.safetensors": empty_games(2**40),
    "many-lists.json": b"[" + b"[]," * 100_000 + b"[]]",
    "many-objects.jsonl": b"{}\n" * 100_000,
    "deep.json": b"[" * 100_000,
    "many-keys.json": b"{" + b",".join(b'"%05x":1' % i for i in range(100_000)) + b"}",
    "many-lines.jsonl": b"\n" * 100_000,
    "long-number.json": b"[" + b"9" * 100_000 + b"]",
    "wide-text.json": '["\U0001f600'.encode() + b"a" * 100_000 + b'"]',
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_proportional_to_file_size(name: str, tally: Callable, tmp_path: Path) -> None:
    bombs, path = tally("memory bombs"), tmp_path / name
    path.write_bytes(BOMBS[name])
    peak, error = peak_of(lambda: load_games(path))
    allowed = (1 << 20) if name.endswith(".safetensors") else 20 * len(BOMBS[name])
    typed = error is None or isinstance(error, GameDataError)
    bombs.add(name, None if typed and peak <= allowed else f"{peak} of {allowed} bytes, {error!r}")


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize(
    "name",
    ["games.safetensors", "games.json", "games.jsonl", "games.pkl", "games.npz", "policy.json"],
)
def test_pickles_are_refused_without_execution(
    name: str, tally: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickles = tally("pickles")
    if name.endswith(".npz"):
        np.savez(name, actions=np.array([Explosive()], dtype=object))
    else:
        Path(name).write_bytes(pickle.dumps(Explosive()))
    agents = (
        [tmp_path, f"ah2ac2:./{name}", f"obl:./{name}"]
        if name != "games.npz"
        else [f"ah2ac2:./{name}"]
    )
    for read in (
        *(lambda agent=agent: load_policy(agent) for agent in agents),
        lambda: load_games(name),
    ):
        with pytest.raises(ValueError, match="expected|valid"):
            read()
    pickles.add(name, "executed" if Path("exploded").exists() else None)
