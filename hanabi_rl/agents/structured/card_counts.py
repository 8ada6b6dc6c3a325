"""Exact card counting with sets: playable, useless and critical cards, and unseen copies.

Copy counts are stored in unary, as planes of sets: plane j holds the cards with at least j + 1
copies. The number of copies in any set is then a few population counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.hint_inference import card_facts, union_and_repeats
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.cards import Planes, without_copy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class CardCounts(NamedTuple):
    """Public card counts; sets are uint32[N]."""

    playable: jax.Array
    useless: jax.Array  # already played, or above a card without copies left
    critical: jax.Array  # useful cards with one copy left
    left: list[jax.Array]  # planes of the copies neither played nor discarded
    # planes of the copies unseen by the observer: in the deck or in its own hand
    unseen: list[jax.Array]
    repeated: jax.Array  # cards seen twice in others' hands


def count_cards(rules: Rules, seat_obs: SeatObservation) -> CardCounts:
    """Count cards from an observation."""
    facts = card_facts(rules, seat_obs)
    planes = [jnp.full_like(seat_obs.played, full) for full in rules.full_planes]
    for gone in (*seat_obs.discards, seat_obs.played):
        planes = without_copy(planes, gone)
    left = unseen = [materialize(plane) for plane in planes]
    for hand in seat_obs.hands[1:]:
        for card in hand:
            unseen = without_copy(unseen, card)
    return CardCounts(
        playable=facts.playable,
        useless=facts.useless,
        critical=facts.critical,
        left=left,
        unseen=[materialize(plane) for plane in unseen],
        repeated=union_and_repeats(seat_obs.hands[1:]).repeated,
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
