"""Exact card counting with sets: playable, useless and critical cards, and unseen copies.

Copy counts are stored in unary, as planes of sets: plane j holds the cards with at least j + 1
copies. The number of copies in any set is then a few population counts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.cards import next_cards, useless_cards, without_copy
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.seat_observation import SeatObservation

Planes = Sequence[jax.Array]
"""Entry j is the set uint32[N] of cards with at least j + 1 copies."""


class CardCounts(NamedTuple):
    """Public card counts; sets are uint32[N]."""

    playable: jax.Array
    useless: jax.Array  # already played, or above a card without copies left
    critical: jax.Array  # useful cards with one copy left
    left: list[jax.Array]  # planes of the copies neither played nor discarded
    # planes of the copies unseen by the observer: in the deck or in its own hand
    unseen: list[jax.Array]
    repeated: jax.Array  # cards seen twice in others' hands


def count_cards(rules: Rules, seat_obs: "SeatObservation") -> CardCounts:
    """Count cards from an observation."""
    planes = [jnp.full_like(seat_obs.played, full) for full in rules.full_planes]
    for gone in seat_obs.discards:
        planes = without_copy(planes, gone)
    kept = planes  # copies in fireworks, hands and deck
    useless = materialize(useless_cards(rules, seat_obs.played, ~kept[0] & rules.all_cards))
    left = [materialize(plane) for plane in without_copy(planes, seat_obs.played)]
    unseen, once, repeated = left, jnp.zeros_like(useless), jnp.zeros_like(useless)
    for hand in seat_obs.hands[1:]:
        for card in hand:
            unseen = without_copy(unseen, card)
            repeated |= once & card
            once |= card
    single = kept[0] & ~kept[1] if len(kept) > 1 else kept[0]
    return CardCounts(
        playable=materialize(next_cards(rules, seat_obs.played) & ~useless),
        useless=useless,
        critical=materialize(single & ~useless),
        left=left,
        unseen=[materialize(plane) for plane in unseen],
        repeated=materialize(repeated),
    )


def copies(sets: jax.Array, planes: Planes) -> jax.Array:
    """Number of copies of the cards in each set: uint32[..., N] -> uint32[..., N]."""
    counted = jax.lax.population_count(sets & planes[0])
    for plane in planes[1:]:
        counted += jax.lax.population_count(sets & plane)
    return counted


def one_group(cards: jax.Array, groups: Sequence[int]) -> jax.Array:
    """True where a set lies within one of the groups (colours or ranks)."""
    within = jnp.zeros(cards.shape, jnp.bool_)
    for group in groups:
        within |= (cards & ~jnp.uint32(group)) == 0
    return within


def older(mask: jax.Array) -> jax.Array:
    """Number of true entries before each along the second last axis: bool[..., H, N] -> int32."""
    counts, so_far = [], jnp.zeros_like(mask[..., 0, :], jnp.int32)
    for slot in range(mask.shape[-2]):
        counts.append(so_far)
        so_far += mask[..., slot, :]
    return jnp.stack(counts, axis=-2)


def first_true(mask: jax.Array) -> jax.Array:
    """Keep the first true entry along the second last axis of bool[..., H, N]."""
    return mask & (older(mask) == 0)


def last_true(mask: jax.Array) -> jax.Array:
    """Keep the last true entry along the second last axis of bool[..., H, N]."""
    return mask & jnp.flip(older(jnp.flip(mask, -2)) == 0, -2)
