"""Verified pytrees on disk: arrays stored by Orbax, checked against a manifest.

Orbax neither detects a flipped bit nor rejects another dtype, and some of its paths accept another
shape. So each tree is saved with a manifest, `leaf path -> dtype, shape, SHA-256`, which verifies
every leaf on reading. On disk a tree is nested dictionaries of NumPy arrays: PRNG keys as their
data, without empty arrays (Orbax rejects them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.storage.tensors import read_tensors, write_tensors

if TYPE_CHECKING:  # agents are read without Orbax
    import orbax.checkpoint as ocp

PyTree = Any
Manifest = dict[str, dict[str, Any]]
"""leaf path -> {"dtype": str, "shape": list[int], "sha256": str}"""

_KEY_IMPLS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


class IncompatibleError(ValueError):
    """Stored data of another model or format."""


class CorruptError(ValueError):
    """Stored data that differ from what was saved."""


def single_process_orbax() -> ocp.options.MultiprocessingOptions:
    """Orbax options for one process: of several hosts, only the first saves and restores."""
    import orbax.checkpoint as ocp

    me = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me})


def leaf_paths(tree: PyTree) -> dict[str, Any]:
    """Leaves of `tree` by path, such as `actor/lstm_0/input/kernel`, in the tree's order.

    Raises ValueError, naming the leaf, for a leaf that is not an array (or `jax.ShapeDtypeStruct`)
    or a duplicate path.
    """
    leaves: dict[str, Any] = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        path = jax.tree_util.keystr(keys, simple=True, separator="/")
        if not (hasattr(leaf, "dtype") and hasattr(leaf, "shape")):
            raise ValueError(f"leaf {path}: expected an array, got {type(leaf).__name__}")
        if path in leaves:
            raise ValueError(f"leaf {path}: expected a unique path, got two (a key with a '/')")
        leaves[path] = leaf
    return leaves


def to_host(tree: PyTree) -> tuple[dict[str, np.ndarray], Manifest]:
    """Leaves of `tree` as NumPy arrays by path (PRNG keys as their data), and their manifest."""
    leaves = leaf_paths(tree)
    data = {
        path: jax.random.key_data(leaf) if str(leaf.dtype) in _KEY_IMPLS else leaf
        for path, leaf in leaves.items()
    }
    arrays = {path: np.asarray(array) for path, array in jax.device_get(data).items()}
    manifest = {
        path: {
            "dtype": str(leaves[path].dtype),
            "shape": list(leaves[path].shape),
            "sha256": _digest(array),
        }
        for path, array in arrays.items()
    }
    return arrays, manifest


def unflatten(leaves: Mapping[str, Any], separator: str = "/") -> dict[str, Any]:
    """`{"a/b": x}` as `{"a": {"b": x}}`, the form in which Orbax stores a tree."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *parents, name = path.split(separator)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = leaf
    return tree


