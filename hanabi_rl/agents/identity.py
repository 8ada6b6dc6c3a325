"""Identity of an agent: SHA-256 for caches, reports and duplicate checks; pytree tag for jit."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flax.struct
import jax

from hanabi_rl.storage.files import canonical_json, to_json
from hanabi_rl.storage.tensors import plain

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


_CLASSES = itertools.count()


def agent_hash(description: Any, params: Any = None) -> str:
    """SHA-256 (hexadecimal) of the canonical JSON of `description` and the leaves of `params`.

    Args:
        description: the agent without parameters and provenance, as `to_json` takes it. A wrapper
            names itself and the identity of the wrapped policy.
        params: a pytree of arrays, or None. Leaves contribute path, dtype, shape and bytes, by
            path.
    """
    flat = jax.tree_util.tree_leaves_with_path(params)
    leaves = {
        jax.tree_util.keystr(path, simple=True, separator="/"): plain(leaf) for path, leaf in flat
    }
    total = hashlib.sha256(canonical_json(to_json(description)))
    for path in sorted(leaves):
        array = leaves[path]
        total.update(canonical_json([path, str(array.dtype), list(array.shape)]))
        total.update(array.tobytes())
    return total.hexdigest()


def check_distinct(policies: Sequence[Policy], names: Sequence[str], where: str = "") -> list[str]:
    """Return the identities of the policies that one result combines.

    Raises ValueError (prefixed with `where`) for duplicates, which would make intervals too narrow.
    """
    first: dict[str, str] = {}
    for policy, name in zip(policies, names, strict=True):
        identity = policy.identity()
        if identity in first:
            raise ValueError(
                f"{where}expected policies that differ, got the same one as {first[identity]} "
                f"and as {name} (hash {identity[:12]})"
            )
        first[identity] = name
    return list(first)


def source_hash(cls: type) -> str:
    """SHA-256 of the file that defines a class outside the package, or in a notebook of its
    methods; files that it imports do not enter."""
    if file := getattr(sys.modules.get(cls.__module__), "__file__", None):
        return _file_hash(file, cls)
    methods = [value for value in vars(cls).values() if inspect.isfunction(value)]
    methods = [inspect.unwrap(method) for method in methods]
    return agent_hash(
        [_source(method) for method in methods if method.__module__ == cls.__module__]
    )


@functools.cache
def _file_hash(file: str, cls: type) -> str:
    """Hash of a file when its class is first used, not after later edits."""
    del cls
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except OSError:  # typed into a console
        return str(function.__code__.co_code.hex())


def tag_treedef(cls: type) -> None:
    """Give a class of agents a unique static field `kind`, before it is made a dataclass.

    In jaxlib 0.10, pytree structures of two dataclasses are equal if their static fields are,
    whatever their classes; a jitted function could then run one agent in place of another with
    equal parameters. A redefined class, as when a notebook cell runs again, gets a new tag.
    """
    cls.__annotations__ = {**inspect.get_annotations(cls), "kind": str}
    kind = f"{cls.__module__}.{cls.__name__} {next(_CLASSES)}"
    field = flax.struct.field(pytree_node=False, default=kind, repr=False)
    cls.kind = field  # type: ignore[attr-defined]
