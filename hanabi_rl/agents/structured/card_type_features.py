"""Features of each card type in each own slot: additional input of the belief network.

They name no colour: permuting the colours permutes the card types.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.card_counts import count_cards
from hanabi_rl.agents.structured.card_features import awaited_cards
from hanabi_rl.agents.structured.hint_memory import Memory, records, unpack
from hanabi_rl.agents.structured.packed_features import Columns, unpack_columns
from hanabi_rl.games.hanabi.bits import bit, union
from hanabi_rl.games.hanabi.cards import successors
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation
from hanabi_rl.nn.structured_network import FeatureSet


class CardTypeFeatures(NamedTuple):
    """Features of card types, float32, about [0, 1] each."""

    kinds: jax.Array
    """[N, K, Fk]: features of the card type, as seen by the observer."""
    places: jax.Array
    """[N, H, K, Fp]: features of the card type in each of the observer's slots, oldest first."""


def card_type_features(
    rules: Rules, feature_set: FeatureSet, after: Memory, seat_obs: SeatObservation
) -> CardTypeFeatures:
    """Features of card types in N games; `facts` omits the state at hints.

    `after` is the memory after the last move (`features.update_memory`), in the observer's frame.
    """
    counts = count_cards(rules, seat_obs)
    cards = bit(jnp.arange(rules.num_cards))[:, None]

    def has(sets: jax.Array) -> jax.Array:
        """Membership of each card type in sets uint32[..., N]: bool[..., K, N]."""
        return (sets[..., None, :] & cards) != 0

    held = [card for hand in seat_obs.hands[1:] for card in hand]
    hinted = [card for hand in jnp.where(seat_obs.hinted, seat_obs.hands, 0)[1:] for card in hand]
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
    of_place = [seat_obs.knowledge[0] & counts.unseen[0]]
    if feature_set != "facts":
        snapshot = records(unpack(after))
        of_kind += awaited_cards(rules, seat_obs, counts, snapshot)
        for at in range(2):
            then = snapshot.playable[at, 0]
            of_place += [then, successors(rules, then), snapshot.critical[at, 0]]
    sets = [jnp.broadcast_to(x, seat_obs.played.shape) for x in of_kind]
    kinds: Columns = [has(x) for x in sets]
    places: Columns = [has(x) for x in of_place]
    return CardTypeFeatures(
        kinds=unpack_columns(kinds, (1, 0)), places=unpack_columns(places, (2, 0, 1))
    )
