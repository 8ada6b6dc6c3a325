"""The regressions of Siu et al.: Table 5 against Table 3, and predictions from it."""

import numpy as np
import pytest
from scipy import stats

from hanabi_rl.evaluation.measure.rating_prediction import POOLS, predict_rating, study_values
from hanabi_rl.evaluation.papers.siu2025 import RATINGS, RATINGS_WITHOUT_RANDOM, TABLE_3, TABLE_5

LINES = [
    (metric, pool, line)
    for metric, lines in TABLE_5.items()
    for pool, line in zip(POOLS, lines, strict=True)
    if line is not None and line.slope is not None
]


def slope_p_value(r, n):
    """Two-sided p of a slope by the t test, for n points with correlation r."""
    return 2 * stats.t.sf(abs(r) * np.sqrt((n - 2) / (1 - r**2)), n - 2)


@pytest.mark.parametrize(
    ("metric", "pool", "printed"),
    [
        ("action_entropy", "everyone", 0.0592),
        ("context_independence", "everyone", 0.5397),
        ("inter", "without_random", 0.3431),
        ("g2", "without_random", 0.2419),
    ],
)
def test_p_values_follow_from_r(metric, pool, printed):
    """The four p values of Table 5 that are clearly above 0, within its rounding of r."""
    line = getattr(TABLE_5[metric], pool)
    count = RATINGS if pool == "everyone" else RATINGS_WITHOUT_RANDOM
    assert slope_p_value(line.r, count) == pytest.approx(printed, abs=5e-4)
    low, high = (slope_p_value(abs(line.r) + step, count) for step in (5e-4, -5e-4))
    assert low - 5e-4 <= line.p <= high + 5e-4


@pytest.mark.parametrize(("metric", "pool", "line"), LINES)
def test_slopes_imply_same_rating_sd(metric, pool, line):
    """slope SD(x) / r is the SD of the ratings: 7 to 9.5 for every slope (less for intra-XP, which
    excludes bots), far off for the misprints."""
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


def test_prediction_is_line_through_mean():
    """By hand: SmartBot's self-play 23.288, all ratings, slope 0.46, r 0.447, n 482."""
    mean = np.mean([row.selfplay.mean for row in TABLE_3.values()])
    found = predict_rating("selfplay", 23.288, "everyone")
    expected = 0.46 * (23.288 - mean)
    assert found.change.mean == pytest.approx(expected)
    assert not found.clipped
    assert (found.lowest, found.highest, found.inside) == (1.180, 24.168, True)
    assert found.significant and found.r == 0.447


def test_intervals_match_least_squares():
    """Simulated ratings with the line's slope and r, at the metric values of the study's agents:
    textbook intervals of the line and of one more rating."""
    known = study_values("g3", "everyone")
    line, n = TABLE_5["g3"].everyone, 480  # 60 people per agent; the paper has two more ratings
    x = np.repeat(known, 60)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=n)
    design = np.column_stack([np.ones(n), x])
    noise -= design @ np.linalg.lstsq(design, noise, rcond=None)[0]
    noise *= line.slope * x.std() * np.sqrt(1 / line.r**2 - 1) / noise.std()
    y = 20 + line.slope * (x - x.mean()) + noise
    theirs = stats.linregress(x, y)
    assert (theirs.slope, theirs.rvalue) == pytest.approx((line.slope, line.r))
    at = 0.12
    residual = np.sqrt(((y - theirs.intercept - theirs.slope * x) ** 2).sum() / (n - 2))
    leverage = 1 / n + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    mean, t = theirs.slope * (at - x.mean()), stats.t.ppf(0.975, n - 2)
    found = predict_rating("g3", at, "everyone")
    for interval, variance in ((found.change, leverage), (found.person, 1 + leverage)):
        reach = t * residual * np.sqrt(variance)
        assert interval.bounds == pytest.approx([mean - reach, mean + reach], rel=0.02)
        assert interval.mean == pytest.approx(mean)
    low, high = found.person.bounds
    assert high - low > 24  # two thirds of the scale: r is 0.42


def test_prediction_is_clipped_to_scale():
    """666.77 per unit of G2: 0.13 would be 82 points above the mean, on a scale of 36."""
    found = predict_rating("g2", 0.1308, "everyone")
    known = study_values("g2", "everyone").mean()
    assert 666.77 * (0.1308 - known) == pytest.approx(82, abs=1)
    assert found.clipped and not found.inside
    assert found.change.mean == 36 and max(found.change.bounds + found.person.bounds) == 36
    down = predict_rating("g1", 0.08, "without_random")
    assert down.clipped and down.change.mean == -36 and min(down.person.bounds) == -36
    for metric, pool, _ in LINES:
        for value in (0.0, 0.2, 1.0, 25.0):
            if (some := predict_rating(metric, value, pool)) is None:
                continue
            figures = [some.change.mean, *some.change.bounds, *some.person.bounds]
            assert np.abs(figures).max() <= 36
            assert some.person.low <= some.change.low <= some.change.high <= some.person.high
    # 28 points: on the scale, its interval is clipped
    near = predict_rating("g2", 0.05, "everyone")
    assert not near.clipped and near.person.high == 36 > near.change.mean


def test_extrapolation_is_flagged():
    assert not predict_rating("g1", 0.05, "everyone").inside
    assert predict_rating("g1", 0.04, "everyone").inside
    assert not predict_rating("g1", 0.04, "without_random").inside


def test_unpublished_lines_predict_none():
    assert predict_rating("coordination", 0.4, "everyone") is None
    assert predict_rating("intra", 22.0, "everyone") is None
    assert predict_rating("intra", 22.0, "without_random") is None
