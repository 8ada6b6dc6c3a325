"""What each own card could be, kind by kind: what a belief reads, beside the structured view, to
weigh kinds of cards against each other.

No colour has a name here either: renaming the colours permutes the kinds.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.card_features import awaited_cards
from hanabi_rl.agents.structured.hint_memory import Memory, records, unpack
from hanabi_rl.agents.structured.packed_features import Columns, unpack_columns
from hanabi_rl.agents.structured.seat_observation import SeatObservation
from hanabi_rl.games.hanabi.bits import bit, union
from hanabi_rl.games.hanabi.cards import successors
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.structured_network import FeatureSet


class CardTypeFeatures(NamedTuple):
    """Facts of the kinds of cards, float32, about [0, 1] each."""

    kinds: jax.Array
    """[N, K, Fk]: of the kind as such, seen by the observer."""
    places: jax.Array
    """[N, H, K, Fp]: of the kind in one of the observer's slots, oldest first."""


def card_type_features(
    rules: Rules, feature_set: FeatureSet, after: Memory, seat_obs: SeatObservation
) -> CardTypeFeatures:
    """The facts of the kinds in N games.

    Args:
        rules, feature_set: static. At `facts` nothing is told of how things stood at a hint.
        after: the memory after the last move (`features.remember`), in the observer's frame.
        seat_obs: what the observer sees.
    """
    seen, counts = seat_obs.seen, count_cards(rules, seat_obs)
    cards = bit(jnp.arange(rules.num_cards))[:, None]

    def has(sets: jax.Array) -> jax.Array:
        """Whether sets uint32[..., N] have each kind: bool[..., K, N]."""
        return (sets[..., None, :] & cards) != 0

    held = [card for hand in seen.hands[1:] for card in hand]
    hinted = [card for hand in jnp.where(seen.hinted, seen.hands, 0)[1:] for card in hand]
    above = successors(rules, counts.playable)
    of_kind = [
        *map(jnp.uint32, rules.rank_cards),
        counts.playable,
        counts.useless,
        counts.critical,
        above,
        successors(rules, above),
        *counts.unseen,
        union(held),
        union(hinted),
    ]
    of_place = [seen.knowledge[0] & counts.unseen[0]]
    if feature_set != "facts":
        kept = records(unpack(after))
        of_kind += awaited_cards(rules, seat_obs, counts, kept)
        for at in range(2):
            then = kept.playable[at, 0]
            of_place += [then, successors(rules, then), kept.critical[at, 0]]
    shown = [jnp.broadcast_to(x, seen.played.shape) for x in of_kind]
    kinds: Columns = [has(x) for x in shown]
    places: Columns = [has(x) for x in of_place]
    return CardTypeFeatures(
        kinds=unpack_columns(kinds, (1, 0)), places=unpack_columns(places, (2, 0, 1))
    )
