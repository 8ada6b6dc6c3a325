"""hanab.live decks, computed from seeds such as `p3v0s950` as the site does.

`p3v0s950` is deal 950 of variant 0 for three players. The site seeds Go's `math/rand` with the
CRC-64/XZ of the name: an additive lagged Fibonacci generator with lags 607 and 273. It shuffles the
sorted deck inside out, then the order of the players.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from hanabi_rl.data.formats.hanab_live import MAX_SEED_LENGTH, VARIANT, VARIANT_ID
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules

MAX_SEEDS = 100_000
"""Maximum number of deals in one list of names."""
EXAMPLE = "p3v0s950"
LONG_LAG, SHORT_LAG = 607, 273
TABLE_STEPS = 7_800_000_000_000
"""Generator steps from seed 1 to Go's table of start values."""
MODULUS, MULTIPLIER = 2**31 - 1, 48271
SKIPPED = 20
"""Numbers of the linear congruential generator that Go discards before the first start value."""
ZERO_SEED = 89482311
"""Seed that Go uses instead of 0."""
CRC_POLYNOMIAL = 0xC96C5795D7870F42
_BATCH = 10_000
_NAME = re.compile(
    rf"p[2-5]v(0|[1-9]\d{{,9}})s([^\s\x00-\x1f\ud800-\udfff]{{1,{MAX_SEED_LENGTH}}})"
)
_RANGE = re.compile(r"(0|[1-9]\d{,17})\.\.(0|[1-9]\d{,17})")


def deck_from_seed(name: str) -> np.ndarray:
    """The deck of one seed, uint8[50] card ids, top card first.

    Seat 0 holds the first hand, oldest card first, seat 1 the next hand, and so on.

    Raises ValueError if `name` is not a seed of the site's standard game for 2 to 5 players.
    """
    names, _ = parse_seed_names([name], flag="seed")
    if names != [name]:
        raise ValueError(f"seed: expected one name such as {EXAMPLE}, got {name!r}")
    return decks_from_seeds(names)[0]


def decks_from_seeds(names: Sequence[str]) -> np.ndarray:
    """Decks of several seeds, uint8[N, 50], as `deck_from_seed`; names are not validated."""
    cards = np.array(full_deck(Rules()), np.uint8)
    bounds = range(1, len(cards) + 1)
    decks = np.empty((len(names), len(cards)), np.uint8)
    for first in range(0, len(names), _BATCH):
        seeds = _source_seeds(names[first : first + _BATCH])
        decks[first : first + _BATCH] = _shuffled(cards, _draws(seeds, bounds))
    return decks


def parse_seed_names(texts: Sequence[str], flag: str = "--seed-names") -> tuple[list[str], Rules]:
    """Expand names and ranges of seeds (`p2v0s7`, `p2v0s1..200`) into single names.

    Returns:
        The names, all different, and the rules of their game.

    Raises:
        ValueError: an invalid name, an empty range, another variant, several numbers of players, or
            a duplicate; the message starts with `flag`.
    """
    names: dict[str, str] = {}  # name -> text that contains it
    for text in texts:
        numbers = _numbers(text, flag)
        first = texts[0]
        if text[:2] != first[:2]:
            raise ValueError(f"{flag}: expected one number of players, got {first!r} and {text!r}")
        if len(names) + len(numbers) > MAX_SEEDS:
            raise ValueError(f"{flag}: expected at most {MAX_SEEDS:,} deals, got more: {text!r}")
        prefix = text[: text.index("s") + 1]
        for name in [f"{prefix}{number}" for number in numbers] or [text]:
            if name in names:
                raise ValueError(
                    f"{flag}: expected each deal once, got {name} in {names[name]!r} and in "
                    f"{text!r}"
                )
            names[name] = text
    if not names:
        raise ValueError(f"{flag}: expected at least one name such as {EXAMPLE}, got none")
    return list(names), Rules(num_players=int(texts[0][1]))


def _numbers(text: str, flag: str) -> range:
    """Numbers of a range of names, empty for a single name. Raises ValueError for other text."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{flag}: expected names of hanab.live deals for 2 to 5 players, such as {EXAMPLE} or "
            f"p3v0s1..50, got {text!r}"
        )
    variant, suffix = match.groups()
    if variant != str(VARIANT_ID):
        raise ValueError(
            f"{flag}: expected variant {VARIANT_ID} ({VARIANT}, p3v{VARIANT_ID}s...), got variant "
            f"{variant} in {text!r}"
        )
    if ".." not in suffix:
        return range(0)
    ends = _RANGE.fullmatch(suffix)
    if ends is None:
        raise ValueError(
            f"{flag}: expected a range of whole numbers such as p3v0s1..50, got {text!r}"
        )
    first, last = int(ends[1]), int(ends[2])
    if first > last:
        raise ValueError(f"{flag}: expected a range from low to high, got {text!r}")
    return range(first, last + 1)


def _source_seeds(names: Sequence[str]) -> np.ndarray:
    """Seeds of Go's source, int64[N], 1 to 2^31 - 2."""
    seeds = crc64(names).view(np.int64) % MODULUS
    return np.where(seeds == 0, ZERO_SEED, seeds)


