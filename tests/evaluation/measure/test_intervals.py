"""Intervals against closed forms and a plain resampling loop."""

import numpy as np
import pytest
from scipy import stats

from hanabi_rl.evaluation.measure.intervals import (
    MIN_BOOTSTRAP_GAMES,
    Interval,
    bootstrap_correlation,
    bootstrap_decks,
    bootstrap_median,
    bootstrap_ratio,
    bootstrap_ratios,
    bounds_text,
    clopper_pearson_interval,
    explained,
    mean_interval,
)


@pytest.mark.parametrize(
    ("count", "quantile"), [(2, 12.7062), (3, 4.30265), (11, 2.22814), (1001, 1.96234)]
)
def test_mean_interval_uses_tabulated_t_quantile(count, quantile):
    values = np.random.default_rng(count).normal(20, 3, count)
    mean = sum(values) / count
    std_error = np.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count)
    interval = mean_interval(values)
    np.testing.assert_allclose(
        [interval.mean, interval.std_error, *interval.bounds],
        [mean, std_error, mean - quantile * std_error, mean + quantile * std_error],
        rtol=1e-5,
    )


def test_mean_interval_has_nominal_coverage():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(5, 2, 20), level=0.9) for _ in range(2000)]
    covered = np.mean([i.low <= 5 <= i.high for i in intervals])
    assert covered == pytest.approx(0.9, abs=0.03)


def test_one_value_has_infinite_interval():
    assert mean_interval(np.array([3.0])).bounds == [-np.inf, np.inf]


@pytest.mark.parametrize(
    ("values", "min_value", "max_value", "bounds"),
    [
        ([21.0, 22, 24], 0, 25, [18.5387, 25.0]),  # the t interval ends at 26.13
        ([1.0, 25.0], 0, 25, [0.0, 25.0]),
        ([0.01, 0.02], 0, np.inf, [0.0, 0.0785]),  # nats
        ([-3.0, 25.0], -25, 25, [-25.0, 25.0]),  # a difference
        ([20.0, 20.0, 20.0], 0, 25, [20.0, 20.0]),
    ],
)
def test_interval_is_clipped_to_range(values, min_value, max_value, bounds):
    interval = mean_interval(np.array(values), min_value=min_value, max_value=max_value)
    assert interval.bounds == pytest.approx(bounds, abs=1e-3)
    free = mean_interval(np.array(values))
    assert (interval.mean, interval.std_error) == (free.mean, free.std_error)
    assert free.within(min_value, max_value) == interval


def test_wide_range_keeps_interval():
    values = np.random.default_rng(5).integers(18, 26, 2000).astype(float)
    assert mean_interval(values, min_value=0, max_value=25) == mean_interval(values)


def test_estimate_stays_inside_interval():
    """A corrected estimate can be below 0 where the true value cannot."""
    assert Interval(-0.01, -0.3, 0.2, 0.1).within(0.0) == Interval(-0.01, -0.01, 0.2, 0.1)
    alone = mean_interval(np.array([3.0]), min_value=0, max_value=25)
    assert alone.bounds == [-np.inf, np.inf]


def test_missing_bounds_are_explained_once():
    alone, known = mean_interval(np.array([21.0])), mean_interval(np.array([1.0, 2.0, 3.0]))
    assert f"{alone:.2f}" == "21.00 n/a" and f"{known:+.1f}" == "+2.0 [-0.5, +4.5]"
    assert bounds_text([None, None]) == bounds_text([np.nan, 1.0]) == "n/a"  # as in JSON
    assert bounds_text([0.5, 0.25], ".0%") == "[50%, 25%]"
    text = explained(f"{alone:.2f}\n{alone:.2f}")
    assert text.splitlines()[:2] == ["21.00 n/a"] * 2 and len(text.splitlines()) == 3
    assert "at least 2 independent games" in text and explained(f"{known}") == f"{known}"
    assert explained("agents/n/a/policy") == "agents/n/a/policy"


def test_bootstrap_of_mean_approaches_normal_interval():
    values = np.random.default_rng(2).normal(10, 4, 2000)
    np.testing.assert_allclose(
        bootstrap_ratio(values, np.ones(2000)).bounds, mean_interval(values).bounds, atol=0.03
    )


def test_bootstrap_ratio_matches_resampling_loop():
    rng = np.random.default_rng(3)
    decisions = rng.integers(1, 60, 40)
    # decisions of a game share a level: they are dependent
    losses = decisions * rng.gamma(2.0, 0.3, 40)
    interval = bootstrap_ratio(losses, decisions, num_resamples=4000)
    plain = []
    for _ in range(4000):
        games = rng.integers(0, 40, 40)
        plain.append(losses[games].sum() / decisions[games].sum())
    assert interval.mean == pytest.approx(losses.sum() / decisions.sum())
    np.testing.assert_allclose(interval.bounds, np.quantile(plain, [0.025, 0.975]), rtol=0.03)
    assert interval.std_error == pytest.approx(np.std(plain), rel=0.06)