def without_empty_leaves(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Nested arrays of `to_host` without empty ones, for Orbax."""
    return unflatten({path: array for path, array in arrays.items() if array.size})


def check_structure(manifest: Manifest, template: PyTree, *, where: str) -> None:
    """Raise IncompatibleError, naming `where` and the first differing leaf, if leaves, dtypes or
    shapes of `manifest` differ from `template` (arrays or `jax.ShapeDtypeStruct`s)."""
    expected = leaf_paths(template)
    for path, leaf in expected.items():
        if path not in manifest:
            raise IncompatibleError(
                f"{where}: leaf {path} ({_type_of(leaf.dtype, leaf.shape)}) is missing"
            )
        stored = manifest[path]
        if stored["dtype"] != str(leaf.dtype) or tuple(stored["shape"]) != tuple(leaf.shape):
            raise IncompatibleError(
                f"{where}: leaf {path}: expected {_type_of(leaf.dtype, leaf.shape)}, "
                f"stored {_type_of(stored['dtype'], stored['shape'])}"
            )
    for path, stored in manifest.items():
        if path not in expected:
            raise IncompatibleError(
                f"{where}: leaf {path} ({_type_of(stored['dtype'], stored['shape'])}) is stored "
                "but not part of the model"
            )


def check_leaves(leaves: Mapping[str, Any], template: PyTree, *, where: str) -> None:
    """`check_structure` of arrays by path."""
    kinds = {path: {"dtype": str(x.dtype), "shape": x.shape} for path, x in leaves.items()}
    check_structure(kinds, template, where=where)


def read_leaves(folder: Path, manifest: Manifest, paths: Iterable[str]) -> dict[str, Any]:
    """Read the leaves `paths` of a tree that Orbax stored in `folder`, verified by `manifest`.

    Returns:
        Arrays by path: NumPy, PRNG keys wrapped.

    Raises:
        CorruptError: Orbax cannot read a leaf, or its bytes, dtype or shape differ; names the leaf.
    """
    import orbax.checkpoint as ocp

    leaves: dict[str, Any] = {}
    alone = single_process_orbax()
    reader = ocp.PyTreeCheckpointHandler(multiprocessing_options=alone)
    with ocp.Checkpointer(reader, multiprocessing_options=alone) as checkpointer:
        for path in paths:
            entry = manifest[path]
            empty = 0 in entry["shape"]
            array = (
                np.zeros(entry["shape"], entry["dtype"])
                if empty
                else _read_array(checkpointer, folder, path)
            )
            leaves[path] = _verified(array, entry, where=f"{folder}: leaf {path}")
    return leaves


def _read_array(checkpointer: ocp.Checkpointer, folder: Path, path: str) -> np.ndarray:
    import orbax.checkpoint as ocp

    # One leaf per call: if one of several concurrent reads fails, Orbax closes the event loop of
    # the others, which then print errors from their threads.
    one = unflatten({path: ocp.RestoreArgs(restore_type=np.ndarray)})
    args = ocp.args.PyTreeRestore(item=one, restore_args=one, partial_restore=True)
    try:
        (array,) = leaf_paths(checkpointer.restore(folder.resolve(), args=args)).values()
    except Exception as error:  # damaged bytes raise different types in different layers
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise CorruptError(f"{folder}: leaf {path}: Orbax cannot read it: {reason}") from error
    return array


def _verified(array: np.ndarray, entry: Mapping[str, Any], *, where: str) -> Any:
    impl = _KEY_IMPLS.get(entry["dtype"])
    dtype, shape = (entry["dtype"], array.shape) if impl is None else ("uint32", array.shape[:-1])
    if str(array.dtype) != dtype or list(shape) != entry["shape"]:
        raise CorruptError(
            f"{where}: saved as {_type_of(entry['dtype'], entry['shape'])}, read as "
            f"{_type_of(array.dtype, array.shape)}"
        )
    if _digest(array) != entry["sha256"]:
        raise CorruptError(f"{where}: its SHA-256 differs from the saved one: the data is damaged")
    return array if impl is None else jax.random.wrap_key_data(jnp.asarray(array), impl=impl)


def restore_structure(template: PyTree, leaves: Mapping[str, Any]) -> PyTree:
    """`leaves` (by path) in the structure of `template`: NumPy where the template's leaf is NumPy,
    otherwise on JAX's default device."""
    treedef = jax.tree.structure(template)
    ordered = [
        # `jnp.asarray` would compile a program per shape
        leaves[path]
        if isinstance(leaf, (np.ndarray, np.generic))
        else jax.device_put(leaves[path], may_alias=False)
        for path, leaf in leaf_paths(template).items()
    ]
    return jax.tree.unflatten(treedef, ordered)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _type_of(dtype: Any, shape: Iterable[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def write_tree(path: Path, tree: PyTree) -> None:
    """Write nested dictionaries of arrays to one safetensors file; replaces an older file."""
    write_tensors(path, leaf_paths(tree))


def read_tree(path: Path) -> dict[str, Any]:
    """Read `write_tree`'s arrays. Raises CorruptError, naming the file, if it is unreadable."""
    try:
        return unflatten(read_tensors(path)[0])
    except ValueError as error:
        raise CorruptError(f"{path}: {error}") from error
