"""Prediction of recorded actions by hand, and constants on the human games."""

from __future__ import annotations

import numpy as np
import pytest
from support.games import shared_data

from hanabi_rl.evaluation.measure.ratio import ratios_dict
from hanabi_rl.evaluation.overcooked.prediction import action_frequencies, measure_prediction
from hanabi_rl.games.overcooked import Scene, load_kitchen, pack_scenes
from hanabi_rl.games.overcooked.recorded_games import load_recorded_games
from hanabi_rl.games.overcooked.traces import Traces

ROOM = load_kitchen("cramped_room")


def traces_of(actions, lengths):
    starts = pack_scenes(ROOM, [Scene(ROOM.start())] * len(lengths))
    return Traces(ROOM, starts, np.array(actions, np.uint8), np.array(lengths, np.int32))


TRACES = traces_of(
    [[[0, 4], [4, 5], [4, 4]], [[1, 1], [3, 4], [4, 4]]],  # [N, T, P]; 3 is after the end
    [3, 1],
)


def test_sums_by_hand():
    """Game 0: six decisions, of which two are moves; game 1: two decisions, both moves."""
    probs = np.full((3, 2, 2, 6), 0.1)
    probs[..., 4] = 0.5  # stay is most probable
    probs[0, 0, 0] = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]  # the first action of game 0 is foreseen
    probs[0, 1, 1] = [0.1, 0.2, 0.1, 0.1, 0.1, 0.4]
    found = measure_prediction(TRACES, np.log(probs) + 7.0)  # logits are not normalized
    nll = [-5 * np.log(0.5) - np.log(0.1), -np.log(0.1) - np.log(0.2)]
    for name, sums, counts in [
        ("cross_entropy", nll, [6, 2]),
        ("accuracy", [5, 0], [6, 2]),
        ("accuracy_of_moves", [1, 0], [2, 2]),
    ]:
        np.testing.assert_allclose(found[name].numerator, sums)
        assert found[name].denominator.tolist() == counts
        assert found[name].is_proportion == name.startswith("accuracy")
    record = ratios_dict(found)
    assert record["accuracy"] == 5 / 8 and len(record["accuracy_of_moves_ci95"]) == 2
    assert found["accuracy"].group_by(np.array([3, 3])).numerator.tolist() == [5]


def test_steps_after_the_end_are_not_read():
    logits = np.zeros((3, 2, 2, 6))
    logits[1:, 1] = np.nan
    assert measure_prediction(TRACES, logits)["cross_entropy"].mean == pytest.approx(np.log(6))
    logits[0, 1, 0, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        measure_prediction(TRACES, logits)
    with pytest.raises(ValueError, match=r"logits \[3, 2, 2, 6\], got \[2, 3, 2, 6\]"):
        measure_prediction(TRACES, np.zeros((2, 3, 2, 6)))


def test_a_ruled_out_action_has_infinite_nats():
    logits = np.zeros((3, 2, 2, 6))
    logits[0, 0, 0, 0] = -np.inf
    assert measure_prediction(TRACES, logits)["cross_entropy"].numerator[0] == np.inf


def test_frequencies():
    np.testing.assert_allclose(action_frequencies(TRACES), np.array([1, 2, 0, 0, 4, 1]) / 8)


@pytest.mark.parametrize(
    ("name", "constant", "stays"),
    [
        ("cramped_room", 1.06, 0.71),
        ("asymmetric_advantages", 1.46, 0.52),
        ("coordination_ring", 1.51, 0.49),
        ("forced_coordination", 1.30, 0.60),
        ("counter_circuit", 1.48, 0.50),
    ],
)
def test_constants_on_human_games(name, constant, stays):
    recorded = load_recorded_games(shared_data("overcooked_human_2019.safetensors"), validate=False)
    of_kitchen = recorded.select(recorded.layout == recorded.kitchens.index(name))
    train, test = (of_kitchen.select(of_kitchen.is_test == part).traces() for part in (False, True))
    found = measure_prediction(test, np.log(action_frequencies(train)))
    assert found["cross_entropy"].mean == pytest.approx(constant, abs=0.0051)
    assert found["accuracy"].mean == pytest.approx(stays, abs=0.0051)
    assert found["accuracy_of_moves"].mean == 0
