"""Grouped cross-play matrix, against numbers by hand."""

import numpy as np
import pytest

from hanabi_rl.evaluation.measure.groups import group_matrix

MEANS = np.array(
    [
        [20.0, 10.0, 13.0, 1.0],
        [12.0, 22.0, 14.0, 2.0],
        [15.0, 16.0, 24.0, 3.0],
        [5.0, 6.0, 7.0, 8.0],
    ]
)


@pytest.fixture
def grouped():
    return group_matrix(MEANS, ("a0", "a1", "a2", "b0"), ("a", "a", "a", "b"))


def test_self_play_averages_agents_cross_play_pairs(grouped):
    first, second = grouped.groups
    assert first.agents == ("a0", "a1", "a2") and second.agents == ("b0",)
    # t quantile for 2 degrees of freedom: 4.302653; values 20, 22, 24: SD 2
    assert first.selfplay.mean == pytest.approx(22)
    assert first.selfplay.high - 22 == pytest.approx(4.302653 * 2 / np.sqrt(3))
    # pairs (10 + 12) / 2, (13 + 15) / 2, (14 + 16) / 2 = 11, 14, 15; without a0: 15, a1: 14, a2: 11
    assert first.intra.mean == pytest.approx(40 / 3)
    assert first.intra.std_error == pytest.approx(
        np.sqrt(2 / 3 * ((5 / 3) ** 2 + (2 / 3) ** 2 + (7 / 3) ** 2))
    )
    # with b0: (1 + 5) / 2, (2 + 6) / 2, (3 + 7) / 2 = 3, 4, 5: three independent values
    for group in (first, second):
        assert group.inter.mean == pytest.approx(4)
        assert group.inter.high - 4 == pytest.approx(4.302653 / np.sqrt(3))


def test_interval_resamples_agents():
    """Scores are sums of the agents' skills: mean and standard error over pairs are twice the
    skills'."""
    skill = np.random.default_rng(0).normal(size=6)
    means = skill[:, None] + skill
    within = group_matrix(means, tuple("abcdef"), ("one",) * 6).groups[0].intra
    assert within.mean == pytest.approx(2 * skill.mean())
    assert within.std_error == pytest.approx(2 * skill.std(ddof=1) / np.sqrt(6))
    between = group_matrix(means, tuple("abcdef"), ("one",) * 2 + ("two",) * 4).groups[0].inter
    assert between.mean == pytest.approx(skill[:2].mean() + skill[2:].mean())
    assert between.std_error == pytest.approx(
        np.sqrt(skill[:2].var(ddof=1) / 2 + skill[2:].var(ddof=1) / 4)
    )
    pair = group_matrix(means[:2, :2], ("a", "b"), ("one",) * 2).groups[0].intra
    assert pair.mean == pytest.approx(skill[:2].sum()) and np.isinf(pair.high)


def test_single_agent_group_has_no_pair(grouped):
    second = grouped.groups[1]
    assert second.selfplay.mean == 8 and second.intra is None
    alone = group_matrix(MEANS, ("w", "x", "y", "z"), ("a",) * 4)
    assert alone.groups[0].inter is None


def test_group_matrix_rows_are_single_agents(grouped):
    np.testing.assert_allclose(grouped.means[0], [(10 + 13 + 12 + 14 + 15 + 16) / 6, 2])
    assert grouped.means[1, 0] == 6 and np.isnan(grouped.means[1, 1])
    record = grouped.as_dict()
    assert record["groups"][1]["intra_mean"] is None and record["groups"][0][
        "inter_mean"
    ] == pytest.approx(4)
