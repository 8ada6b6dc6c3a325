"""safetensors files: arrays of any layout, equal bytes, one-line errors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load, save_file
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.storage import tensors as tensors_module
from hanabi_rl.storage.tensors import (
    DTYPES,
    read_metadata,
    read_pytree,
    read_tensors,
    write_pytree,
    write_tensors,
)
from hanabi_rl.storage.trees import read_tree, write_tree

BITS = {"F4": 4, "F6_E2M3": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "BF16": 16, "X9": 8}


def write_dtype(path: Path, name: str, dtype: str, metadata: dict[str, str] | None = None) -> None:
    """Write a file with one tensor of eight numbers with all bits 0."""
    entry = {"dtype": dtype, "shape": [8], "data_offsets": [0, BITS[dtype]]}
    header = json.dumps({name: entry} | ({"__metadata__": metadata} if metadata else {})).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(BITS[dtype]))


@pytest.mark.parametrize("dtype", BITS)
def test_unsupported_dtype_is_one_line_error(
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
        lines = [
            line for line in capsys.readouterr().err.splitlines() if "obl: weights" not in line
        ]
        assert stop.value.code == 2 and len(lines) == 1 and str(path) in lines[0], lines
        assert dtype in lines[0]


def test_exported_agent_with_unsupported_dtype_is_rejected(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "spoilt.safetensors"
    write_file(whole, network_policy(TINY, 0), {"about": "a test"})
    write_dtype(broken, "logits/bias", "F8_E4M3", read_metadata(whole))
    with pytest.raises(ValueError, match=r"spoilt.safetensors: .* 'logits/bias' is of dtype F8_"):
        load_policy(broken)


def test_numpy_dtypes_are_read(tmp_path: Path) -> None:
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
def test_invalid_tensor_file_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(content)
    for read in (read_tensors, read_metadata):
        with pytest.raises(ValueError, match="."):
            read(path)
    with pytest.raises(ValueError, match=r"file.safetensors: expected a safetensors file, got: "):
        load_games(path)
    with pytest.raises(ValueError, match="."):
        read_tensors(tmp_path / "none.safetensors")


NUMBERS = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
READ_ONLY = np.frombuffer(NUMBERS.tobytes(), np.float32)
LAYOUTS: dict[str, Any] = {
    "as it is": NUMBERS,
    "transposed": NUMBERS.T,
    "two axes swapped": NUMBERS.swapaxes(0, 1),
    "Fortran": np.asfortranarray(NUMBERS),
    "backwards": NUMBERS[:, ::-1],
    "every second": NUMBERS[..., ::2],
    "a diagonal": np.diagonal(NUMBERS, axis1=1, axis2=2),
    "broadcast": np.broadcast_to(np.float32(7), (5, 6)),
    "a column repeated": np.broadcast_to(NUMBERS[0, 0][:, None], (4, 9)),
    "big-endian": NUMBERS.astype(">f4"),
    "big-endian transposed": NUMBERS.astype(">i8").T,
    "a field of records": np.array([(1, 2.5), (3, 4.5)], [("a", "i1"), ("b", "<f4")])["b"],
    "read-only": READ_ONLY[::-3],
    "bools": (NUMBERS > 5).T,
    "halves": NUMBERS.astype(np.float16).T,
    "complex": (NUMBERS + 1j * NUMBERS).astype(np.complex64).T,
    "no axes": NUMBERS[1, 2, 3].reshape(()),
    "a number": np.float32(0.1),
    "no elements": np.zeros((0, 3), np.int8).T,
    "of JAX": jnp.asarray(NUMBERS).T,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_array_layout_round_trips(tmp_path: Path, layout: str) -> None:
    """safetensors 0.8.0 copies the memory, whatever the strides."""
    array, path = LAYOUTS[layout], tmp_path / "a.safetensors"
    expected = np.array(np.asarray(array).tolist(), np.asarray(array).dtype.newbyteorder("="))
    write_tensors(path, {"x": array, "y": np.int32(1)})
    tensors = read_tensors(path)[0]
    write_tree(path, {"in": {"x": array}})
    tree = read_tree(path)
    write_pytree(path, (array, np.ones(2)))
    leaves = read_pytree(path, (expected, np.ones(2)))
    for found in (tensors["x"], tree["in"]["x"], leaves[0]):
        assert (found.dtype, found.shape) == (expected.dtype, array.shape)
        np.testing.assert_array_equal(found, expected.reshape(array.shape))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_bfloat16_leaves_round_trip(tmp_path: Path, dtype: str) -> None:
    """An agent's memory may have such leaves."""
    path, leaf = tmp_path / "a.safetensors", np.asarray(NUMBERS.T % 5, jnp.dtype(dtype))
    write_pytree(path, (leaf, jnp.asarray(leaf)))
    back = read_pytree(path, (leaf, leaf))
    for found in back:
        assert found.dtype == leaf.dtype
        np.testing.assert_array_equal(found.astype(np.float32), NUMBERS.T % 5)
    bits = leaf.view(f"u{leaf.itemsize}")
    assert read_pytree(path, (bits, bits)) is None  # other numbers


