"""Decks of all purposes: complete, repeatable, disjoint, unchanged."""

import numpy as np
import pytest
from support.games import TINY

from hanabi_rl.data.formats.hanab_live_decks import deck_from_seed
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks, seed_decks


def test_evaluation_decks_differ_by_purpose():
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
        for purpose in ("report", "selection", "kl", "demos", "situations", "held-out")
    ]
    assert len(np.unique(np.concatenate(everything), axis=0)) == 12_000


@pytest.mark.parametrize(
    ("purpose", "stream"),
    [("selection", 1), ("report", 2), ("kl", 3), ("demos", 4), ("situations", 6), ("held-out", 7)],
)
def test_evaluation_decks_are_unchanged(purpose, stream):
    one_color = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3, 4])
    ordered = np.concatenate([color * 5 + one_color for color in range(5)])
    rng = np.random.default_rng([stream, 7])
    expected = rng.permuted(np.tile(ordered, (3, 1)), axis=1)
    np.testing.assert_array_equal(evaluation_decks(Rules(), 3, 7, purpose), expected)


def test_seed_decks_match_hanab_live():
    decks = seed_decks(Rules(num_players=3), ("p3v0s950", "p3v0s1..2"))
    expected = [deck_from_seed(f"p3v0s{number}") for number in (950, 1, 2)]
    np.testing.assert_array_equal(decks, expected)
    assert not decks.flags.writeable


@pytest.mark.parametrize(
    ("rules", "names", "problem"),
    [
        (Rules(), ("p3v0s1",), "deals of 2 players, .* got 'p3v0s1', of 3 players .--players"),
        (TINY, ("p2v0s1..9",), "expected deals of 2 colours.* of 5 colours"),
        (Rules(num_players=3), ("p3v0s42770", "p3v0s52993"), "p3v0s42770 and p3v0s52993, which"),
        (Rules(), ("p2v0s9..1",), "expected a range from low to high"),
    ],
)
def test_seed_decks_match_rules_and_differ(rules, names, problem):
    with pytest.raises(ValueError, match=f"^--seed-names: .*{problem}"):
        seed_decks(rules, names)


def test_invalid_deck_requests_are_rejected():
    with pytest.raises(ValueError, match="purpose"):
        evaluation_decks(TINY, 2, 0, "training")
    with pytest.raises(ValueError, match="at least one game, got num_games=0"):
        evaluation_decks(TINY, 0, 0)
