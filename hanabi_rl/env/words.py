"""Sets of cards and whole decks as words of bits, and the layout the rules compute in.

A set of cards is a ``uint32`` whose bit ``colour * num_ranks + rank`` says whether the card is in it. A deck is packed six cards
to a ``uint32``, five bits a card, first card in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import jax
import jax.numpy as jnp

CARDS_PER_WORD = 6
CARD_BITS = 5
CARD_MASK = (1 << CARD_BITS) - 1


def any_of(words: Sequence[jax.Array]) -> jax.Array:
    """The union of several sets (or of several masks), elementwise."""
    return reduce(or_, words)


def bit(index: jax.Array) -> jax.Array:
    """The ``uint32`` word with only bit `index` set."""
    return jnp.uint32(1) << index.astype(jnp.uint32)


def count(word: jax.Array) -> jax.Array:
    """How many bits of each word are set, as ``int32``."""
    return jax.lax.population_count(word).astype(jnp.int32)


def unpack_bits(word: jax.Array, width: int, dtype: jnp.dtype = jnp.float32) -> jax.Array:
    """The lowest `width` bits of ``uint32[...]`` words as zeros and ones ``[..., width]``."""
    return ((word[..., None] >> jnp.arange(width, dtype=jnp.uint32)) & 1).astype(dtype)


def pack_deck(decks: jax.Array) -> jax.Array:
    """Pack card ids ``[..., D]`` (any integer dtype, first card first) into ``uint32[..., ceil(D / 6)]``."""
    size = decks.shape[-1]
    padding = -size % CARDS_PER_WORD
    padded = jnp.pad(decks.astype(jnp.uint32), [(0, 0)] * (decks.ndim - 1) + [(0, padding)])
    groups = padded.reshape(*decks.shape[:-1], (size + padding) // CARDS_PER_WORD, CARDS_PER_WORD)
    return any_of([groups[..., i] << (CARD_BITS * i) for i in range(CARDS_PER_WORD)])


def unpack_deck(packed: jax.Array, size: int) -> jax.Array:
    """The card ids ``uint8[..., size]`` of a deck packed by `pack_deck`."""
    shifts = CARD_BITS * jnp.arange(CARDS_PER_WORD, dtype=jnp.uint32)
    cards = (packed[..., None] >> shifts) & CARD_MASK
    return cards.reshape(*packed.shape[:-1], packed.shape[-1] * CARDS_PER_WORD)[..., :size].astype(jnp.uint8)


def card_at(packed: jax.Array, index: jax.Array) -> jax.Array:
    """The card id ``uint32[N]`` at place `index` ``int32[N]`` of decks ``uint32[N, W]``; 0 past the end.

    A chain of selects over the words: several times faster on a CPU than a gather.
    """
    word_index = index // CARDS_PER_WORD
    word = any_of([jnp.where(word_index == w, packed[:, w], 0) for w in range(packed.shape[1])])
    return (word >> (CARD_BITS * (index % CARDS_PER_WORD)).astype(jnp.uint32)) & CARD_MASK
