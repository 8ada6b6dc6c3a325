"""Features of cards in hands: columns `[H, N]` of own cards, `[P - 1, H, N]` of visible cards."""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.card_counts import CardCounts, copies, one_group
from hanabi_rl.agents.structured.packed_features import QUANTIZED_ONE, Columns, quantize
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import older, union
from hanabi_rl.games.hanabi.cards import is_single, successors
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

if TYPE_CHECKING:
    from hanabi_rl.agents.structured.hint_memory import HintSnapshot


class HandFacts(NamedTuple):
    """Facts that several features share."""

    held: jax.Array  # bool[P, H, N]
    unhinted: jax.Array  # bool[P, H, N]: unhinted cards
    # uint32[P, H, N], quantized: number of older unhinted cards / hand size
    older_unhinted: jax.Array
    hinted_elsewhere: jax.Array  # uint32[N]: hinted cards visible in others' hands


def hand_facts(rules: Rules, seat_obs: SeatObservation) -> HandFacts:
    """Compute facts of positions and hints."""
    held = seat_obs.knowledge != 0
    unhinted = held & ~seat_obs.hinted
    hinted = jnp.where(seat_obs.hinted, seat_obs.hands, 0)
    return HandFacts(
        held=held,
        unhinted=unhinted,
        older_unhinted=quantize(older(unhinted, axis=-2) / rules.hand_size),
        hinted_elsewhere=materialize(union([card for hand in hinted for card in hand])),
    )


class CardProbs(NamedTuple):
    """Possible cards of each slot, weighted by their numbers of copies."""

    sets: jax.Array
    planes: list[jax.Array]

    def of(self, *cards: jax.Array) -> list[jax.Array]:
        """Probabilities that the card is in each of the sets uint32[N], quantized; 0 for an empty
        slot. Computed together, because one operation on a longer array compiles faster."""
        queries = jnp.stack([jnp.broadcast_to(c, self.planes[0].shape) for c in cards])
        queries = queries.reshape(len(cards), *(1,) * (self.sets.ndim - 1), -1)
        total = jnp.maximum(copies(self.sets, self.planes), 1)
        return list(quantize(copies(self.sets & queries, self.planes) / total))


