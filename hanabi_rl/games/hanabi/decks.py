"""Shuffled decks, and the pool of them behind auto-reset.

The deck of an environment's game depends on two things only: the environment's own key and the
number of the game. When the pool is refilled, how many environments there are and how they are
sharded change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.games.hanabi.bits import CARD_MASK, pack_deck, union
from hanabi_rl.games.hanabi.prng import random_words
from hanabi_rl.games.hanabi.python_game import card_name, full_deck
from hanabi_rl.games.hanabi.rules import Rules

POOL_SIZE = 4
"""Decks kept ready for each environment: large enough that refills are rare, small enough that few
decks go unused."""


class DeckPool(struct.PyTreeNode):
    """The next decks of ``N`` environments."""

    decks: jax.Array
    """uint32[N, K, W]: K decks an environment, packed by `words.pack_deck`."""
    first: jax.Array
    """int32[N]: the number of the game that the environment's first deck here is for."""
    keys: jax.Array | None
    """uint32[N, 2]: the environments' own keys; None where the decks are given, and dealt again
    from the first after the last.
    """


def shuffled_decks(rules: Rules, key: jax.Array, num_decks: int) -> jax.Array:
    """Uniformly shuffled decks of card ids, uint8[num_decks, deck_size], top card first."""
    return _shuffle(rules, jax.random.bits(key, (num_decks, rules.deck_size), jnp.uint32)).astype(
        jnp.uint8
    )


def _shuffle(rules: Rules, words: jax.Array) -> jax.Array:
    """Shuffle by sorting: random ``uint32[..., deck_size]`` -> card ids of the same shape.

    The card id sits in the low bits of its own sort key, so one array is sorted and nothing
    gathered. Two cards tie on the other 27 bits in about one deck in 100,000; the tie goes to the
    lower card id, a bias far below what games could show.
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
    """The keys uint32[num_envs, 2] of environments ``first_index ..``, each from `key` (typed or
    raw) and its index."""
    return random_words(key, first_index + jnp.arange(num_envs), 2)


def new_pool(rules: Rules, keys: jax.Array) -> DeckPool:
    """The pool of environments about to play their game 0, from their keys uint32[N, 2]."""
    first = jnp.zeros(keys.shape[0], jnp.int32)
    return DeckPool(decks=_decks_from(rules, keys, first), first=first, keys=keys)


def fixed_pool(rules: Rules, decks: jax.Array) -> DeckPool:
    """A pool that deals the given card ids ``[N, K, deck_size]``, each environment its own K decks
    round and round.

    Raises:
        ValueError: decks of another shape, or, where they are not traced, of other cards.
    """
    if decks.ndim != 3 or decks.shape[2] != rules.deck_size:
        raise ValueError(
            f"decks must have shape [N, K, {rules.deck_size}], got {list(decks.shape)}"
        )
    if not isinstance(decks, jax.core.Tracer):
        check_decks(rules, np.asarray(decks).reshape(-1, rules.deck_size))
    return DeckPool(decks=pack_deck(decks), first=jnp.zeros(decks.shape[0], jnp.int32), keys=None)


def check_decks(rules: Rules, decks: np.ndarray) -> None:
    """Raises ValueError for `decks` that are not integers [N, deck_size], or of which one is not
    the game's."""
    if decks.ndim != 2 or decks.shape[1] != rules.deck_size or decks.dtype.kind not in "iu":
        raise ValueError(
            f"expected decks of integers [N, {rules.deck_size}], got {decks.dtype} "
            f"{list(decks.shape)}"
        )
    for deck, problem in invalid_decks(rules, decks):
        raise ValueError(f"deck {deck}: {problem}")


def invalid_decks(rules: Rules, decks: np.ndarray) -> Iterator[tuple[int, str]]:
    """The number of each of the decks, integers [N, deck_size], that is not the game's, and what is
    wrong with it."""
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
    """The packed deck of each environment's game number `game` int32[N], and the pool afterwards.

    The whole pool is refilled at once as soon as one environment `needed` bool[N] a deck that is
    not there; the deck returned is only meaningful where `needed`.
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
    """The packed decks uint32[N, POOL_SIZE, W] of the games ``game ..`` of environments with the
    given keys."""
    numbers = game[:, None] + jnp.arange(POOL_SIZE)
    return pack_deck(_shuffle(rules, random_words(keys[:, None], numbers, rules.deck_size)))
