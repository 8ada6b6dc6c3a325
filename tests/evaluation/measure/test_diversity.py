"""Selection of diverse partners, against brute force and the authors' recorded selections."""

import itertools
import json

import numpy as np
import pytest
from support.games import ROOT

from hanabi_rl.evaluation.measure.diversity import (
    _exchange,
    diversity,
    farthest,
    normalise,
    sample_k_dpp,
    select,
)

VECTORS = ROOT.parent / "shared" / "reference" / "zsc-eval-vectors.json"
COUNTS = [(3, 0, 1), (2, 1, 0), (0, 4, 1), (1, 1, 5), (2, 2, 2)]
PAIRS = {
    (0, 1): 0.082684,
    (0, 2): 1.078756,
    (0, 3): 0.935107,
    (0, 4): 0.330735,
    (1, 2): 0.464183,
    (1, 3): 0.513351,
    (1, 4): 0.108772,
    (2, 3): 1.017109,
    (2, 4): 0.551604,
    (3, 4): 0.443997,
}
"""From shared/reference/zsc-eval.md, C3."""


def recorded(layout):
    """Features and candidate numbers of the authors' data."""
    if not VECTORS.exists():
        pytest.skip(f"needs the authors' recorded counts, not part of the repository: {VECTORS}")
    data = json.loads(VECTORS.read_text())["br_div"][layout]
    return normalise(np.array(data["counts"])), data["candidates"], data


def brute_force(features, size):
    """Subset -> determinant, for all subsets."""
    similar = features @ features.T
    return {
        members: np.linalg.det(similar[np.ix_(members, members)])
        for members in itertools.combinations(range(len(features)), size)
    }


def test_five_candidates_by_hand():
    features = normalise(np.array(COUNTS))
    assert features[0] == pytest.approx([3 / 3.001, 0, 1 / 5.001])
    found = {pair: diversity(features, pair) for pair in PAIRS}
    assert found == pytest.approx(PAIRS, abs=1e-6)
    best = select(features, 3)
    assert best.members == (0, 2, 3) and best.determinant == pytest.approx(0.779056, abs=1e-6)
    assert best.search == "exact"
    for four in itertools.combinations(range(5), 4):
        assert diversity(features, four) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="expected to select 1 to 3 of 5 candidates"):
        select(features, 4)
    with pytest.raises(ValueError, match="got 0"):
        select(features, 0)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_k_dpp_samples_follow_determinants(size):
    features = normalise(np.array(COUNTS))
    weights = brute_force(features, size)
    total, draws = sum(weights.values()), 20_000
    sampled = sample_k_dpp(features, size, draws, np.random.default_rng(0))
    for members, weight in weights.items():
        assert sampled.count(members) / draws == pytest.approx(weight / total, abs=0.01)
    assert select(features, size, samples=200).members == max(weights, key=weights.get)


@pytest.mark.parametrize("seed", range(4))
def test_search_matches_brute_force(seed):
    rng = np.random.default_rng(seed)
    features = normalise(rng.gamma(0.5, size=(14, 6)))
    features[3] = features[5]  # equal candidates are never both selected
    for size in (1, 2, 4, 6):
        expected = brute_force(features, size)
        for exact_up_to in (0, 10_000):
            found = select(features, size, exact_up_to=exact_up_to, seed=seed)
            assert found.search == ("exact" if exact_up_to else "swaps")
            assert found.determinant == pytest.approx(max(expected.values()))
            assert found.determinant == pytest.approx(expected[found.members])


def test_swaps_end_in_local_optimum():
    features = normalise(np.random.default_rng(0).gamma(0.5, size=(14, 6)))
    every = brute_force(features, 4)
    worst = min((members for members in every if every[members] > 1e-9), key=every.get)
    found = tuple(sorted(_exchange(features, worst)))
    near = [members for members in every if len({*members} - {*found}) == 1]
    assert every[found] > every[worst] and every[found] >= max(every[m] for m in near) * (1 - 1e-9)


def test_invalid_counts_are_rejected():
    for wrong in (np.ones(3), np.array([[-1.0, 2.0]]), np.array([[np.nan, 1.0]])):
        with pytest.raises(ValueError, match="expected counts"):
            normalise(wrong)
    with pytest.raises(ValueError, match="at least 1 sample"):
        select(np.eye(3), 2, samples=0)


@pytest.mark.parametrize(("layout", "rank"), [("random0", 18), ("random0_medium", 23)])
def test_published_selections(layout, rank):
    """C1 and C2 of shared/reference/zsc-eval.md; the file has two of the nine layouts."""
    features, candidates, data = recorded(layout)
    assert np.linalg.matrix_rank(features) == rank
    chosen = [candidates.index(number) for number in data["recorded_selection"]]
    assert diversity(features, chosen) == pytest.approx(data["recorded_det"], rel=1e-9)
    found = select(features, len(chosen))
    assert found.search == "swaps"
    assert found.determinant == pytest.approx(data["recorded_det"], rel=1e-6)
    assert [candidates[member] for member in found.members] == data["recorded_selection"]


@pytest.mark.parametrize(
    ("determinant", "numbers"),
    [
        (34.947936, [23, 29]),
        (82.873948, [5, 7, 23]),
        (181.5967, [5, 7, 17, 23]),
        (244.67524, [3, 5, 7, 17, 23]),
    ],
)
def test_all_subsets_of_published_candidates(determinant, numbers):
    features, candidates, _ = recorded("random0")
    found = select(features, len(numbers))
    assert found.search == "exact"
    assert [candidates[member] for member in found.members] == numbers
    assert found.determinant == pytest.approx(determinant, rel=1e-6)


def test_farthest_maximises_summed_distance():
    """On a line at 0, 1, 5, 9: from 0 to 9, then 1 (1 + 8 ties with 5 + 4; the first wins)."""
    features = np.array([[0.0], [1.0], [5.0], [9.0]])

    class First:
        def integers(self, high: int) -> int:
            return 0

    assert farthest(features, 2, First()) == (0, 3)
    assert farthest(features, 3, First()) == (0, 1, 3)
    assert farthest(features, 4, np.random.default_rng(0)) == (0, 1, 2, 3)
    with pytest.raises(ValueError, match="expected to choose 1 to 4 candidates, got 5"):
        farthest(features, 5, np.random.default_rng(0))
