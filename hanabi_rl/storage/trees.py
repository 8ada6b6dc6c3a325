"""Pytrees on disk, verified: Orbax stores the arrays, a manifest of ours says what they must be.

Orbax neither notices a flipped bit nor refuses another dtype, and some of its paths accept another
shape. So every tree is saved with a manifest, `leaf path -> dtype, shape, SHA-256`, and compared
with it leaf by leaf when it is read. On disk a tree is nested dicts of NumPy arrays, whatever its
classes were: keys of a PRNG as their data, arrays without elements (which Orbax
refuses) not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from hanabi_rl.storage.tensors import read_tensors, write_tensors

PyTree = Any
Manifest = dict[str, dict[str, Any]]
"""Leaf path -> {"dtype": str, "shape": list[int], "sha256": str}."""

_KEY_IMPLS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


class IncompatibleError(ValueError):
    """What is stored belongs to another model or format."""


class CorruptError(ValueError):
    """What is stored is not what was saved."""


def single_process_orbax() -> ocp.options.MultiprocessingOptions:
    """Tells Orbax to wait for no other process: of several hosts that train together, the first
    saves and restores alone."""
    me = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me})


def leaf_paths(tree: PyTree) -> dict[str, Any]:
    """The leaves of `tree` by path, e.g. `actor/lstm_0/input/kernel`, in the tree's own order.

    Raises:
        ValueError: naming the leaf, where one is no array (or `jax.ShapeDtypeStruct`), or two have
            one path.
    """
    leaves: dict[str, Any] = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        path = jax.tree_util.keystr(keys, simple=True, separator="/")
        if not (hasattr(leaf, "dtype") and hasattr(leaf, "shape")):
            raise ValueError(f"leaf {path}: expected an array, got {type(leaf).__name__}")
        if path in leaves:
            raise ValueError(f"leaf {path}: expected a path of its own, got two (a key with a '/')")
        leaves[path] = leaf
    return leaves


def to_host(tree: PyTree) -> tuple[dict[str, np.ndarray], Manifest]:
    """Copies the leaves of `tree` to NumPy arrays by path (PRNG keys as their data), with the
    manifest that describes them."""
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
    """`{"a/b": x}` as `{"a": {"b": x}}`: the form in which Orbax stores a tree."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *parents, name = path.split(separator)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = leaf
    return tree


def without_empty_leaves(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What to hand to Orbax for the arrays of `to_host`: nested, without those that have no
    elements (it refuses them)."""
    return unflatten({path: array for path, array in arrays.items() if array.size})


def check_structure(manifest: Manifest, template: PyTree, *, where: str) -> None:
    """Checks that what `manifest` describes fits `template` (arrays or `jax.ShapeDtypeStruct`s):
    same leaves, dtypes and shapes.

    Raises:
        IncompatibleError: naming `where`, the first leaf that differs, and both sides.
    """
    expected = leaf_paths(template)
    for path, leaf in expected.items():
        if path not in manifest:
            raise IncompatibleError(
                f"{where}: leaf {path} ({_kind(leaf.dtype, leaf.shape)}) is not stored there"
            )
        stored = manifest[path]
        if stored["dtype"] != str(leaf.dtype) or tuple(stored["shape"]) != tuple(leaf.shape):
            raise IncompatibleError(
                f"{where}: leaf {path}: expected {_kind(leaf.dtype, leaf.shape)}, "
                f"stored {_kind(stored['dtype'], stored['shape'])}"
            )
    for path, stored in manifest.items():
        if path not in expected:
            raise IncompatibleError(
                f"{where}: leaf {path} ({_kind(stored['dtype'], stored['shape'])}) is stored but "
                "not part of the model"
            )


def read_leaves(folder: Path, manifest: Manifest, paths: Iterable[str]) -> dict[str, Any]:
    """Reads the leaves `paths` of the tree that Orbax stored in `folder`, and verifies each with
    its entry in `manifest`.

    Returns:
        Arrays by path: NumPy, PRNG keys wrapped again.

    Raises:
        CorruptError: naming the leaf that Orbax cannot read, or whose bytes, dtype or shape are not
            those saved.
    """
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
    # One leaf a call: where one of many concurrent reads fails, Orbax closes the event loop under
    # the others, which then complain on stderr from their own threads.
    one = unflatten({path: ocp.RestoreArgs(restore_type=np.ndarray)})
    args = ocp.args.PyTreeRestore(item=one, restore_args=one, partial_restore=True)
    try:
        (array,) = leaf_paths(checkpointer.restore(folder.resolve(), args=args)).values()
    except Exception as error:  # damaged bytes surface as whatever the layer that met them raises
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise CorruptError(f"{folder}: leaf {path}: Orbax cannot read it: {reason}") from error
    return array


def _verified(array: np.ndarray, entry: Mapping[str, Any], *, where: str) -> Any:
    impl = _KEY_IMPLS.get(entry["dtype"])
    dtype, shape = (entry["dtype"], array.shape) if impl is None else ("uint32", array.shape[:-1])
    if str(array.dtype) != dtype or list(shape) != entry["shape"]:
        raise CorruptError(
            f"{where}: saved as {_kind(entry['dtype'], entry['shape'])}, read as "
            f"{_kind(array.dtype, array.shape)}"
        )
    if _digest(array) != entry["sha256"]:
        raise CorruptError(
            f"{where}: its SHA-256 is not the one it was saved with: the data is damaged"
        )
    return array if impl is None else jax.random.wrap_key_data(jnp.asarray(array), impl=impl)


def restore_structure(template: PyTree, leaves: Mapping[str, Any]) -> PyTree:
    """`leaves` (by path) in the structure of `template`: NumPy where the template's leaf is NumPy,
    else on JAX's default device."""
    treedef = jax.tree.structure(template)
    ordered = [
        # not `jnp.asarray`, which compiles a program for every shape
        leaves[path]
        if isinstance(leaf, (np.ndarray, np.generic))
        else jax.device_put(leaves[path], may_alias=False)
        for path, leaf in leaf_paths(template).items()
    ]
    return jax.tree.unflatten(treedef, ordered)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _kind(dtype: Any, shape: Iterable[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def write_tree(path: Path, tree: PyTree) -> None:
    """Write dictionaries of arrays to one file of safetensors; replaces an older file."""
    write_tensors(path, leaf_paths(tree))


def read_tree(path: Path) -> dict[str, Any]:
    """What `write_tree` wrote.

    Raises:
        CorruptError: naming the file, where it cannot be read.
    """
    try:
        return unflatten(read_tensors(path)[0])
    except ValueError as error:
        raise CorruptError(f"{path}: {error}") from error