def test_bootstrap_is_seeded_and_ignores_games_without_decisions():
    losses, decisions = np.array([0.0, 2.0, 3.0]), np.array([0, 4, 4])
    assert bootstrap_ratio(losses, decisions, seed=7) == bootstrap_ratio(losses, decisions, seed=7)
    assert bootstrap_ratio(losses, decisions).mean == pytest.approx(5 / 8)


def coverage(intervals, truth):
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


@pytest.mark.parametrize("games", [2, 3, 5, 10, MIN_BOOTSTRAP_GAMES - 1])
def test_few_games_have_nominal_coverage(games):
    """Accuracy over games of 5 to 34 decisions, with one level per game. Percentile bootstraps
    cover 51%, 72%, 80%, 90% and 92.5%."""
    rng = np.random.default_rng(games)
    intervals = []
    for _ in range(1500):
        decisions = rng.integers(5, 35, games)
        right = rng.binomial(decisions, rng.beta(6, 4, games))
        intervals.append(bootstrap_ratio(right, decisions))
    assert 0.92 < coverage(intervals, 0.6) < 0.97


def test_unit_denominators_give_mean_interval():
    values = np.random.default_rng(4).normal(10, 4, 7)
    ours, theirs = bootstrap_ratio(values, np.ones(7)), mean_interval(values)
    np.testing.assert_allclose(ours, theirs)


def test_one_game_has_no_bounds():
    """Also a single counted game among many."""
    alone = bootstrap_ratio(np.array([3.0]), np.array([4.0]))
    assert (alone.mean, alone.bounds) == (0.75, [-np.inf, np.inf])
    rare = np.zeros((2, 50))
    rare[:, 7] = 3, 4
    often = np.ones((2, 50))
    assert bootstrap_ratios([tuple(rare), tuple(often)])[0] == alone
    assert bootstrap_ratios([tuple(rare), tuple(often)])[1].bounds == [1, 1]
    assert bootstrap_decks(np.array([[2.0, 4.0]]), lambda means: means[:, 0]).low == -np.inf


def test_bootstrap_decks_of_mean():
    """Few decks give the interval of a mean."""
    values = np.random.default_rng(5).normal(3, 1, (6, 2))
    found = bootstrap_decks(values, lambda means: means.mean(axis=1))
    np.testing.assert_allclose(found, mean_interval(values.mean(axis=1)))


@pytest.mark.parametrize(
    ("count", "low", "high"), [(5, -np.inf, np.inf), (6, 0, 5), (9, 1, 7), (20, 5, 14)]
)
def test_small_sample_median_uses_order_statistics(count, low, high):
    """Values 0 to n - 1; ranks from tables of the sign test: none, 1, 2 and 6."""
    values = np.random.default_rng(0).permutation(count).astype(float)
    found = bootstrap_median(values)
    assert (found.mean, found.low, found.high) == ((count - 1) / 2, low, high)


@pytest.mark.parametrize("games", [4, 8, 20])
def test_small_correlations_have_nominal_coverage(games):
    rng = np.random.default_rng(games)
    first = rng.normal(size=(800, games))
    second = 0.8 * first + 0.6 * rng.normal(size=(800, games))
    found = [bootstrap_correlation(*pair) for pair in zip(first, second, strict=True)]
    assert 0.92 < coverage(found, 0.8) < 0.99
    assert all(-1 <= interval.low <= interval.mean <= interval.high <= 1 for interval in found)


def test_degenerate_correlation_has_no_bounds():
    for first, second in (([1, 2, 4], [2, 1, 3]), (range(9), range(9))):
        found = bootstrap_correlation(np.array(first, float), np.array(second, float))
        assert found.bounds == [-np.inf, np.inf]


def test_groups_are_resampled_together():
    """Forty games repeated three times count as 40 games."""
    first, second = np.random.default_rng(6).normal(size=(2, 40))
    groups = np.repeat(np.arange(40), 3)
    thrice = bootstrap_correlation(first[groups], second[groups], groups=groups)
    np.testing.assert_allclose(thrice, bootstrap_correlation(first, second))
    assert thrice.std_error > 1.5 * bootstrap_correlation(first[groups], second[groups]).std_error


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval(np.array([])), "at least one game"),
        (lambda: mean_interval(np.ones(3), level=95), "between 0 and 1"),
        (lambda: bootstrap_ratio(np.ones(3), np.ones(2)), "as many denominators as numerators"),
        (lambda: bootstrap_ratio(np.ones(3), np.zeros(3)), "a positive sum"),
    ],
)
def test_errors_state_expectation(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("successes", "count"), [(0, 7), (1, 6), (11, 20), (99, 100), (5, 5)])
def test_clopper_pearson_has_binomial_tails(successes, count):
    estimate, low, high, _ = clopper_pearson_interval(successes, count)
    assert estimate == successes / count
    if successes:
        assert stats.binom.sf(successes - 1, count, low) == pytest.approx(0.025)
    if successes < count:
        assert stats.binom.cdf(successes, count, high) == pytest.approx(0.025)
    assert (low == 0) == (successes == 0) and (high == 1) == (successes == count)
