"""Splits of games into parts for training, validation and testing, disjoint in decks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hanabi_rl.data.games import Games
from hanabi_rl.storage.validation import plain_number


def part_names(count: int) -> list[str]:
    """Names of the parts of a split: train, val and test, or part1, part2 ... if there are more."""
    names = ["train", "val", "test"][:count]
    return names if len(names) == count else [f"part{number}" for number in range(1, count + 1)]


def split_games(games: Games, fractions: Sequence[float], seed: int) -> list[Games]:
    """Split games randomly into fractions; games of one deck stay together, in order. Raises
    ValueError if the fractions are not positive or do not add to 1, or a part is empty."""
    fractions = tuple(map(float, fractions))
    if not (min(fractions, default=0) > 0 and abs(sum(fractions) - 1) <= 1e-6):  # also rejects NaN
        raise ValueError(f"expected positive fractions that add to 1, got {fractions}")
    bounds = np.round(np.cumsum(fractions) * len(games)).astype(int)
    sizes = np.diff(bounds, prepend=0).tolist()
    for fraction, size in zip(fractions, sizes, strict=True):
        if not size:
            raise ValueError(
                f"expected at least one game in every part, got none for the fraction "
                f"{plain_number(fraction)} of {len(games)} games"
            )
    return split_games_by_size(games, sizes, seed)


def split_games_by_size(games: Games, sizes: Sequence[int], seed: int) -> list[Games]:
    """Split games randomly into parts of these sizes; games of one deck stay together, in order.

    Sizes are exact unless too many decks were played more than once. Games beyond their sum are
    left out. Raises ValueError if a size is not positive, there are too few games, or a part is
    empty.
    """
    sizes = tuple(sizes)
    if min(sizes, default=0) < 1 or sum(sizes) > len(games) or any(size % 1 for size in sizes):
        raise ValueError(
            f"expected whole sizes that are positive and add to at most {len(games)} games, got "
            f"{sizes}"
        )
    _, first = np.unique(games.deck_ids, return_index=True)
    # sort the decks, so that a seed always gives the same split
    _, order = np.unique(games.decks[first], axis=0, return_inverse=True)
    deck_of_game = order.reshape(-1)[games.deck_ids]
    rng = np.random.default_rng(seed)
    part_of_deck = _assign(
        np.bincount(deck_of_game), np.array([*sizes, len(games) - sum(sizes)]), rng
    )
    parts = [games.select(part_of_deck[deck_of_game] == part) for part in range(len(sizes))]
    if not all(len(part) for part in parts):
        raise ValueError(
            f"expected enough different decks for sizes {tuple(sizes)}, got {len(part_of_deck)}"
        )
    return parts


def _assign(counts: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Part of each deck, int[decks]; deck d was played counts[d] times.

    A deck goes to a random part, with probability proportional to the room left there. The most
    played decks are assigned first, so that decks played once can fill each part exactly. The last
    decks go to empty parts. The last part (games left out) may stay empty.
    """
    room = sizes.copy()
    part_of_deck = np.empty(len(counts), int)
    shuffled = rng.permutation(len(counts))
    empty = np.arange(len(sizes)) < len(sizes) - 1
    for chosen, deck in enumerate(shuffled[np.argsort(-counts[shuffled], kind="stable")]):
        reserved = empty.any() and empty.sum() >= len(counts) - chosen
        left = np.where(empty, room, 0) if reserved else room
        fits = np.where(left >= counts[deck], left, 0)
        part = (
            int(rng.choice(len(room), p=fits / fits.sum())) if fits.any() else int(np.argmax(left))
        )
        part_of_deck[deck] = part
        room[part] -= counts[deck]
        empty[part] = False
    return part_of_deck
