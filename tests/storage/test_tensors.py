"""Files of safetensors that hold something else: one line, wherever they are named."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.one_file import write_file
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.storage.tensors import DTYPES, read_metadata, read_tensors

BITS = {"F4": 4, "F6_E2M3": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "BF16": 16, "X9": 8}


def write_dtype(path: Path, name: str, dtype: str, metadata: dict[str, str] | None = None) -> None:
    """A file with one tensor of eight numbers, all of whose bits are 0."""
    entry = {"dtype": dtype, "shape": [8], "data_offsets": [0, BITS[dtype]]}
    header = json.dumps({name: entry} | ({"__metadata__": metadata} if metadata else {})).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(BITS[dtype]))


@pytest.mark.parametrize("dtype", BITS)
def test_a_dtype_that_numpy_lacks_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str
) -> None:
    path = tmp_path / "file.safetensors"
    write_dtype(path, "params,Dense_0,kernel", dtype)
    for command in (
        ["data", "info", str(path)],
        ["evaluate", str(path)],
        ["evaluate", f"ah2ac2:{path}"],
        ["evaluate", f"obl:{path}"],
        ["predict", "bot:random", str(path)],
        ["metrics", str(path)],
    ):
        with pytest.raises(SystemExit) as stop:
            main(command)
        lines = [line for line in capsys.readouterr().err.splitlines() if "obl: these" not in line]
        assert stop.value.code == 2 and len(lines) == 1 and str(path) in lines[0], lines
        assert dtype in lines[0]


def test_an_exported_agent_with_such_a_tensor(tmp_path: Path) -> None:
    whole, spoilt = tmp_path / "whole.safetensors", tmp_path / "spoilt.safetensors"
    write_file(whole, network_policy(TINY, 0), {"about": "a test"})
    write_dtype(spoilt, "logits/bias", "F8_E4M3", read_metadata(whole))
    with pytest.raises(ValueError, match=r"spoilt.safetensors: .* 'logits/bias' is of dtype F8_"):
        load_policy(spoilt)


def test_what_numpy_has_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    kinds = "? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8"
    tensors = {kind: np.ones(2, kind) for kind in kinds.split()}
    assert len(tensors) == len(DTYPES)
    save_file(tensors, path, {"a": "b"})
    read, metadata = read_tensors(path)
    assert metadata == {"a": "b"} == read_metadata(path) and read.keys() == tensors.keys()
    for kind, tensor in tensors.items():
        assert read[kind].dtype == tensor.dtype and (read[kind] == tensor).all()


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"no tensors at all", b"\xff" * 64])
def test_what_is_no_such_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(content)
    for read in (read_tensors, read_metadata):
        with pytest.raises(ValueError, match="."):
            read(path)
    with pytest.raises(ValueError, match=r"file.safetensors: expected a safetensors file, got one"):
        load_games(path)
    with pytest.raises(ValueError, match="."):
        read_tensors(tmp_path / "none.safetensors")
