"""The regressions of Siu et al.: Table 5 against Table 3, what it predicts, and the fits."""

import numpy as np
import pytest
from scipy import stats

from hanabi_rl.measure.teamwork import (
    POOLS,
    fit_line,
    fit_parabola,
    predict_rating,
    slope_p_value,
    study_values,
)
from hanabi_rl.papers.siu2025 import RATINGS, RATINGS_WITHOUT_RANDOM, TABLE_3, TABLE_5

LINES = [
    (metric, pool, line)
    for metric, lines in TABLE_5.items()
    for pool, line in zip(POOLS, lines, strict=True)
    if line is not None and line.slope is not None
]


@pytest.mark.parametrize(
    ("metric", "pool", "printed"),
    [
        ("action_entropy", "everyone", 0.0592),
        ("context_independence", "everyone", 0.5397),
        ("inter", "without_random", 0.3431),
        ("g2", "without_random", 0.2419),
    ],
)
def test_the_p_values_follow_from_r_and_the_number_of_ratings(metric, pool, printed):
    """The four of Table 5 that are not about zero, to its rounding of r."""
    line = getattr(TABLE_5[metric], pool)
    count = RATINGS if pool == "everyone" else RATINGS_WITHOUT_RANDOM
    assert slope_p_value(line.r, count) == pytest.approx(printed, abs=5e-4)
    low, high = (slope_p_value(abs(line.r) + step, count) for step in (5e-4, -5e-4))
    assert low - 5e-4 <= line.p <= high + 5e-4


@pytest.mark.parametrize(("metric", "pool", "line"), LINES)
def test_slopes_make_ratings_of_one_spread(metric, pool, line):
    """slope SD(x) / r is the deviation of the ratings: 7 to 9.5 for every slope (less for intra-XP,
    which leaves out the bots), far off for what is printed where that is corrected."""
    spread = study_values(metric, pool).std() / line.r
    assert (6.0 if metric == "intra" else 7.0) < line.slope * spread < 9.5
    if line.printed is not None:
        assert not 0.95 < line.printed * spread < 70


def test_three_slopes_are_corrected():
    corrected = [(metric, pool) for metric, pool, line in LINES if line.printed is not None]
    assert corrected == [
        ("action_entropy", "without_random"),
        ("response_entropy", "everyone"),
        ("g1", "everyone"),
    ]


def test_a_prediction_is_the_line_through_the_mean():
    """By hand: SmartBot's self-play 23.288, all ratings, slope 0.46, r 0.447, n 482."""
    mean = np.mean([row.selfplay.mean for row in TABLE_3.values()])
    found = predict_rating("selfplay", 23.288, "everyone")
    expected = 0.46 * (23.288 - mean)
    assert found.change.mean == pytest.approx(expected)
    t = 0.447 * np.sqrt(480 / (1 - 0.447**2))
    reach = stats.t.ppf(0.975, 480) * expected / t
    assert found.change.bounds == pytest.approx([expected - reach, expected + reach])
    assert (found.lowest, found.highest, found.inside) == (1.180, 24.168, True)
    assert found.significant and found.r == 0.447


def test_a_value_outside_the_data_is_told():
    assert not predict_rating("g1", 0.05, "everyone").inside
    assert predict_rating("g1", 0.04, "everyone").inside
    assert not predict_rating("g1", 0.04, "without_random").inside


def test_what_the_paper_does_not_print_is_not_predicted():
    assert predict_rating("coordination", 0.4, "everyone") is None
    assert predict_rating("intra", 22.0, "everyone") is None
    assert predict_rating("intra", 22.0, "without_random") is None


def test_the_line_equals_scipys():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = 2 - 0.4 * x + rng.normal(size=50)
    theirs, ours = stats.linregress(x, y), fit_line(x, y)
    assert ours[1:] == pytest.approx(
        (theirs.rvalue, theirs.slope, theirs.intercept, theirs.pvalue), rel=1e-9
    )
    assert ours.n == 50


def test_the_parabola_is_found_again():
    x = np.linspace(0, 0.5, 40)
    found = fit_parabola(x, -80 * (x - 0.31) ** 2 + 22)
    assert found == pytest.approx((-80, -0.31, 22, 1.0))
    noisy = -80 * (x - 0.31) ** 2 + 22 + np.random.default_rng(1).normal(size=40)
    assert 0.5 < fit_parabola(x, noisy).r < 1
    assert fit_parabola(x, 80 * x**2) is None


@pytest.mark.parametrize("fit", [fit_line, fit_parabola])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1, 2], [1, 2], "n >="), ([1, 2, 3, 4], [1, 2], "got"), ([1] * 4, [1, 2, 3, 4], "vary")],
)
def test_too_little_to_fit(fit, x, y, message):
    with pytest.raises(ValueError, match=message):
        fit(x, y)
