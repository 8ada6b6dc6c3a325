"""Intervals against closed forms and a plain resampling loop."""

import numpy as np
import pytest

from hanabi_rl.measure.intervals import bootstrap_ratio, mean_interval


@pytest.mark.parametrize(
    ("count", "quantile"), [(2, 12.7062), (3, 4.30265), (11, 2.22814), (1001, 1.96234)]
)
def test_mean_interval_uses_the_tabulated_t_quantile(count, quantile):
    values = np.random.default_rng(count).normal(20, 3, count)
    mean = sum(values) / count
    std_error = np.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count)
    interval = mean_interval(values)
    np.testing.assert_allclose(
        [interval.mean, interval.std_error, *interval.bounds],
        [mean, std_error, mean - quantile * std_error, mean + quantile * std_error],
        rtol=1e-5,
    )


def test_mean_interval_covers_the_true_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(5, 2, 20), level=0.9) for _ in range(2000)]
    covered = np.mean([i.low <= 5 <= i.high for i in intervals])
    assert covered == pytest.approx(0.9, abs=0.03)


def test_one_value_has_an_infinite_interval():
    assert mean_interval(np.array([3.0])).bounds == [-np.inf, np.inf]


def test_bootstrap_of_a_mean_approaches_the_normal_interval():
    values = np.random.default_rng(2).normal(10, 4, 2000)
    np.testing.assert_allclose(
        bootstrap_ratio(values, np.ones(2000)).bounds, mean_interval(values).bounds, atol=0.03
    )


def test_bootstrap_ratio_equals_a_resampling_loop_over_whole_games():
    rng = np.random.default_rng(3)
    decisions = rng.integers(1, 60, 40)
    # a game's decisions share a level: they are not independent
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval(np.array([])), "at least one game"),
        (lambda: mean_interval(np.ones(3), level=95), "between 0 and 1"),
        (lambda: bootstrap_ratio(np.ones(3), np.ones(2)), "one denominator a game"),
        (lambda: bootstrap_ratio(np.ones(3), np.zeros(3)), "no decision"),
    ],
)
def test_errors_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
