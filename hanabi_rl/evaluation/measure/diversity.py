"""Selection of diverse partners by the determinant of their behaviours' similarities.

ZSC-Eval (Wang et al., arXiv 2310.05208, section 4.2), in NumPy on the host. A candidate is a row of
mean event counts, each column divided by its maximum over the candidates; the similarity of two
candidates is the inner product of their rows. The *diversity* of a set is the determinant of its
similarity matrix: the squared volume spanned by its rows, 0 if they are linearly dependent. The
paper calls it P-Div for counts of the partners, BR-Div for counts of their best responses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

Search = Literal["exact", "swaps", "dpp"]
EXACT_UP_TO = 1_000_000  # number of subsets up to which all are evaluated
_AT_ONCE = 20_000  # determinants per batch
_STARTS = 50  # random starts, in addition to the greedy start
_ZERO = 1e-24  # squared lengths below this fraction of the longest row's are rounding errors


class Selection(NamedTuple):
    """Selected candidates."""

    members: tuple[int, ...]  # ascending
    determinant: float
    search: Search


def normalise(counts: np.ndarray) -> np.ndarray:
    """Divide mean counts [n, K] by each column's maximum + 1e-3 (the authors' code): float64[n, K].
    Raises ValueError for another shape, negative or non-finite counts."""
    counts = np.asarray(counts, np.float64)
    if counts.ndim != 2 or not counts.size or not np.isfinite(counts).all() or counts.min() < 0:
        raise ValueError(f"expected counts >= 0 float[n, K], got shape {counts.shape}")
    return counts / (counts.max(axis=0) + 1e-3)


def diversity(features: np.ndarray, members: Sequence[int]) -> float:
    """Determinant of the similarities of `members`, rows of `features` float[n, K]."""
    return float(_determinants(features, np.array([members]))[0])


def select(
    features: np.ndarray,
    size: int,
    *,
    samples: int | None = None,
    seed: int = 0,
    exact_up_to: int = EXACT_UP_TO,
) -> Selection:
    """Select the `size` rows of `features` float[n, K] of maximum diversity.

    Exhaustive for at most `exact_up_to` subsets; otherwise swaps of one row, from the greedy start
    and 50 random starts, until none improves.

    Args:
        samples: number of k-DPP samples to select from instead (the paper's procedure).

    Raises:
        ValueError: `size` below 1 or above the rank of `features`, where every determinant is 0.
    """
    rank = int(np.linalg.matrix_rank(features))
    if not 1 <= size <= rank:
        raise ValueError(
            f"expected to select 1 to {rank} of {len(features)} candidates (the rank of their "
            f"features; the determinant of more is 0), got {size}"
        )
    rng = np.random.default_rng(seed)
    if samples is not None:
        if samples < 1:
            raise ValueError(f"expected at least 1 sample, got {samples}")
        sampled = np.array(sample_k_dpp(features, size, samples, rng))
        return _best(features, [np.unique(sampled, axis=0)], "dpp")
    if math.comb(len(features), size) <= exact_up_to:
        return _best(features, _subsets(len(features), size), "exact")
    starts = [_grow(features, size)] + [_grow(features, size, rng) for _ in range(_STARTS)]
    return _best(features, [np.array([_exchange(features, start) for start in starts])], "swaps")


def farthest(features: np.ndarray, size: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Select `size` rows of `features` float[n, K], ascending: a random row, then repeatedly the
    row with the largest sum of L1 distances to those selected (HSP, Yu et al. 2023). Raises
    ValueError if `size` is not 1 to n."""
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
    """Sample `num` sets of `size` rows of `features` float[n, K] from a k-DPP, ascending:
    probability proportional to the determinant (Kulesza and Taskar 2012, algorithms 1 and 8)."""
    vectors, lengths, _ = np.linalg.svd(features, full_matrices=False)
    values = (lengths / lengths[0]) ** 2  # eigenvalues of the similarities, relative to the largest
    # sums[l, j]: elementary symmetric polynomial of degree l of the first j eigenvalues
    sums = np.zeros((size + 1, len(values) + 1))
    sums[0] = 1.0
    for j, value in enumerate(values, start=1):
        sums[1:, j] = sums[1:, j - 1] + value * sums[:-1, j - 1]
    return [_sample(vectors, values, sums, size, rng) for _ in range(num)]


def _sample(
    vectors: np.ndarray, values: np.ndarray, sums: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[int, ...]:
    chosen: list[int] = []  # eigenvectors, as many as sampled rows
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
    """Determinants of `subsets` int[B, M], float64[B]; 0 where rounding makes them negative."""
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
    best = Selection((), -1.0, search)
    for batch in batches:
        determinants = _determinants(features, batch)
        place = int(determinants.argmax())
        if determinants[place] > best.determinant:
            members = tuple(sorted(batch[place].tolist()))
            best = Selection(members, float(determinants[place]), search)
    return best


def _without(rows: np.ndarray, chosen: int) -> np.ndarray:
    """Project the rows float[n, K] orthogonally to one of them (a Cholesky step)."""
    direction = rows[chosen] / np.linalg.norm(rows[chosen])
    return rows - np.outer(rows @ direction, direction)


def _grow(
    features: np.ndarray, size: int, rng: np.random.Generator | None = None
) -> tuple[int, ...]:
    """Add independent rows one by one: that of most volume, or with `rng` a random one."""
    rest, members = features, []
    min_added = _ZERO * float((features**2).sum(axis=1).max())
    for _ in range(size):
        added = (rest**2).sum(axis=1)
        members.append(
            int(added.argmax())
            if rng is None
            else int(rng.choice(np.flatnonzero(added > min_added)))
        )
        rest = _without(rest, members[-1])
    return tuple(members)


def _exchange(features: np.ndarray, members: tuple[int, ...]) -> list[int]:
    """Make the best swap of a member for another row until none improves."""
    chosen = list(members)
    while True:
        gains = np.stack([_volumes(features, chosen, place) for place in range(len(chosen))])
        now = gains[0, chosen[0]]  # the first member swapped for itself
        place, row = np.unravel_index(int(gains.argmax()), gains.shape)
        if not gains[place, row] > now + 1e-9:  # above rounding
            return chosen
        chosen[int(place)] = int(row)


def _volumes(features: np.ndarray, chosen: Sequence[int], place: int) -> np.ndarray:
    """Log determinant with each row in `place`, float64[n]; -inf where it is 0."""
    others = [row for index, row in enumerate(chosen) if index != place]
    basis, triangle = np.linalg.qr(features[others].T)
    added = ((features - features @ basis @ basis.T) ** 2).sum(axis=1)
    added[others] = 0.0
    log_volume = 2.0 * np.log(np.abs(np.diag(triangle))).sum()
    return np.log(added, out=np.full(len(added), -np.inf), where=added > 0) + log_volume
