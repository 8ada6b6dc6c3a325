"""Sets, hands and decks as words of bits.

- A *set of cards* is a ``uint32`` whose bit ``colour * num_ranks + rank`` is 1 if it contains the
  card.
- A *hand word* describes all slots of a hand at once: bit ``group * hand_size + slot``, where a
  group is a colour or a rank. One operation then compares, moves or clears every card of the hand.
- A *deck* is packed six cards to a ``uint32``, five bits a card, first card in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.rules import Rules

WORD_BITS = 31
"""Bits used in a word of packed fields; see `games.batching.materialize`."""

CARDS_PER_WORD = 6
CARD_BITS = 5
CARD_MASK = (1 << CARD_BITS) - 1


def older(mask: jax.Array, axis: int = -1) -> jax.Array:
    """Number of true entries before each along an axis of slots: bool[..., H, ...] -> int32."""
    slots = jnp.moveaxis(mask, axis, 0)
    counts = [jnp.zeros_like(slots[0], jnp.int32)]
    for slot in slots[:-1]:
        counts.append(counts[-1] + slot)
    return jnp.stack(counts, axis=axis)


def first_true(mask: jax.Array, axis: int = -1) -> jax.Array:
    """Keep the first true entry along an axis of slots: bool[..., H, ...]."""
    return mask & (older(mask, axis) == 0)


def last_true(mask: jax.Array, axis: int = -1) -> jax.Array:
    """Keep the last true entry along an axis of slots: bool[..., H, ...]."""
    return jnp.flip(first_true(jnp.flip(mask, axis), axis), axis)


def union(words: Sequence[jax.Array]) -> jax.Array:
    """Union of several sets (or masks), elementwise."""
    return reduce(or_, words)


def bit(index: jax.Array | np.ndarray) -> jax.Array:
    """``uint32`` word with only bit `index` (0 to 31) set."""
    return jnp.uint32(1) << index.astype(jnp.uint32)


def slot_bits(words: jax.Array, hand_size: int, group: int = 0, axis: int = -1) -> jax.Array:
    """One group of hand words uint32[...] by slot, which is the new `axis`: bool[..., H, ...]."""
    words = jnp.expand_dims(words, axis)
    slots = jnp.arange(hand_size, dtype=jnp.uint32) + group * hand_size
    later = words.ndim - 1 - axis % words.ndim
    return (words >> slots.reshape(-1, *(1,) * later)) & 1 != 0


def to_set(members: jax.Array, cards: np.ndarray | None = None) -> jax.Array:
    """Set ``uint32[...]`` of the true entries of ``bool[..., K]``, of which entry k is card k, or
    card ``cards[k]``."""
    cards = np.arange(members.shape[-1]) if cards is None else cards
    return jnp.sum(jnp.where(members, bit(cards), 0), axis=-1, dtype=jnp.uint32)


def members(rules: Rules, cards: jax.Array) -> jax.Array:
    """Sets ``uint32[...]`` -> zeros and ones ``int32[..., K]``."""
    bits = jnp.arange(rules.num_cards, dtype=jnp.uint32)
    return ((cards[..., None] >> bits) & 1).astype(jnp.int32)


def tally(rules: Rules, cards: jax.Array) -> jax.Array:
    """Number of the sets ``uint32[...]`` that contain each card: int32[K]."""
    return jnp.sum(members(rules, cards.reshape(-1)), axis=0)


def count(word: jax.Array) -> jax.Array:
    """Number of bits set in each word, as ``int32``."""
    return jax.lax.population_count(word).astype(jnp.int32)


def kth_bit(word: jax.Array, k: jax.Array) -> jax.Array:
    """Index int32[...] of the k-th lowest set bit (from 0) of each word, by halving; 31 if there
    are fewer."""
    place = jnp.zeros_like(k)
    for half in (16, 8, 4, 2, 1):
        below = count((word >> place.astype(jnp.uint32)) & ((1 << half) - 1))
        above = k >= below
        k, place = jnp.where(above, k - below, k), jnp.where(above, place + half, place)
    return place


def pack_fields(fields: Sequence[tuple[jax.Array, int]]) -> list[tuple[jax.Array, int]]:
    """Pack fields ``(uint32[...], width)`` end to end, lowest bits first, into words of `WORD_BITS`
    bits.

    Returns the words as fields ``(uint32[...], bits used)``. A field must have no bits above its
    width.
    """
    parts: list[jax.Array] = []
    packed: list[tuple[jax.Array, int]] = []
    used = 0
    for field, width in fields:
        rest, left = field, width
        while left:
            fits = min(left, WORD_BITS - used)
            part = rest if fits == left else rest & ((1 << fits) - 1)
            parts.append(part << used if used else part)
            rest, left, used = rest >> fits, left - fits, used + fits
            if used == WORD_BITS:
                packed.append((union(parts), used))
                parts, used = [], 0
    if parts:
        packed.append((union(parts), used))
    return packed


def unpack_bits(words: Sequence[tuple[jax.Array, int]]) -> jax.Array:
    """All bits of words ``(uint32[...], width)``, end to end: bool[..., sum of widths]."""
    masks = [jnp.arange(width, dtype=jnp.uint32) for _, width in words]
    bits = [(word[..., None] >> mask) & 1 for (word, _), mask in zip(words, masks, strict=True)]
    return jnp.concatenate(bits, axis=-1) != 0


def pack_deck(decks: jax.Array) -> jax.Array:
    """Pack card ids ``[..., D]`` (any integer dtype, first card first) into ``uint32[..., ceil(D /
    6)]``."""
    size = decks.shape[-1]
    padding = -size % CARDS_PER_WORD
    padded = jnp.pad(decks.astype(jnp.uint32), [(0, 0)] * (decks.ndim - 1) + [(0, padding)])
    groups = padded.reshape(*decks.shape[:-1], (size + padding) // CARDS_PER_WORD, CARDS_PER_WORD)
    return union([groups[..., i] << (CARD_BITS * i) for i in range(CARDS_PER_WORD)])


def unpack_deck(packed: jax.Array, size: int) -> jax.Array:
    """The card ids ``uint8[..., size]`` of a deck packed by `pack_deck`."""
    shifts = CARD_BITS * jnp.arange(CARDS_PER_WORD, dtype=jnp.uint32)
    cards = (packed[..., None] >> shifts) & CARD_MASK
    return cards.reshape(*packed.shape[:-1], packed.shape[-1] * CARDS_PER_WORD)[..., :size].astype(
        jnp.uint8
    )


def card_at(packed: jax.Array, index: jax.Array) -> jax.Array:
    """The card id ``uint32[N]`` at place `index` ``[N]`` of decks ``uint32[N, W]``; 0 past the end.

    A chain of selects over the words: several times faster on a CPU than a gather.
    """
    index = index.astype(jnp.uint32)
    word_index = index // CARDS_PER_WORD
    word = union([jnp.where(word_index == w, packed[:, w], 0) for w in range(packed.shape[1])])
    return (word >> (CARD_BITS * (index % CARDS_PER_WORD))) & CARD_MASK
