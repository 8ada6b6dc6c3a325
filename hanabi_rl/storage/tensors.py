"""safetensors files, and small pytrees saved as such.

Only this module calls the library: safetensors 0.8.0 copies an array's memory regardless of its
strides, and writes metadata keys in arbitrary order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from hanabi_rl.storage.files import atomic_replace, canonical_json

DTYPES = {
    "BOOL": "bool",
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "C64": "complex64",
}
"""The format's dtypes that NumPy has, with NumPy's names: without BF16 and 8-bit floats."""

_METADATA = "__metadata__"
"""Header key of the metadata."""

_LENGTH_BYTES = 8
"""Bytes of the header's length at the start of a file; the header is padded to a multiple."""


def plain(array: Any) -> np.ndarray:
    """`array` as NumPy, same shape, C order, little-endian; not copied if it is so already.

    JAX arrays of any device are copied to the host.
    """
    array = np.asarray(array)
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def write_tensors(
    path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Replace `path` atomically by a file of `tensors`; equal values give equal bytes.

    Args:
        path: output file.
        tensors: NumPy or JAX arrays by name, with any strides and byte order.
        metadata: text by name.

    Raises:
        ValueError: a dtype that the format or NumPy lacks, or the name `__metadata__`.
    """
    arrays = {name: plain(x) for name, x in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES.values():
            known = ", ".join(DTYPES.values())
            raise ValueError(f"{path}: tensor {name!r}: expected {known}, got {array.dtype}")
    if _METADATA in arrays:
        raise ValueError(f"{path}: expected another name than {_METADATA!r} for a tensor")
    written = memoryview(save(arrays, None if metadata is None else dict(metadata)))
    end = _LENGTH_BYTES + int.from_bytes(written[:_LENGTH_BYTES], "little")
    header = canonical_json(json.loads(bytes(written[_LENGTH_BYTES:end])))
    header += b" " * (-len(header) % _LENGTH_BYTES)  # aligns the first tensor
    with atomic_replace(path) as temporary, temporary.open("wb") as file:
        file.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
        file.write(header)
        file.write(written[end:])


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors of a file by name, and its metadata. Raises ValueError, without the file's name, for
    an unreadable file or a dtype that NumPy lacks."""
    return _read(path, tensors=True)


def read_metadata(path: Path) -> dict[str, str]:
    """Metadata of a file. Raises ValueError as `read_tensors`."""
    return _read(path, tensors=False)[1]


def write_pytree(path: Path, tree: Any) -> None:
    """Replace `path` by a file of a pytree's arrays, of any JAX dtype except keys."""
    import jax

    leaves = {str(place): plain(leaf) for place, leaf in enumerate(jax.tree.leaves(tree))}
    dtypes = {place: str(leaf.dtype) for place, leaf in leaves.items()}
    write_tensors(path, {place: _bits(leaf) for place, leaf in leaves.items()}, dtypes)


def read_pytree(path: Path, like: Any) -> Any:
    """Read `write_pytree`'s tree; None if the file is missing or not a tree like `like`."""
    import jax

    try:
        found, dtypes = read_tensors(path)
    except ValueError:
        return None
    leaves, tree = jax.tree.flatten(like)
    restored = []
    for place, leaf in enumerate(leaves):
        array = found.get(str(place))
        stored = _bits(np.empty(leaf.shape, leaf.dtype))
        if array is None or (array.shape, array.dtype) != (stored.shape, stored.dtype):
            return None
        if dtypes.get(str(place), str(leaf.dtype)) != str(leaf.dtype):  # older files lack dtypes
            return None
        restored.append(array.view(leaf.dtype))
    return jax.tree.unflatten(tree, restored)


def _bits(array: np.ndarray) -> np.ndarray:
    """The array, or its bits as unsigned integers if NumPy lacks the dtype (bfloat16)."""
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _read(path: Path, tensors: bool) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    # the library raises its own errors, the system's and NumPy's
    try:
        with safe_open(path, framework="numpy") as file:
            found = {}
            for name in file.keys() if tensors else ():
                if (dtype := file.get_slice(name).get_dtype()) not in DTYPES:
                    raise ValueError(f"tensor {name!r} is of dtype {dtype}, which NumPy lacks")
                found[name] = file.get_tensor(name)
            return found, file.metadata() or {}
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error
