"""Final table and fields of summary.json, from games on a small game."""

import json

import numpy as np
import pytest
from support.games import LENIENT
from support.policies import recurrent_policy

from hanabi_rl.evaluation.measure.clone_comparison import PredictionComparison, compare_with_clone
from hanabi_rl.evaluation.measure.prediction import Prediction
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.training_report import (
    clone_comparison_dict,
    prediction_dict,
    prediction_table,
    report_table,
    score_table,
)
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.storage.files import to_json


@pytest.fixture(scope="module")
def report():
    return compare_with_clone(
        recurrent_policy(LENIENT, 1), recurrent_policy(LENIENT, 2), num_games=1000, seed=4
    )


def test_all_evaluations_use_the_same_new_decks(report):
    decks = evaluation_decks(LENIENT, 1000, 4, "report")
    for records in (report.bc.records, report.policy.records, *report.crossplay.records):
        np.testing.assert_array_equal(records.decks, decks)
    assert len(report.crossplay.records) == 2
    assert len(report.kl.kl) == 1000


def test_policies_have_the_right_roles(report):
    assert (
        report.bc.summary == evaluate_selfplay(recurrent_policy(LENIENT, 1), 1000, seed=4).summary
    )
    assert (
        report.policy.summary
        == evaluate_selfplay(recurrent_policy(LENIENT, 2), 1000, seed=4).summary
    )
    assert report.bc.summary != report.policy.summary


def test_summary_has_documented_keys(report):
    figures = json.loads(json.dumps(to_json(clone_comparison_dict(report)), allow_nan=False))
    promised = (
        "bc_selfplay_mean bc_selfplay_ci95 selfplay_mean selfplay_ci95 crossplay_with_bc_mean "
        "crossplay_with_bc_ci95"
    )
    assert set(promised.split()) | {"kl_to_bc", "num_players", "eval_games"} <= set(figures)
    assert figures["eval_games"] == 1000 and figures["num_players"] == 2
    assert figures["bc_selfplay_mean"] == pytest.approx(report.bc.records.scores.mean())
    assert figures["selfplay_mean"] == pytest.approx(report.policy.records.scores.mean())
    both = np.stack([records.scores for records in report.crossplay.records])
    assert figures["crossplay_with_bc_mean"] == pytest.approx(both.mean())
    for name in ("bc_selfplay", "selfplay", "crossplay_with_bc"):
        low, high = figures[f"{name}_ci95"]
        assert low < figures[f"{name}_mean"] < high
    assert figures["kl_to_bc"] == pytest.approx(report.kl.kl.sum() / report.kl.decisions.sum())
    assert figures["kl_to_bc_per_timestep"] == pytest.approx(figures["kl_to_bc"] / 2)


def test_table_has_one_line_per_result(report):
    lines = report_table(report).splitlines()
    summaries = [report.bc.summary, report.policy.summary, report.crossplay.summary]
    for line, name, summary in zip(
        lines[1:4],
        ("BC self-play", "HDR-IPPO self-play", "HDR-IPPO with BC"),
        summaries,
        strict=True,
    ):
        assert line.startswith(name)
        for shown in (
            f"{summary.mean.mean:.2f}",
            f"{summary.zero_rate:.1%}",
            f"{summary.perfect_rate:.1%}",
        ):
            assert shown in line
    assert lines[4].startswith("KL(BC || HDR-IPPO)")
    widths = {
        len(line) for line in score_table([("a", summaries[0]), ("b", summaries[1])]).splitlines()
    }
    assert len(widths) == 1


def test_validation_table_has_form_of_table_3() -> None:
    """By hand: 3 games on 2 decks, with 10 decisions and 20 seat-timesteps per deck."""
    decisions, timesteps = np.array([10, 10]), np.array([20, 20])
    tops = np.zeros((2, 2))
    clone = Prediction(np.array([6.0, 4.0]), np.array([12.0, 8.0]), decisions, timesteps, *tops)
    policy = Prediction(np.array([3.0, 5.0]), np.array([14.0, 18.0]), decisions, timesteps, *tops)
    found = PredictionComparison(policy, clone, games=3)
    title, *lines = prediction_table(found, "HDR-IPPO").splitlines()
    assert title.split() == [
        "3",
        "validation",
        "games",
        "accuracy",
        "nats",
        "per",
        "timestep",
        "per",
        "decision",
    ]
    first = [(line[:24].strip(), *line[24:].replace("[", "").split()) for line in lines]
    shown = [(name, values[0], values[3], values[-1]) for name, *values in first]
    assert shown == [
        ("BC", "0.500", "0.500", "1.000"),
        ("HDR-IPPO", "0.400", "0.800", "1.600"),
        ("difference to BC", "-0.100", "+0.300", "+0.600"),
    ]
    figures = prediction_dict(found)
    assert figures["val_games"] == 3 and figures["val_loss"] == pytest.approx(1.6)
    assert figures["bc_val_loss"] == pytest.approx(1.0)
    assert figures["val_accuracy_difference"] == pytest.approx(-0.1)
    # two decks: Student's t with one degree of freedom, 12.706, times half of the difference;
    # accuracies differ by at most 1, cross-entropies are unbounded
    reach = 12.7062047 * 0.2
    assert -0.1 - reach < -1 and figures["val_accuracy_difference_ci95"] == [-1, 1]
    assert figures["val_loss_per_timestep_difference_ci95"][0] < -1
    # 2 and 10 nats more, in 10 decisions each
    assert figures["val_loss_difference"] == pytest.approx(0.6)
    assert json.loads(json.dumps(to_json(figures), allow_nan=False))


def test_too_few_games_are_rejected():
    policy = recurrent_policy(LENIENT, 1)
    with pytest.raises(ValueError, match="at least 1000 games for a reported score, got 999"):
        compare_with_clone(policy, policy, num_games=999)
