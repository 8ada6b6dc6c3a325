"""Shuffled decks, and the pool of decks for auto-reset.

The deck of a game depends only on the environment's key and the number of the game, not on when the
pool is refilled, the number of environments or their sharding.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.hanabi.bits import CARD_MASK, pack_deck, union
from hanabi_rl.games.hanabi.python_game import card_name, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.prng import random_words

POOL_SIZE = 4
"""Decks per environment: enough that refills are rare, few enough that few decks go unused."""


class DeckPool(struct.PyTreeNode):
    """Next decks of ``N`` environments."""

    decks: jax.Array
    """uint32[N, K, W]: K decks per environment, packed by `bits.pack_deck`."""
    first: jax.Array
    """int32[N]: number of the game that the first deck is for."""
    keys: jax.Array | None
    """uint32[N, 2]: keys of the environments; None for fixed decks, which repeat in a cycle."""


def shuffled_decks(rules: Rules, key: jax.Array, num_decks: int) -> jax.Array:
    """Uniformly shuffled decks of card ids, uint8[num_decks, deck_size], top card first."""
    return _shuffle(rules, jax.random.bits(key, (num_decks, rules.deck_size), jnp.uint32)).astype(
        jnp.uint8
    )


def _shuffle(rules: Rules, words: jax.Array) -> jax.Array:
    """Shuffle by sorting: random ``uint32[..., deck_size]`` -> card ids of the same shape.

    The card id occupies the low bits of its own sort key, so one array is sorted and nothing
    gathered. Two cards tie on the other 27 bits in about one deck in 100,000; the lower card id
    then comes first, a bias far below what games could show.
    """
    cards = jnp.array(
        [
            color * rules.num_ranks + rank
            for color in range(rules.num_colors)
            for rank, copies in enumerate(rules.num_cards_of_rank)
            for _ in range(copies)
        ],
        jnp.uint32,
    )
    return jax.lax.sort((words & ~jnp.uint32(CARD_MASK)) | cards, is_stable=False) & CARD_MASK


def environment_keys(key: jax.Array, num_envs: int, first_index: int | jax.Array = 0) -> jax.Array:
    """Keys uint32[num_envs, 2] of environments ``first_index ..``, from `key` (typed or raw) and
    index."""
    return random_words(key, first_index + jnp.arange(num_envs), 2)


def new_pool(rules: Rules, keys: jax.Array) -> DeckPool:
    """Pool of environments before their game 0, from their keys uint32[N, 2]."""
    first = jnp.zeros(keys.shape[0], jnp.int32)
    return DeckPool(decks=_decks_from(rules, keys, first), first=first, keys=keys)


def fixed_pool(rules: Rules, decks: jax.Array) -> DeckPool:
    """Pool that deals the given card ids ``[N, K, deck_size]`` in a cycle, K decks per environment.

    Raises:
        ValueError: decks of another shape or, if not traced, with the wrong cards.
    """
    if decks.ndim != 3 or decks.shape[2] != rules.deck_size:
        raise ValueError(
            f"decks must have shape [N, K, {rules.deck_size}], got {list(decks.shape)}"
        )
    if not isinstance(decks, jax.core.Tracer):
        check_decks(rules, np.asarray(decks).reshape(-1, rules.deck_size))
    return DeckPool(decks=pack_deck(decks), first=jnp.zeros(decks.shape[0], jnp.int32), keys=None)


def check_decks(rules: Rules, decks: np.ndarray) -> None:
    """Raise ValueError if `decks` are not integers [N, deck_size], or one has the wrong cards."""
    if decks.ndim != 2 or decks.shape[1] != rules.deck_size or decks.dtype.kind not in "iu":
        raise ValueError(
            f"expected decks of integers [N, {rules.deck_size}], got {decks.dtype} "
            f"{list(decks.shape)}"
        )
    for deck, problem in invalid_decks(rules, decks):
        raise ValueError(f"deck {deck}: {problem}")


def invalid_decks(rules: Rules, decks: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield the number of each invalid deck of integers [N, deck_size], and the reason."""
    expected = np.array(full_deck(rules))
    for deck in np.flatnonzero((np.sort(decks, axis=1) != expected).any(axis=1)):
        cards = decks[deck]
        outside = (cards < 0) | (cards >= rules.num_cards)
        counts = np.bincount(cards[~outside].astype(int), minlength=rules.num_cards)
        wanted = np.bincount(expected)
        if outside.any():
            problem = f"expected card ids 0 to {rules.num_cards - 1}, got {cards[outside][0]}"
        else:
            card = int(np.flatnonzero(counts != wanted)[0])
            problem = (
                f"expected the {len(expected)}-card deck with {wanted[card]} of "
                f"{card_name(rules, card)}, got {counts[card]}"
            )
        yield int(deck), problem


def take_deck(
    rules: Rules, pool: DeckPool, game: jax.Array, needed: jax.Array
) -> tuple[jax.Array, DeckPool]:
    """Packed deck of game number `game` int32[N] of each environment, and the pool afterwards.

    The whole pool is refilled as soon as one environment that `needed` bool[N] a deck has none
    left; the returned deck is meaningful only where `needed`.
    """
    size = pool.decks.shape[1]
    if pool.keys is None:
        place = game % size
    else:
        keys = pool.keys
        missing = jnp.any(needed & (game - pool.first >= size))
        decks, first = jax.lax.cond(
            missing,
            lambda: (_decks_from(rules, keys, game), game),
            lambda: (pool.decks, pool.first),
        )
        pool = pool.replace(decks=decks, first=first)
        place = game - first
    deck = union([jnp.where((place == k)[:, None], pool.decks[:, k], 0) for k in range(size)])
    return deck, pool


def _decks_from(rules: Rules, keys: jax.Array, game: jax.Array) -> jax.Array:
    """Packed decks uint32[N, POOL_SIZE, W] of the games ``game ..`` of environments with these
    keys."""
    numbers = game[:, None] + jnp.arange(POOL_SIZE)
    return pack_deck(_shuffle(rules, random_words(keys[:, None], numbers, rules.deck_size)))
