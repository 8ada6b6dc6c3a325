"""Partners that differ: which of many to keep, by the determinant of their behaviours' similarities
(ZSC-Eval, Wang et al., arXiv 2310.05208, section 4.2). NumPy on the host.

A candidate is a row of mean event counts, each column divided by its maximum over the candidates;
the similarity of two is their rows' inner product. The *diversity* of some candidates is the
determinant of their similarities: the squared volume that their rows span, 0 where one of them is a
mixture of the others. The paper calls it P-Div of the partners' counts, BR-Div of those of their
best responses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

Search = Literal["exact", "swaps", "dpp"]
EXACT_UP_TO = 1_000_000  # subsets that are all tried
_AT_ONCE = 20_000  # determinants of one batch
_STARTS = 50  # at random, beside the greedy one
_ZERO = 1e-24  # a squared length below this share of the longest row's is rounding


class Selection(NamedTuple):
    """The candidates chosen."""

    members: tuple[int, ...]  # ascending
    determinant: float
    search: Search


def normalise(counts: np.ndarray) -> np.ndarray:
    """float64[n, K]: mean counts of n candidates, each column by its maximum + 1e-3 (the authors'
    code). Raises ValueError for counts of another shape, negative or not finite."""
    counts = np.asarray(counts, np.float64)
    if counts.ndim != 2 or not counts.size or not np.isfinite(counts).all() or counts.min() < 0:
        raise ValueError(f"expected counts >= 0 float[n, K], got shape {counts.shape}")
    return counts / (counts.max(axis=0) + 1e-3)


def diversity(features: np.ndarray, members: Sequence[int]) -> float:
    """The determinant of the similarities of `members` among the rows of `features` float[n, K]."""
    return float(_determinants(features, np.array([members]))[0])


def select(
    features: np.ndarray,
    size: int,
    *,
    samples: int | None = None,
    seed: int = 0,
    exact_up_to: int = EXACT_UP_TO,
) -> Selection:
    """The `size` rows of `features` float[n, K] whose diversity is the greatest found.

    All subsets are tried where there are at most `exact_up_to`; else exchanges of one for one, from
    the greedy choice and 50 random ones, each to where none helps. With `samples` that many draws
    of a k-DPP instead and the best of them: the paper's procedure.

    Raises:
        ValueError: a size below 1, or above the rank of `features`, where every determinant is 0.
    """
    rank = int(np.linalg.matrix_rank(features))
    if not 1 <= size <= rank:
        raise ValueError(
            f"expected to select 1 to {rank} of {len(features)} candidates (the rank of their "
            f"features: of more the determinant is always 0), got {size}"
        )
    rng = np.random.default_rng(seed)
    if samples is not None:
        if samples < 1:
            raise ValueError(f"expected at least 1 sample, got {samples}")
        drawn = np.array(sample_k_dpp(features, size, samples, rng))
        return _best(features, [np.unique(drawn, axis=0)], "dpp")
    if math.comb(len(features), size) <= exact_up_to:
        return _best(features, _subsets(len(features), size), "exact")
    starts = [_grow(features, size)] + [_grow(features, size, rng) for _ in range(_STARTS)]
    return _best(features, [np.array([_exchange(features, start) for start in starts])], "swaps")


def farthest(features: np.ndarray, size: int, rng: np.random.Generator) -> tuple[int, ...]:
    """`size` rows of `features` float[n, K], ascending: one at random, then again and again the one
    whose L1 distances to those already chosen sum to the most (HSP, Yu et al. 2023). Raises
    ValueError where there are not so many."""
    if not 1 <= size <= len(features):
        raise ValueError(f"expected to choose 1 to {len(features)} candidates, got {size}")
    distances = np.abs(features[:, None] - features[None]).sum(axis=-1)
    chosen = [int(rng.integers(len(features)))]
    while len(chosen) < size:
        gains = distances[:, chosen].sum(axis=1)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
    return tuple(sorted(chosen))


def sample_k_dpp(
    features: np.ndarray, size: int, num: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """`num` independent draws of `size` rows of `features` float[n, K], ascending, each set with
    probability proportional to its determinant (Kulesza and Taskar 2012, algorithms 1 and 8)."""
    vectors, lengths, _ = np.linalg.svd(features, full_matrices=False)
    values = (lengths / lengths[0]) ** 2  # of the similarities, by their largest
    # sums[l, j]: the elementary symmetric polynomial of degree l of the first j eigenvalues
    sums = np.zeros((size + 1, len(values) + 1))
    sums[0] = 1.0
    for j, value in enumerate(values, start=1):
        sums[1:, j] = sums[1:, j - 1] + value * sums[:-1, j - 1]
    return [_draw(vectors, values, sums, size, rng) for _ in range(num)]


def _draw(
    vectors: np.ndarray, values: np.ndarray, sums: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[int, ...]:
    chosen: list[int] = []  # eigenvectors, as many as rows are drawn
    for j in range(len(values), 0, -1):
        missing = size - len(chosen)
        if missing and rng.random() * sums[missing, j] < values[j - 1] * sums[missing - 1, j - 1]:
            chosen.append(j - 1)
    rest = vectors[:, chosen]
    members: list[int] = []
    for _ in range(size):
        weights = (rest**2).sum(axis=1)
        weights[members] = 0.0
        members.append(int(rng.choice(len(rest), p=weights / weights.sum())))
        rest = _without(rest, members[-1])
    return tuple(sorted(members))


def _determinants(features: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """float64[B] of `subsets` int[B, M]; 0 where rounding makes it negative."""
    rows = features[subsets]
    sign, log = np.linalg.slogdet(rows @ rows.swapaxes(1, 2))
    return np.where(sign > 0, np.exp(log), 0.0)


def _subsets(count: int, size: int) -> Iterator[np.ndarray]:
    every = itertools.combinations(range(count), size)
    while batch := list(itertools.islice(every, _AT_ONCE)):
        yield np.array(batch)


def _best(
    features: np.ndarray, batches: Iterator[np.ndarray] | Sequence[np.ndarray], search: Search
) -> Selection:
    """The first best of the subsets int[B, M] of all batches."""
    best = Selection((), -1.0, search)
    for batch in batches:
        determinants = _determinants(features, batch)
        place = int(determinants.argmax())
        if determinants[place] > best.determinant:
            members = tuple(sorted(batch[place].tolist()))
            best = Selection(members, float(determinants[place]), search)
    return best


def _without(rows: np.ndarray, chosen: int) -> np.ndarray:
    """The rows float[n, K] less their parts along one of them (a step of Cholesky's)."""
    direction = rows[chosen] / np.linalg.norm(rows[chosen])
    return rows - np.outer(rows @ direction, direction)


def _grow(
    features: np.ndarray, size: int, rng: np.random.Generator | None = None
) -> tuple[int, ...]:
    """`size` independent rows one by one: that which adds the most volume, or with `rng` any that
    adds some."""
    rest, members = features, []
    least = _ZERO * float((features**2).sum(axis=1).max())
    for _ in range(size):
        added = (rest**2).sum(axis=1)
        members.append(
            int(added.argmax()) if rng is None else int(rng.choice(np.flatnonzero(added > least)))
        )
        rest = _without(rest, members[-1])
    return tuple(members)


def _exchange(features: np.ndarray, members: tuple[int, ...]) -> list[int]:
    """Exchanges the one member for the one other row that helps most, until none does."""
    chosen = list(members)
    while True:
        gains = np.stack([_volumes(features, chosen, place) for place in range(len(chosen))])
        now = gains[0, chosen[0]]  # the first exchanged for itself
        place, row = np.unravel_index(int(gains.argmax()), gains.shape)
        if not gains[place, row] > now + 1e-9:  # more than rounding
            return chosen
        chosen[int(place)] = int(row)


def _volumes(features: np.ndarray, chosen: Sequence[int], place: int) -> np.ndarray:
    """float64[n]: the log determinant with each row at this place; -inf where it is 0."""
    others = [row for index, row in enumerate(chosen) if index != place]
    basis, triangle = np.linalg.qr(features[others].T)
    added = ((features - features @ basis @ basis.T) ** 2).sum(axis=1)
    added[others] = 0.0
    kept = 2.0 * np.log(np.abs(np.diag(triangle))).sum()
    return np.log(added, out=np.full(len(added), -np.inf), where=added > 0) + kept
