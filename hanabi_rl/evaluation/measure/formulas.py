"""Seeded pools of logical formulas over atoms: what the concepts of context independence are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Tree = tuple[Any, ...]
"""An atom `(index, negated)`, or `("and" | "or", tree, tree)`."""
POOLS, POOL_SIZE = 10, 500
MAX_DEPTH = 3
NEGATED = 0.2  # the chance that an atom is negated
_STREAM = 2503_15516  # sets these seeds apart from all others


class Formulas(NamedTuple):
    """F formulas `(leaf 0 . leaf 1) . (leaf 2 . leaf 3)`, each dot an `and` or an `or`; a shorter
    one repeats its leaves."""

    leaves: np.ndarray  # int32[F, 4], atoms
    negated: np.ndarray  # bool[F, 4]
    any_of: np.ndarray  # bool[F, 3]: whether the left, the right and the middle dot is an `or`


@functools.lru_cache
def formula_pools(num_atoms: int, seed: int = 0) -> tuple[Formulas, ...]:
    """`POOLS` pools of `POOL_SIZE` formulas each, a function of the number of atoms and the
    seed."""
    return tuple(
        compile_formulas(sample_trees(num_atoms, POOL_SIZE, np.random.default_rng(key)))
        for key in ([_STREAM, seed, pool] for pool in range(POOLS))
    )


def sample_trees(num_atoms: int, count: int, rng: np.random.Generator) -> list[Tree]:
    """`count` formulas of a depth uniform on 1 to `MAX_DEPTH`."""
    return [_sample(num_atoms, int(rng.integers(MAX_DEPTH)) + 1, rng) for _ in range(count)]


def _sample(num_atoms: int, depth: int, rng: np.random.Generator) -> Tree:
    """Depth 1 is an atom, negated by chance; more is `and` or `or` of one tree that is one less
    deep and one of any lesser depth."""
    if depth == 1:
        return int(rng.integers(num_atoms)), bool(rng.random() < NEGATED)
    dot = "or" if rng.random() < 0.5 else "and"
    other = int(rng.integers(1, depth))
    return dot, _sample(num_atoms, depth - 1, rng), _sample(num_atoms, other, rng)


def compile_formulas(trees: Sequence[Tree]) -> Formulas:
    """Trees of depth 3 at most as arrays. Raises ValueError for a deeper one."""
    leaves, dots = zip(*map(_flat, trees), strict=True)
    atoms = np.array(leaves, np.int32)
    return Formulas(atoms[..., 0], atoms[..., 1] != 0, np.array(dots) == "or")


def _flat(tree: Tree) -> tuple[list[Tree], list[str]]:
    """The four leaves and the left, right and middle dot of a tree."""
    middle, *halves = _split(tree)
    (left, a, b), (right, c, d) = map(_split, halves)
    if any(isinstance(leaf[0], str) for leaf in (a, b, c, d)):
        raise ValueError(f"expected a formula of depth {MAX_DEPTH} at most, got {tree}")
    return [a, b, c, d], [left, right, middle]


def _split(tree: Tree) -> Tree:
    """A dot and its two sides; an atom is itself and itself."""
    return tree if isinstance(tree[0], str) else ("and", tree, tree)


def truth(formula: Formulas, atoms: jax.Array) -> jax.Array:
    """The bits uint32[...] at which one formula (fields [4], [4], [3]) is true, of atoms uint32[A,
    ...] that hold 32 events a word."""
    bits = [
        jnp.where(negated, ~atoms[leaf], atoms[leaf])
        for leaf, negated in zip(formula.leaves, formula.negated, strict=True)
    ]
    left, right, middle = formula.any_of
    both = jnp.where(left, bits[0] | bits[1], bits[0] & bits[1])
    more = jnp.where(right, bits[2] | bits[3], bits[2] & bits[3])
    return jnp.where(middle, both | more, both & more)