def crc64(texts: Sequence[str]) -> np.ndarray:
    """CRC-64/XZ checksums of UTF-8 texts, uint64[N]."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint64(CRC_POLYNOMIAL), table >> 1)
    encoded = np.array([text.encode() for text in texts], np.bytes_)
    lengths = np.char.str_len(encoded)
    characters = encoded.view(np.uint8).reshape(len(texts), -1).astype(np.uint64)
    checksum = np.full(len(texts), 2**64 - 1, np.uint64)
    for column in range(characters.shape[1]):
        following = table[(checksum ^ characters[:, column]) & 255] ^ (checksum >> 8)
        checksum = np.where(column < lengths, following, checksum)
    return ~checksum


def _shuffled(items: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """`items` [K] shuffled inside out by `draws` int[N, K], each at most its column."""
    shuffled = np.tile(items, (len(draws), 1))
    rows = np.arange(len(draws))
    for place in range(len(items)):
        other = draws[:, place]
        moved = shuffled[rows, other]
        shuffled[rows, other] = shuffled[:, place]
        shuffled[:, place] = moved
    return shuffled


def _draws(seeds: np.ndarray, bounds: Sequence[int]) -> np.ndarray:
    """Go's `Intn(bound)` for each of `bounds` in turn, int64[N, K], from sources with `seeds`. Go
    rejects a 31-bit word in the incomplete last interval of `bound` words and takes the next."""
    limits = np.array([2**31 - 2**31 % bound for bound in bounds])
    words = _words(seeds, len(bounds))
    draws = words % np.array(bounds)
    for row in np.flatnonzero((words >= limits).any(axis=1)):  # one deck in about two million
        stream = iter(_words(seeds[row : row + 1], SHORT_LAG)[0].tolist())
        draws[row] = [
            next(word for word in stream if word < limit) % bound
            for bound, limit in zip(bounds, limits.tolist(), strict=True)
        ]
    return draws


def _words(seeds: np.ndarray, count: int) -> np.ndarray:
    """First `count` outputs of Go's `Int31`, int64[N, count], at most SHORT_LAG.

    Each of these outputs is the sum of two start values. Start value i combines three numbers of a
    linear congruential generator, computed without the earlier ones.
    """
    output = np.arange(count)
    places = np.stack([LONG_LAG - SHORT_LAG - 1 - output, LONG_LAG - 1 - output])
    numbers = _powers()[places[..., None] * 3 + np.arange(3)]  # [2, count, 3]
    high, middle, low = np.moveaxis(seeds[:, None, None, None] * numbers % MODULUS, -1, 0)
    values = (high << 40 ^ middle << 20 ^ low).view(np.uint64) ^ start_table()[places]
    return (values.sum(axis=1, dtype=np.uint64) << np.uint64(1) >> np.uint64(33)).view(np.int64)


@functools.cache
def _powers() -> np.ndarray:
    """MULTIPLIER^k modulo MODULUS for the numbers in the start values, int64[3 * 607]."""
    first = SKIPPED + 1
    return np.array([pow(MULTIPLIER, k, MODULUS) for k in range(first, first + 3 * LONG_LAG)])


@functools.cache
def start_table() -> np.ndarray:
    """Go's table of start values, uint64[607], `rngCooked` in its source.

    The table is the generator's state after TABLE_STEPS steps x[n] = x[n-607] + x[n-273] modulo
    2^64. x[n + TABLE_STEPS] is a sum of x[n] to x[n + 606] with the coefficients of t^TABLE_STEPS
    modulo t^607 - t^334 - 1.
    """
    numbers = _powers().reshape(LONG_LAG, 3)
    start = (numbers[:, 0] << 20 ^ numbers[:, 1] << 10 ^ numbers[:, 2]).astype(np.uint64)
    # output n replaces the table's entry 333 - n, modulo 607
    place = LONG_LAG - SHORT_LAG - 1 - np.arange(-LONG_LAG, 0)
    sequence = np.zeros(2 * LONG_LAG, np.uint64)
    sequence[:LONG_LAG] = start[place % LONG_LAG]
    for n in range(LONG_LAG, 2 * LONG_LAG):
        sequence[n] = sequence[n - LONG_LAG] + sequence[n - SHORT_LAG]
    power = np.ones(1, np.uint64)
    for bit in f"{TABLE_STEPS:b}":
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.append(np.uint64(0), power))
    windows = np.lib.stride_tricks.sliding_window_view(sequence, len(power))[:LONG_LAG]
    table = np.empty(LONG_LAG, np.uint64)
    table[(place - TABLE_STEPS) % LONG_LAG] = (windows * power).sum(axis=1, dtype=np.uint64)
    table.flags.writeable = False
    return table


def _reduced(polynomial: np.ndarray) -> np.ndarray:
    """A polynomial, lowest coefficient first, modulo t^607 - t^334 - 1 and 2^64."""
    while len(polynomial) > LONG_LAG:
        low, high = polynomial[:LONG_LAG], polynomial[LONG_LAG:]
        shift = LONG_LAG - SHORT_LAG
        polynomial = np.zeros(max(LONG_LAG, shift + len(high)), np.uint64)
        polynomial[:LONG_LAG] = low
        polynomial[: len(high)] += high
        polynomial[shift : shift + len(high)] += high
    return polynomial
