"""Facts about cards as sets, against counts in plain Python."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.games.hanabi import bits, cards
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

GAMES = [
    Rules(2),
    Rules(2, num_colors=2, num_ranks=3, num_cards_of_rank=(1, 3, 4), hand_size=2),
    Rules(2, num_colors=3, num_ranks=4, num_cards_of_rank=(2, 1, 1, 2), hand_size=2),
    Rules(2, num_colors=4, num_ranks=1, num_cards_of_rank=(3,), hand_size=2),
]


class Position:
    """Random piles and discards, with facts by counting."""

    def __init__(self, rules: Rules, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rules, ranks = rules, rules.num_ranks
        self.piles = [int(rng.integers(ranks + 1)) for _ in range(rules.num_colors)]
        self.played = [c * ranks + r for c, top in enumerate(self.piles) for r in range(top)]
        deck = full_deck(rules)
        for card in self.played:
            deck.remove(card)
        self.lost = [card for card in deck if rng.random() < 0.6]
        self.copies = [full_deck(rules).count(card) for card in range(rules.num_cards)]

    def left(self, card: int) -> int:
        return self.copies[card] - self.lost.count(card)

    def fits(self, card: int) -> bool:
        return self.piles[card // self.rules.num_ranks] == card % self.rules.num_ranks

    def useless(self, card: int) -> bool:
        color, rank = divmod(card, self.rules.num_ranks)
        chain = range(self.piles[color], rank + 1)  # all of them would have to be played
        return card in self.played or any(
            self.left(color * self.rules.num_ranks + r) == 0 for r in chain
        )

    def planes(self) -> list[int]:
        return [
            as_set(card for card in range(self.rules.num_cards) if self.lost.count(card) > plane)
            for plane in range(max(self.rules.num_cards_of_rank))
        ]


def as_set(members: object) -> int:
    return sum(1 << card for card in members)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rules", GAMES, ids=str)
def test_card_sets_match_counting(rules: Rules) -> None:
    for seed in range(60):
        at = Position(rules, seed)
        every = range(rules.num_cards)
        played, planes = as_set(at.played), at.planes()
        gone, single = cards.exhausted_cards(rules, planes), cards.last_copies(rules, planes)
        useless = cards.useless_cards(rules, played, gone)

        assert gone == as_set(card for card in every if at.left(card) == 0)
        assert single == as_set(card for card in every if at.left(card) == 1)
        assert cards.next_cards(rules, played) == as_set(filter(at.fits, every))
        assert useless == as_set(filter(at.useless, every))
        assert cards.gone_cards(rules, played, planes) == as_set(
            card for card in every if at.left(card) == (card in at.played)
        )
        assert cards.without_copy(rules.full_planes, played) == [
            as_set(card for card in every if at.copies[card] - (card in at.played) > plane)
            for plane in range(len(planes))
        ]
        assert rules.num_copies == tuple(at.copies)


@pytest.mark.parametrize("rules", GAMES, ids=str)
def test_arrays_match_python_ints(rules: Rules) -> None:
    positions = [Position(rules, seed) for seed in range(20)]
    played = np.array([as_set(at.played) for at in positions], np.uint32)
    planes = np.array([at.planes() for at in positions], np.uint32).T
    for array in (np.asarray, jnp.asarray):
        gone = cards.exhausted_cards(rules, [array(plane) for plane in planes])
        single = cards.last_copies(rules, [array(plane) for plane in planes])
        found = cards.useless_cards(rules, array(played), gone), single
        assert all(sets.dtype == np.uint32 for sets in found)
        for row, at in enumerate(positions):
            alone = cards.exhausted_cards(rules, at.planes())
            assert int(found[0][row]) == cards.useless_cards(rules, int(played[row]), alone)
            assert int(single[row]) == cards.last_copies(rules, at.planes())


def test_above_stays_within_colour() -> None:
    rules = Rules(2)
    red_4, yellow_5 = 1 << 3, 1 << 9
    assert cards.successors(rules, red_4 | yellow_5) == 1 << 4
    assert cards.with_successors(rules, 1 << 5 | red_4) == 0b1111100000 | 0b11000
    assert [bool(cards.is_single(of)) for of in (0, red_4, red_4 | yellow_5)] == [
        False,
        True,
        False,
    ]


def test_python_game_card_sets() -> None:
    rules = Rules(2)
    deck = full_deck(rules)  # red: 1 1 1 2 2 | 3 3 4 4 5, then yellow
    table = PythonGame(rules, deck)
    for action in (5, 10, 0, 11):  # play a 1; a hint; discard another 1; a hint
        table.apply(action)
    assert table.played == 1 and table.discard_planes == [1, 0, 0]
    table.apply(0)
    assert table.discard_planes == [1, 1, 0]


def test_masks_and_hand_words_by_slot() -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((3, 4, 6)) < 0.4
    for axis in range(3):
        rows = np.moveaxis(mask, axis, -1)
        first, last = np.zeros_like(rows), np.zeros_like(rows)
        for place in np.ndindex(rows.shape[:-1]):
            for kept, slots in ((first, rows[place]), (last, rows[place])):
                if slots.any():
                    kept[place][np.flatnonzero(slots)[0 if kept is first else -1]] = True
        for found, kept in ((bits.first_true, first), (bits.last_true, last)):
            np.testing.assert_array_equal(np.moveaxis(found(mask, axis), axis, -1), kept)
    words = jnp.asarray(rng.integers(0, 1 << 12, (2, 3)), jnp.uint32)
    for axis in (-1, 0, 1):
        expected = [
            [int(word) >> (4 + slot) & 1 for slot in range(4)] for word in words.reshape(-1)
        ]
        found = np.moveaxis(bits.slot_bits(words, 4, 1, axis), axis, -1)
        np.testing.assert_array_equal(found, np.reshape(expected, (2, 3, 4)))
    sets = jnp.array([[0b101, 0b1], [0b100, 0]], jnp.uint32)
    assert bits.tally(Rules(2), sets).tolist()[:4] == [2, 0, 2, 0]
    assert int(bits.to_set(jnp.array([True, False, True]), np.array([4, 1, 0]))) == 0b10001