def test_older_pytree_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"0": NUMBERS, "1": np.ones(2)}, path)
    back = read_pytree(path, (jnp.asarray(NUMBERS), np.ones(2)))
    np.testing.assert_array_equal(back[0], NUMBERS)
    assert read_pytree(path, (NUMBERS.astype(np.int32), np.ones(2))) is None


@pytest.mark.parametrize("array", [np.array(["a"]), np.ones(2, complex), jnp.ones(2, jnp.bfloat16)])
def test_unsupported_dtype_is_not_written(tmp_path: Path, array: Any) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ValueError, match=f"tensor 'b': expected bool, .*, got {array.dtype}$"):
        write_tensors(path, {"a": np.ones(2), "b": array})
    assert not path.exists()


def test_conflicting_tensor_names_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(ValueError, match="expected another name than '__metadata__' for a tensor"):
        write_tensors(path, {"__metadata__": NUMBERS}, {"a": "b"})
    with pytest.raises(ValueError, match=r"leaf a/b: expected a unique path, got two"):
        write_tree(path, {"a/b": NUMBERS, "a": {"b": NUMBERS}})
    assert not path.exists()


def test_equal_tensors_give_equal_bytes(tmp_path: Path) -> None:
    """In any order of the tensors; safetensors 0.8.0 shuffles the metadata."""
    path, files = tmp_path / "a.safetensors", set()
    tensors: dict[str, np.ndarray] = {
        "b": NUMBERS,
        "a": np.arange(3, dtype=np.int8),
        "c": np.ones((2, 2), np.float16),
    }
    metadata = {f"key {n}": f'"{n}" \\ \u00fc\U0001f600\n' for n in range(12)}
    for _ in range(4):
        for ordered in (tensors, dict(reversed(tensors.items()))):
            write_tensors(path, ordered, dict(reversed(metadata.items())))
            files.add(path.read_bytes())
    (file,) = files
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    assert length % 8 == 0 and [*header] == sorted(header)
    assert [*header["__metadata__"]] == sorted(metadata)
    for name, tensor in tensors.items():  # each starts at a multiple of its own size
        assert (8 + length + header[name]["data_offsets"][0]) % tensor.itemsize == 0
    assert read_metadata(path) == metadata
    for name, tensor in load(file).items():  # the library's own reader
        np.testing.assert_array_equal(tensor, tensors[name])
    save_file(tensors, path, metadata)
    found, same = read_tensors(path)
    assert same == metadata
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor, tensors[name])


def test_one_module_calls_safetensors() -> None:
    package = Path(tensors_module.__file__).parents[1]
    users = [path for path in package.rglob("*.py") if "from safetensors" in path.read_text()]
    assert users == [Path(tensors_module.__file__)]
