"""Calibrated temperature between two policies."""

import numpy as np
import pytest
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.evaluation.measure import calibration
from hanabi_rl.evaluation.measure.calibration import TEMPERATURES, calibrate_temperature
from hanabi_rl.evaluation.measure.prediction import kl_at_temperatures, kl_on_games
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games


@pytest.mark.parametrize("sharpness", [pytest.param(2.0, marks=pytest.mark.slow), 1.25])
def test_calibration_undoes_sharpening(sharpness: float) -> None:
    policy = network_policy(TINY, 3)
    found = calibrate_temperature(policy, policy.at_temperature(1 / sharpness), num_games=16)
    assert found == pytest.approx(sharpness)


def test_calibration_minimises_kl() -> None:
    reference, policy = network_policy(TINY, 3), network_policy(TINY, 4)
    decks = evaluation_decks(TINY, 16, 7, "selection")
    played = play_games((policy, policy), TINY, decks, 7, sample=True)
    temperatures = TEMPERATURES[[0, 10, 30, 44]]
    each = [
        kl_on_games(reference, policy.at_temperature(t), played.decks, played.actions)
        for t in temperatures
    ]
    expected = [one.kl.sum() / one.decisions.sum() for one in each]
    got = kl_at_temperatures(reference, policy, played.decks, played.actions, temperatures)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    found = calibrate_temperature(reference, policy, num_games=16, seed=7)
    at = kl_at_temperatures(reference, policy, played.decks, played.actions, TEMPERATURES)
    assert found == TEMPERATURES[at.argmin()] and np.ptp(at) > 1e-4


def test_calibration_samples_selection_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on greedy games, report decks or games of the reference."""
    reference, policy = network_policy(TINY, 3), network_policy(TINY, 4)
    read = []

    def kl(*seen):
        read.append(seen)
        return np.abs(TEMPERATURES - 1.5)

    monkeypatch.setattr(calibration, "kl_at_temperatures", kl)
    assert calibrate_temperature(reference, policy, num_games=16, seed=7) == pytest.approx(1.5)
    (seen,) = read
    assert seen[0] is reference and seen[1] is policy
    decks = evaluation_decks(TINY, 16, 7, "selection")
    np.testing.assert_array_equal(seen[2], decks)
    for player, sample in ((policy, True), (policy, False), (reference, True)):
        played = play_games((player, player), TINY, decks, 7, sample=sample).actions
        assert np.array_equal(seen[3], played) == (player is policy and sample)
