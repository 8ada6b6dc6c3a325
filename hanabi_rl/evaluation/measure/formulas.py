"""Seeded pools of logical formulas over atoms: the concepts of context independence."""

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
NEGATED = 0.2  # probability that an atom is negated
_STREAM = 2503_15516  # separates these seeds from all others


class Formulas(NamedTuple):
    """F formulas `(leaf 0 . leaf 1) . (leaf 2 . leaf 3)`; each dot is `and` or `or`."""

    leaves: np.ndarray  # int32[F, 4], atoms
    negated: np.ndarray  # bool[F, 4]
    any_of: np.ndarray  # bool[F, 3], True if the left, right, middle dot is an `or`


@functools.lru_cache
def formula_pools(num_atoms: int, seed: int = 0) -> tuple[Formulas, ...]:
    """`POOLS` pools of `POOL_SIZE` formulas, determined by the number of atoms and the seed."""
    return tuple(
        compile_formulas(sample_trees(num_atoms, POOL_SIZE, np.random.default_rng(key)))
        for key in ([_STREAM, seed, pool] for pool in range(POOLS))
    )


def sample_trees(num_atoms: int, count: int, rng: np.random.Generator) -> list[Tree]:
    """Sample `count` formulas, with depth uniform on 1 to `MAX_DEPTH`."""
    return [_sample(num_atoms, int(rng.integers(MAX_DEPTH)) + 1, rng) for _ in range(count)]


def _sample(num_atoms: int, depth: int, rng: np.random.Generator) -> Tree:
    """Depth 1: an atom, negated with probability `NEGATED`. Depth d: `and` or `or` of a tree of
    depth d - 1 and one of uniform depth 1 to d - 1."""
    if depth == 1:
        return int(rng.integers(num_atoms)), bool(rng.random() < NEGATED)
    dot = "or" if rng.random() < 0.5 else "and"
    other = int(rng.integers(1, depth))
    return dot, _sample(num_atoms, depth - 1, rng), _sample(num_atoms, other, rng)


def compile_formulas(trees: Sequence[Tree]) -> Formulas:
    """Convert trees of depth <= 3 to arrays. Raises ValueError for deeper trees."""
    leaves, dots = zip(*map(_flat, trees), strict=True)
    atoms = np.array(leaves, np.int32)
    return Formulas(atoms[..., 0], atoms[..., 1] != 0, np.array(dots) == "or")


def _flat(tree: Tree) -> tuple[list[Tree], list[str]]:
    """The four leaves, and the left, right and middle dot."""
    middle, *halves = _split(tree)
    (left, a, b), (right, c, d) = map(_split, halves)
    if any(isinstance(leaf[0], str) for leaf in (a, b, c, d)):
        raise ValueError(f"expected a formula of depth <= {MAX_DEPTH}, got {tree}")
    return [a, b, c, d], [left, right, middle]


def _split(tree: Tree) -> Tree:
    """(dot, left, right); an atom is `atom and atom`."""
    return tree if isinstance(tree[0], str) else ("and", tree, tree)


def truth(formula: Formulas, atoms: jax.Array) -> jax.Array:
    """Truth uint32[...] of one formula (fields [4], [4], [3]), given atoms uint32[A, ...]."""
    bits = [
        jnp.where(negated, ~atoms[leaf], atoms[leaf])
        for leaf, negated in zip(formula.leaves, formula.negated, strict=True)
    ]
    left, right, middle = formula.any_of
    both = jnp.where(left, bits[0] | bits[1], bits[0] & bits[1])
    more = jnp.where(right, bits[2] | bits[3], bits[2] & bits[3])
    return jnp.where(middle, both | more, both & more)
