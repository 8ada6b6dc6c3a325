"""hanab.live decks: Go's generator step by step, deals of the real server, names."""

import itertools

import numpy as np
import pytest

from hanabi_rl.data.formats import hanab_live_decks as site
from hanabi_rl.data.formats.hanab_live_decks import (
    crc64,
    deck_from_seed,
    decks_from_seeds,
    parse_seed_names,
    start_table,
)
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules

LAG, TAP, WORD = 607, 273, 2**64
SUITS = "RYGBP"  # the site's


def plain_crc(text: str) -> int:
    checksum = WORD - 1
    for byte in text.encode():
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0xC96C5795D7870F42 if checksum & 1 else 0)
    return checksum ^ (WORD - 1)


def congruential(seed: int):
    number = seed
    for step in itertools.count():
        number = 48271 * number % (2**31 - 1)
        if step >= 20:
            yield number


def fibonacci(start: list[int]):
    """Go's `Uint64`, one step at a time, in `start`."""
    tap, feed = 0, LAG - TAP
    while True:
        tap, feed = (tap - 1) % LAG, (feed - 1) % LAG
        start[feed] = (start[feed] + start[tap]) % WORD
        yield start[feed]


def int31(seed: int):
    """Go's `Int31` of a source with `seed` and the tested table."""
    seed = seed % (2**31 - 1) or 89482311
    numbers = congruential(seed)
    start = [next(numbers) << 40 ^ next(numbers) << 20 ^ next(numbers) for _ in range(LAG)]
    words = fibonacci([a ^ b for a, b in zip(start, start_table().tolist(), strict=True)])
    return (word % 2**63 >> 32 for word in words)


def intn(words, bound: int) -> int:
    word = next(words)
    while word > 2**31 - 1 - 2**31 % bound:
        word = next(words)
    return word % bound


def plain_deal(name: str) -> list[int]:
    checksum = plain_crc(name)
    words = int31(checksum if checksum < WORD // 2 else checksum - WORD)  # Go's int64(checksum)
    deck = full_deck(Rules())
    for i in range(len(deck)):
        j = intn(words, i + 1)
        deck[i], deck[j] = deck[j], deck[i]
    return deck


@pytest.mark.parametrize("steps", [1, 606, 607, 5000])
def test_start_table_is_generator_state(monkeypatch, steps):
    monkeypatch.setattr(site, "TABLE_STEPS", steps)
    numbers = congruential(1)
    state = [next(numbers) << 20 ^ next(numbers) << 10 ^ next(numbers) for _ in range(LAG)]
    for _ in itertools.islice(fibonacci(state), steps):
        pass
    assert start_table.__wrapped__().tolist() == state


def test_generator_matches_go_seed_1():
    """`rand.New(rand.NewSource(1)).Int63()`, three times, known to Go's users."""
    int63 = [5577006791947779410, 8674665223082153551, 6129484611666145821]
    assert site._words(np.array([1]), 3)[0].tolist() == [number >> 32 for number in int63]


def test_checksums_are_crc_64_xz():
    assert crc64(["123456789"]).tolist() == [0x995DC9BBDF1939FA]  # the catalogue's check value
    texts = ["p2v0s1", "p3v0s42770", "p5v0sé"]
    assert crc64(texts).tolist() == [plain_crc(text) for text in texts]


def test_deck_matches_real_server():
    deck = deck_from_seed("p2v0s1")
    hand = [f"{SUITS[card // 5]}{card % 5 + 1}" for card in deck[:5].tolist()]
    assert hand == ["B5", "P4", "B3", "R4", "G1"]
    assert deck.dtype == np.uint8 and sorted(deck) == full_deck(Rules())


def test_two_seeds_can_share_a_deal():
    one, same, other = "p3v0s42770", "p3v0s52993", "p3v0s42771"
    assert deck_from_seed(one).tolist() == deck_from_seed(same).tolist()
    assert deck_from_seed(one).tolist() != deck_from_seed(other).tolist()


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_decks_match_go_shuffle(players):
    names = [f"p{players}v0s{suffix}" for suffix in (1, 950, 12345678, "anything", "-1")]
    for name, deck in zip(names, decks_from_seeds(names), strict=True):
        assert deck.tolist() == deck_from_seed(name).tolist() == plain_deal(name)


def test_words_in_incomplete_interval_are_rejected():
    """These bounds reject a third to a half of the words instead of one in a billion."""
    bounds = [2**30 + 1, 3, 2**30 + 5, 3 * 2**29, 8, 2**30 + 1]
    seeds = np.arange(1, 41)
    expected = []
    for seed in seeds.tolist():
        words = int31(seed)
        expected.append([intn(words, bound) for bound in bounds])
    assert site._draws(seeds, bounds).tolist() == expected


def test_zero_seed_is_replaced(monkeypatch):
    monkeypatch.setattr(site, "crc64", lambda names: np.array([5 * (2**31 - 1)], np.uint64))
    assert site._source_seeds(["any"]).tolist() == [89482311]


def test_seed_names_and_ranges_expand():
    names, rules = parse_seed_names(["p4v0s7", "p4v0s9..11", "p4v0sfoo"])
    assert names == ["p4v0s7", "p4v0s9", "p4v0s10", "p4v0s11", "p4v0sfoo"]
    assert rules == Rules(num_players=4)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ([], "expected at least one name such as p3v0s950, got none"),
        (["950"], "expected names of hanab.live deals .* got '950'"),
        (["p3v0s"], "expected names of hanab.live deals"),
        (["p6v0s1"], "for 2 to 5 players, .* got 'p6v0s1'"),
        (["p03v0s1"], "expected names of hanab.live deals"),
        (["p3v0s\ud800"], "expected names of hanab.live deals"),
        (["p3v0s7\0"], "expected names of hanab.live deals"),
        (["p3v0s" + "7" * 101], "expected names of hanab.live deals"),
        (["p3v15s1..9"], r"expected variant 0 \(No Variant, p3v0s...\), got variant 15"),
        (["p3v0s9..3"], "expected a range from low to high, got 'p3v0s9..3'"),
        (["p3v0s1..x"], "expected a range of whole numbers"),
        (["p3v0s1.."], "expected a range of whole numbers"),
        (["p3v0s01..09"], "expected a range of whole numbers"),
        (["p3v0s1..9999999999999999999999"], "expected a range of whole numbers"),
        (["p3v0s1..999999999999"], "expected at most 100,000 deals"),
        (["p3v0s1", "p2v0s2"], "expected one number of players, got 'p3v0s1' and 'p2v0s2'"),
        (["p3v0s5", "p3v0s1..9"], "deal once, got p3v0s5 in 'p3v0s5' and in 'p3v0s1..9'"),
    ],
)
def test_invalid_seed_names_are_rejected(texts, problem):
    with pytest.raises(ValueError, match=f"^--seed-names: .*{problem}"):
        parse_seed_names(texts)


@pytest.mark.parametrize("name", ["p2v0s1..5", "p2v1s1", "p9v0s1", ""])
def test_deck_from_seed_rejects_other_names(name):
    with pytest.raises(ValueError, match="^seed: expected"):
        deck_from_seed(name)
