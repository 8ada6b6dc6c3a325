"""BR-Prox, against rliable and by hand."""

import json

import numpy as np
import pytest
from support.games import ROOT

from hanabi_rl.evaluation.measure.br_prox import (
    br_prox,
    by_strength,
    interquartile_mean,
    is_expert,
    ratios,
)

VECTORS = ROOT.parent / "shared" / "reference" / "zsc-eval-vectors.json"
RUNS = np.array(
    [[0.10, 0.40, 0.90, 1.00, 0.55], [0.20, 0.35, 0.80, 0.95, 0.60], [0.15, 0.50, 0.70, 1.00, 0.45]]
)


def test_br_prox_matches_rliable():
    """rliable 1.2.0, 50,000 resamples: shared/reference/zsc-eval.md, C4."""
    found = br_prox(RUNS[..., None], np.ones(5))
    assert found.iqm.mean == pytest.approx(0.5833333) and found.over == "runs"
    assert found.iqm.bounds == pytest.approx([0.538889, 0.627778], abs=1e-3)
    assert found.mean == pytest.approx(0.5766667)
    assert found.quartiles == pytest.approx((0.375, 0.85))
    assert (found.clipped, found.runs, found.unclipped) == (0, 3, found.iqm.mean)
    assert br_prox(RUNS[..., None], np.ones(5)) == found  # seeded
    assert br_prox(RUNS[..., None], np.ones(5), seed=1).iqm != found.iqm


def test_interquartile_means_by_hand():
    assert interquartile_mean(np.array([1, 0, 0, 0])) == 0
    assert interquartile_mean(np.array([1, 0, 0])) == pytest.approx(1 / 3)
    assert interquartile_mean(np.array([[8, 1, 2, 3], [0, 0, 5, 9]])).tolist() == [2.5, 2.5]


def test_matrix_game():
    """Payoffs diag(10, 8, 6); partner k always plays k."""
    payoffs = np.diag([10.0, 8, 6])
    best = payoffs.max(axis=0)
    uniform, first = payoffs.mean(axis=0), payoffs[0]
    assert ratios(uniform, best) == pytest.approx([1 / 3] * 3)
    assert br_prox(uniform[None, :, None], best).iqm.mean == pytest.approx(1 / 3)
    assert ratios(first, best).tolist() == [1, 0, 0]


def test_partners_are_split_by_self_play():
    """ZSC-Eval, section 5.2: partners with J(pi) at most the median are moderate, the others
    experts; the partner with the best best response (the third) can be weak in self-play."""
    selfplay = np.array([4.0, 3.0, 0.0, 2.0])  # median 2.5
    assert is_expert(selfplay).tolist() == [True, True, False, False]
    assert is_expert(np.array([0.0, 0, 0, 7])).tolist() == [False, False, False, True]
    assert is_expert(np.array([3.0, 1, 2])).tolist() == [
        True,
        False,
        False,
    ]  # the median is moderate
    best = np.array([[4.0, 4], [4, 4], [20, 20], [4, 4]])
    returns = np.broadcast_to(
        np.array([[1.0, 1], [1, 1], [10, 10], [2, 2]])[None, :, :, None], (2, 4, 2, 3)
    )
    found = by_strength(returns, best, selfplay)
    assert {part: prox.mean for part, prox in found.items()} == {
        "all": pytest.approx((1 / 4 + 1 / 4 + 1 / 2 + 1 / 2) / 4),
        "moderate": pytest.approx(1 / 2),
        "expert": pytest.approx(1 / 4),
    }
    assert set(by_strength(returns, best, np.full(4, 3.0))) == {"all", "moderate"}


def test_entries_above_one_are_clipped():
    found = br_prox(np.array([[6.0, 2, 3, 0]])[..., None], np.array([4.0, 4, 4, 0]))
    assert found.clipped == 0.25  # not the last: 0 / 0 counts as 1
    assert found.iqm.mean == pytest.approx((0.75 + 1) / 2)  # of 0.5 0.75 1 1
    assert found.unclipped == pytest.approx((0.75 + 1) / 2)  # of 0.5 0.75 1 1.5
    assert found.mean == pytest.approx(3.25 / 4)


def test_zero_best_responses_are_counted():
    """Two of the four columns; they count as 1 for every agent."""
    found = br_prox(np.array([[1.0, 0, 2, 0]])[..., None], np.array([4.0, 0, 4, -1]))
    assert found.best_zero == 0.5 and found.as_dict()["best_response_zero_fraction"] == 0.5
    assert found.mean == pytest.approx((0.25 + 1 + 0.5 + 1) / 4)
    assert br_prox(RUNS[..., None], np.ones(5)).best_zero == 0
    selfplay, best = np.array([1.0, 2, 3]), np.array([[0.0, 0], [4, 0], [4, 4]])
    parts = by_strength(np.ones((1, 3, 2, 4)), best, selfplay)
    assert {part: of.best_zero for part, of in parts.items()} == {
        "all": 0.5,
        "moderate": 0.75,
        "expert": 0.0,
    }


def test_single_run_interval_uses_decks():
    scores = np.array([[[0, 4, 4, 0] * 25, [2, 2, 2, 2] * 25]], float)
    found = br_prox(scores, np.array([8.0, 4.0]))
    assert found.over == "decks" and found.iqm.mean == pytest.approx(3 / 8)
    # standard error of the first column's mean: 2 / sqrt(100); here 1/16 of it
    assert found.iqm.std_error == pytest.approx(0.2 / 16, rel=0.05)
    above = br_prox(scores, np.array([1.0, 1.0]))  # also above 1 in every resample
    assert above.iqm.mean == 1 and above.iqm.bounds == [1, 1] and above.clipped == 1
    few = br_prox(np.array([[[4.0, 2, 4, 4]]]), np.array([4.0]))  # Student's t interval exceeds 1
    assert few.iqm.mean == 0.875 and few.iqm.high == 1 and few.iqm.low < 0.6
    with pytest.raises(ValueError, match="expected returns"):
        br_prox(scores, np.ones(3))


BOUNDS = {
    "sp": (0.089061, 0.0745, 0.1044),
    "e3t": (0.505135, 0.4951, 0.5151),
    "fcp-S2-s36": (0.590230, 0.5759, 0.6050),
    "mep-S2-s36": (0.615792, 0.5951, 0.6353),
    "traj-S2-s36": (0.483582, 0.4603, 0.5069),
    "hsp-S2-s36": (0.554386, 0.5350, 0.5746),
    "cole-S2-s75": (0.474645, 0.4538, 0.4961),
}


@pytest.mark.parametrize("method", BOUNDS)
def test_published_returns(method):
    if not VECTORS.exists():
        pytest.skip(f"needs the authors' recorded returns, not part of the repository: {VECTORS}")
    data = json.loads(VECTORS.read_text())["br_prox"][f"random3/{method}"]
    entries = np.array(data["ratios"])
    found = br_prox(entries[..., None], np.ones(entries.shape[1]))
    assert found.iqm.mean == pytest.approx(BOUNDS[method][0], abs=1e-6)
    assert found.iqm.bounds == pytest.approx(BOUNDS[method][1:], abs=1e-3)
    assert found.quartiles == pytest.approx(data["iqr"], abs=1e-6)
    assert found.mean == pytest.approx(data["mean"], abs=1e-6)
