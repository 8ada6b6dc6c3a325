"""What makes an agent the one it is: as a SHA-256, for caches, reports, and to find duplicates; and
to jitted functions."""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import flax.struct
import jax

from hanabi_rl.storage.files import canonical_json, to_json
from hanabi_rl.storage.tensors import plain

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy


_CLASSES = itertools.count()


def agent_hash(description: Any, params: Any = None) -> str:
    """SHA-256 (hexadecimal) over the canonical JSON of `description` and the leaves of `params`.

    Args:
        description: what the agent is apart from its parameters, as `to_json` takes it; never where
            it came from. A wrapper names itself and the identity of what it wraps.
        params: a pytree of arrays, or None. Each leaf counts with its path, dtype, shape and bytes,
            in the order of the paths.
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
    """The identity of each of some policies, which a figure is to be made of together.

    Raises ValueError (it begins with `where`) where two are one policy, whatever they are called:
    counted as two independent ones it would make every interval too narrow.
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


def tag_treedef(cls: type) -> None:
    """Gives a class of agents, before it is made a dataclass, a static field `kind` of its own.

    To jaxlib 0.10 the structures of two dataclasses are equal where their static fields are,
    whatever their classes: without it a jitted function could play one agent for another of the
    same parameters (where the hashes happened to meet). A class that is made anew under its name,
    as by a notebook's cell that is run again, is another one.
    """
    cls.__annotations__ = {**inspect.get_annotations(cls), "kind": str}
    kind = f"{cls.__module__}.{cls.__name__} {next(_CLASSES)}"
    field = flax.struct.field(pytree_node=False, default=kind, repr=False)
    cls.kind = field  # type: ignore[attr-defined]
