"""Files of safetensors, read: one place that knows what can be wrong with one; and small trees of
arrays, kept as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from hanabi_rl.storage.files import write_bytes

DTYPES = frozenset(
    ["BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64", "C64"]
)
"""What NumPy has of the format's dtypes: not BF16, and none of 8 bits or less with a fraction."""


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a file by name, and its metadata.

    Raises:
        ValueError: it cannot be read, or holds a tensor of a dtype that NumPy lacks; without the
            file's name.
    """
    return _read(path, tensors=True)


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a file alone. Raises ValueError as `read_tensors`."""
    return _read(path, tensors=False)[1]


def write_leaves(path: Path, tree: Any) -> None:
    """Keeps the arrays of a pytree, in the place of what was there."""
    import jax

    leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    write_bytes(path, save(leaves))


def read_leaves(path: Path, like: Any) -> Any:
    """What `write_leaves` kept; None where there is no file, or it holds no tree like `like`."""
    import jax

    try:
        found, _ = read_tensors(path)
    except ValueError:
        return None
    leaves, tree = jax.tree.flatten(like)
    kept = [found.get(str(place)) for place in range(len(leaves))]
    for leaf, array in zip(leaves, kept, strict=True):
        if array is None or (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            return None
    return jax.tree.unflatten(tree, kept)


def _read(path: Path, tensors: bool) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    # The library raises errors of its own, the system's, and whatever NumPy raises of a dtype.
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
