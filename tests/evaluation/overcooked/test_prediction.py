"""Prediction of recorded actions by hand, and constants on the human games."""

from __future__ import annotations

import numpy as np
import pytest
from support.games import shared_data

from hanabi_rl.data.game_records import GameRecords, load_game_records
from hanabi_rl.evaluation.measure.ratio import ratios_dict
from hanabi_rl.evaluation.measure.record_prediction import (
    constant_logits,
    prediction_ratios,
    prediction_slices,
    prediction_sums,
)
from hanabi_rl.games.overcooked import Overcooked

ROOM = Overcooked()


def records_of(actions, lengths, **fields):
    """Games of different groups, by default."""
    groups = fields.pop("groups", range(len(lengths)))
    return GameRecords(
        rules=ROOM,
        replay_rules=ROOM,
        starts=ROOM.start(np.zeros((len(lengths), 2), np.uint32)),
        actions=np.array(actions, np.uint8),
        lengths=np.array(lengths, np.int32),
        groups=np.array(groups, np.int32),
        **fields,
    )


ACTIONS, LENGTHS = (
    [[[0, 4], [4, 5], [4, 4]], [[1, 1], [3, 4], [4, 4]]],  # [N, T, P]; 3 is after the end
    [3, 1],
)
RECORDS = records_of(ACTIONS, LENGTHS)


def ratios_of(logits, records=RECORDS):
    return prediction_ratios(np.swapaxes(logits, 0, 1), records)


def test_slices_by_hand():
    """Two steps per bin; stay has probability 0.5, every other action 0.1."""
    logits = np.log(np.full((2, 3, 2, 6), 0.1))
    logits[..., 4] = np.log(0.5)
    found = prediction_slices(logits, RECORDS, "abcdef", steps=2)
    steps, actions = found["by_step"], found["by_action"]
    assert {name: of["decisions"] for name, of in steps.items()} == {"1-2": 6, "3-4": 2}
    assert steps["1-2"]["accuracy"] == 2 / 6 and steps["3-4"]["accuracy"] == 1
    expected = -(4 * np.log(0.1) + 2 * np.log(0.5)) / 6
    assert steps["1-2"]["cross_entropy"] == pytest.approx(expected)
    # action 3 follows the end, 2 is not chosen
    assert {name: of["decisions"] for name, of in actions.items()} == {
        "a": 1,
        "b": 2,
        "e": 4,
        "f": 1,
    }
    assert actions["e"]["accuracy"] == 1 and actions["b"]["accuracy"] == 0
    assert actions["b"]["cross_entropy"] == pytest.approx(-np.log(0.1))


def test_sums_by_hand():
    """Game 0: six decisions, of which two are moves; game 1: two decisions, both moves."""
    probs = np.full((3, 2, 2, 6), 0.1)
    probs[..., 4] = 0.5  # stay is most probable
    probs[0, 0, 0] = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]  # the first action of game 0 is foreseen
    probs[0, 1, 1] = [0.1, 0.2, 0.1, 0.1, 0.1, 0.4]
    found = ratios_of(np.log(probs) + 7.0)  # logits are not normalized
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
    grouped = ratios_of(np.log(probs), records_of(ACTIONS, LENGTHS, groups=[3, 3]))
    assert grouped["accuracy"].numerator.tolist() == [5]
    people = records_of(ACTIONS, LENGTHS, human_seats=np.array([[True, False], [False, True]]))
    of_people = ratios_of(np.log(probs), people)
    # seat 0 of game 0: 0, 4, 4; seat 1 of game 1: 1
    assert of_people["accuracy"].numerator.tolist() == [3, 0]
    assert of_people["accuracy"].denominator.tolist() == [3, 1]
    assert of_people["accuracy_of_moves"].denominator.tolist() == [1, 1]


def test_steps_after_the_end_are_not_read():
    logits = np.zeros((3, 2, 2, 6))
    logits[1:, 1] = np.nan
    assert ratios_of(logits)["cross_entropy"].mean == pytest.approx(np.log(6))
    logits[0, 1, 0, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ratios_of(logits)


def test_a_ruled_out_action_has_infinite_nats():
    logits = np.zeros((3, 2, 2, 6))
    logits[0, 0, 0, 0] = -np.inf
    assert ratios_of(logits)["cross_entropy"].numerator[0] == np.inf


def test_the_best_constant_has_the_frequencies_of_the_actions():
    frequencies = np.array([1, 2, 0, 0, 4, 1]) / 8
    found = np.exp(constant_logits(RECORDS))
    np.testing.assert_allclose(found, frequencies, atol=1e-200)
    nats = ratios_of(np.zeros((3, 2, 2, 6)))["constant_cross_entropy"].mean
    assert nats == pytest.approx(
        -(frequencies[frequencies > 0] @ np.log(frequencies[frequencies > 0]))
    )


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
    file, rules = shared_data("overcooked_human_2019.safetensors"), Overcooked(kitchen=name)
    train, test = (load_game_records([f"{file}?part={part}"], rules) for part in ("train", "test"))
    logits = np.broadcast_to(constant_logits(train), (*test.actions.shape, 6))
    correct, nats, decisions, *_ = prediction_sums(logits, test)
    assert nats.sum() / decisions.sum() == pytest.approx(constant, abs=0.0051)
    assert correct.sum() / decisions.sum() == pytest.approx(stays, abs=0.0051)
    assert prediction_sums(logits, test, test.actions != 4)[0].sum() == 0
