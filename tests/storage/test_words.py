"""Counts as text."""

import pytest

from hanabi_rl.storage.words import count


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("game",), "0 games"),
        (1, ("game",), "1 game"),
        (2, ("deck",), "2 decks"),
        (12_345, ("seed",), "12,345 seeds"),
        (1, ("person", "people"), "1 person"),
        (3, ("life", "lives"), "3 lives"),
    ],
)
def test_count_of_one_is_singular(number, words, text):
    assert count(number, *words) == text