def own(rules: Rules, seat_obs: SeatObservation, counts: CardCounts, hands: HandFacts) -> Columns:
    """Features `facts` of the observer's cards."""
    last = seat_obs.last
    mine = materialize(seat_obs.knowledge[0] & counts.unseen[0])
    playable, useless, critical, *rest = CardProbs(mine, counts.unseen).of(
        counts.playable,
        counts.useless,
        counts.critical,
        hands.hinted_elsewhere,
        counts.repeated,
        *map(jnp.uint32, rules.rank_cards),
    )
    was_hinted = last.touched & last.target[0]
    return [
        hands.held[0],
        seat_obs.hinted[0],
        hands.older_unhinted[0],
        playable,
        useless,
        critical,
        playable == jnp.max(playable, axis=0),
        useless == jnp.max(useless, axis=0),
        quantize(playable / jnp.maximum(QUANTIZED_ONE - useless, QUANTIZED_ONE // 20)),
        *rest,
        copies(mine, counts.unseen) / rules.deck_size,
        one_group(mine, rules.color_cards),
        one_group(mine, rules.rank_cards),
        is_single(mine),
        was_hinted,
        was_hinted & last.is_rank_hint,
        *[_is_slot(rules, s) for s in range(rules.hand_size)],
    ]


def _is_slot(rules: Rules, slot: int) -> jax.Array:
    return jnp.asarray(np.arange(rules.hand_size) == slot)[:, None]


def others(
    rules: Rules, seat_obs: SeatObservation, counts: CardCounts, hands: HandFacts
) -> Columns:
    """Features `facts` of visible cards and of their owners' knowledge."""
    last = seat_obs.last
    cards = seat_obs.hands[1:]
    knowledge = seat_obs.knowledge[1:]
    probs = CardProbs(knowledge, counts.left)
    playable, useless, critical = probs.of(counts.playable, counts.useless, counts.critical)
    was_hinted = last.touched & last.target[1:, None]
    mine = jnp.where(seat_obs.hinted[0], seat_obs.knowledge[0] & counts.unseen[0], 0)
    return [
        hands.held[1:],
        *card_value_features(rules, counts, cards),
        (cards & counts.repeated) != 0,
        (cards & union(list(mine))) != 0,
        seat_obs.hinted[1:],
        hands.older_unhinted[1:],
        playable,
        quantize(playable / jnp.maximum(QUANTIZED_ONE - useless, QUANTIZED_ONE // 20)),
        useless,
        critical,
        one_group(knowledge, rules.color_cards) & hands.held[1:],
        one_group(knowledge, rules.rank_cards) & hands.held[1:],
        is_single(knowledge),
        was_hinted,
        was_hinted & last.is_rank_hint,
    ]


def card_value_features(rules: Rules, counts: CardCounts, cards: jax.Array) -> Columns:
    """Features of the true value of visible cards, uint32[..., N]."""
    reach, steps = counts.playable, []
    for _ in range(1, min(rules.num_ranks, 4)):
        reach = materialize(successors(rules, reach))
        steps.append((cards & reach) != 0)
    return [
        *[(cards & jnp.uint32(r)) != 0 for r in rules.rank_cards],
        (cards & counts.playable) != 0,
        (cards & counts.useless) != 0,
        (cards & counts.critical) != 0,
        *steps,
    ]


def own_hint_history(
    rules: Rules,
    seat_obs: SeatObservation,
    counts: CardCounts,
    snapshot: "HintSnapshot",
    ages: jax.Array,
) -> Columns:
    """Features `hint-history` of the observer's cards."""
    mine = materialize(seat_obs.knowledge[0] & counts.unseen[0])
    own_snapshot = jax.tree.map(lambda field: field[:, 0], snapshot)
    recent, ever = awaited_cards(rules, seat_obs, counts, snapshot)
    return [
        *_hint_records(rules, counts, own_snapshot, ages[0], CardProbs(mine, counts.unseen)),
        *CardProbs(mine, counts.unseen).of(recent, ever),
    ]


def others_hint_history(
    rules: Rules,
    seat_obs: SeatObservation,
    counts: CardCounts,
    snapshot: "HintSnapshot",
    ages: jax.Array,
) -> Columns:
    """Features `hint-history` of the visible cards."""
    probs = CardProbs(seat_obs.knowledge[1:], counts.left)
    theirs = jax.tree.map(lambda field: field[:, 1:], snapshot)
    recent, ever = awaited_cards(rules, seat_obs, counts, snapshot)
    cards = seat_obs.hands[1:]
    return [
        *_hint_records(rules, counts, theirs, ages[1:], probs),
        (cards & recent) != 0,
        (cards & ever) != 0,
    ]


def _hint_records(
    rules: Rules, counts: CardCounts, snapshot: "HintSnapshot", ages: jax.Array, probs: CardProbs
) -> Columns:
    """Features of the two records of each card, and of its possible cards given them."""
    facts = [
        snapshot.by_rank,
        snapshot.was_new,
        snapshot.was_oldest,
        snapshot.was_newest_new,
        snapshot.was_newest,
        *[snapshot.hinted & (snapshot.giver == k) for k in range(1, rules.num_players)],
        snapshot.hinted & (snapshot.age < rules.num_players),
        quantize(snapshot.touched / rules.hand_size),
        quantize(snapshot.new / rules.hand_size),
        quantize(jnp.where(snapshot.hinted, 1.0 / (1.0 + snapshot.age), 0.0)),
        *_probs_at_hint(rules, counts, snapshot, probs),
    ]
    columns: Columns = [jnp.sqrt(ages.astype(jnp.float32)) / 8]
    return columns + [fact[i] for i in range(2) for fact in facts]


def _probs_at_hint(
    rules: Rules, counts: CardCounts, snapshot: "HintSnapshot", probs: CardProbs
) -> list[jax.Array]:
    """Probabilities [2, ...] that a card was playable or critical at the hint; and given that it
    was playable then (last entry: then or one later), that it is playable, useless (or, last,
    playable) now."""
    then = probs.sets & snapshot.playable
    soon = probs.sets & (snapshot.playable | successors(rules, snapshot.playable))
    counted = [
        jnp.broadcast_to(probs.sets, then.shape),
        then,
        probs.sets & snapshot.critical,
        then & counts.playable,
        then & counts.useless,
        soon,
        soon & counts.playable,
    ]
    every, in_then, critical, now, gone, in_soon, soon_now = materialize(
        copies(jnp.stack(counted), probs.planes)
    )
    parts, wholes = [in_then, critical, now, gone, soon_now], [every, every, in_then, in_then]
    return list(quantize(jnp.stack(parts) / jnp.maximum(jnp.stack([*wholes, in_soon]), 1)))


def awaited_cards(
    rules: Rules, seat_obs: SeatObservation, counts: CardCounts, snapshot: "HintSnapshot"
) -> tuple[jax.Array, jax.Array]:
    """Playable cards, visible in no hand, that a hinted card of another hand waits for, uint32[N]
    each: for hints since the observer's last turn, and for all hints."""
    visible = union([card for hand in seat_obs.hands[1:] for card in hand])

    def missing(hinted: jax.Array) -> jax.Array:
        waiting = union([card for hand in jnp.where(hinted, seat_obs.hands, 0) for card in hand])
        needed = jnp.zeros_like(waiting)
        for _ in range(rules.num_ranks - 1):
            below = (waiting & ~jnp.uint32(rules.rank_cards[0])) >> 1
            waiting = below & ~seat_obs.played
            needed |= waiting
        return materialize(needed & counts.playable & ~visible)

    recently = snapshot.hinted[0] & (snapshot.age[0] < rules.num_players)
    return missing(recently), missing(seat_obs.hinted)
