"""Decks of every purpose: whole, repeatable, apart, and the same ones as ever."""

import numpy as np
import pytest
from support.games import TINY

from hanabi_rl.env.game import Rules
from hanabi_rl.play.decks import evaluation_decks


def test_evaluation_decks_are_whole_decks_apart_for_each_purpose():
    for rules in (Rules(), TINY):
        report = evaluation_decks(rules, 40, 0, "report")
        copies = np.bincount(report[0], minlength=rules.num_cards).reshape(
            rules.num_colors, rules.num_ranks
        )
        np.testing.assert_array_equal(
            copies, np.tile(rules.num_cards_of_rank, (rules.num_colors, 1))
        )
        np.testing.assert_array_equal(np.sort(report, axis=1), np.tile(np.sort(report[0]), (40, 1)))
        np.testing.assert_array_equal(report[:7], evaluation_decks(rules, 7, 0))
    everything = [
        evaluation_decks(Rules(), 1000, seed, purpose)
        for seed in (0, 1)
        for purpose in ("report", "selection", "kl", "demos", "situations")
    ]
    assert len(np.unique(np.concatenate(everything), axis=0)) == 10_000


@pytest.mark.parametrize(
    ("purpose", "stream"),
    [("selection", 1), ("report", 2), ("kl", 3), ("demos", 4), ("situations", 6)],
)
def test_decks_are_those_of_every_earlier_result(purpose, stream):
    one_color = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 4])
    ordered = np.concatenate([color * 5 + one_color for color in range(5)])
    rng = np.random.default_rng([stream, 7])
    expected = rng.permuted(np.tile(ordered, (3, 1)), axis=1)
    np.testing.assert_array_equal(evaluation_decks(Rules(), 3, 7, purpose), expected)


def test_errors_say_what_was_expected():
    with pytest.raises(ValueError, match="purpose"):
        evaluation_decks(TINY, 2, 0, "training")
    with pytest.raises(ValueError, match="at least one game, got num_games=0"):
        evaluation_decks(TINY, 0, 0)
