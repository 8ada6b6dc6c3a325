"""Memory of each card in a hand: the state of the game when it was hinted.

All content is public (table, hints and touched cards), so every seat can keep the same memory; rows
are players relative to the observer. A memory has a few bit fields per card, because hands shift
with every draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.hint_inference import CommonKnowledge, update_common_knowledge
from hanabi_rl.agents.structured import hint_outcomes
from hanabi_rl.agents.structured.card_counts import CardCounts
from hanabi_rl.games.batching import materialize, select_games
from hanabi_rl.games.hanabi.bits import first_true, last_true
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation
from hanabi_rl.nn.structured_network import FeatureSet

if TYPE_CHECKING:
    from hanabi_rl.agents.structured.profile import PlayerProfile

FEATURE_SETS: tuple[FeatureSet, ...] = ("facts", "hint-history", "conventions", "hint-outcomes")

# Fields of a card. A record is the state at a hint: its flags and numbers, and the cards that were
# playable and critical.
_LAST, _FIRST, _AGE, _INFERRED, _KNOWN, _CARD_COUNTS, _HAND_COUNTS = 0, 3, 6, 7, 8, 9, 10
_FIELDS = {"facts": 0, "hint-history": 7, "conventions": 9, "hint-outcomes": 11}
_FLAGS = ("hinted", "by_rank", "was_new", "was_oldest", "was_newest_new", "was_newest")
_AGE_PLACE, _AGE_BITS = 20, 8
_MAX_AGE = (1 << _AGE_BITS) - 1


class Memory(NamedTuple):
    """Carry of a structured policy."""

    cards: jax.Array
    """uint32[..., P, H, W]: fields of each card; W is 0 for `facts`, which needs no memory."""
    profile: PlayerProfile | None = None
    """Profiles of the players; None for a network without this input."""


class HintSnapshot(NamedTuple):
    """State at hints: bool or uint32 [2, P, H, N], last and first hint; all 0 without one."""

    hinted: jax.Array
    by_rank: jax.Array
    was_new: jax.Array  # the card was unhinted before
    was_oldest: jax.Array  # it was the oldest unhinted card
    was_newest_new: jax.Array  # it was the newest touched card among those unhinted before
    was_newest: jax.Array  # it was the newest touched card
    touched: jax.Array  # number of touched cards
    new: jax.Array  # number of touched cards that were unhinted before
    giver: jax.Array  # seats from the owner to the giver, in turn order
    age: jax.Array  # moves since the hint
    playable: jax.Array  # set of cards that were playable
    critical: jax.Array  # set of cards that were critical


def _numbers(hand_size: int) -> dict[str, tuple[int, int]]:
    """(place, bits) of the numbers in a record's first word, above its flags. A hint touches up to
    a whole hand; the minimum is 3 bits."""
    count = max(3, hand_size.bit_length())
    return {
        "touched": (8, count),
        "new": (8 + count, count),
        "giver": (8 + 2 * count, 3),
        "age": (_AGE_PLACE, _AGE_BITS),
    }


def has_conventions(feature_set: FeatureSet) -> bool:
    """Whether a set includes `conventions`."""
    return _FIELDS[feature_set] > _KNOWN


def has_outcomes(feature_set: FeatureSet) -> bool:
    """Whether a set includes `hint-outcomes`."""
    return _FIELDS[feature_set] > _HAND_COUNTS


def init_memory(
    rules: Rules,
    feature_set: FeatureSet,
    batch: tuple[int, ...],
    profile: PlayerProfile | None = None,
) -> Memory:
    """Memory before the first move of a game, each leaf `[*batch, ...]`."""
    bits = [0] * _FIELDS[feature_set]
    if has_conventions(feature_set):
        bits[_INFERRED] = bits[_KNOWN] = rules.all_cards
    shape = (*batch, rules.num_players, rules.hand_size, len(bits))
    return Memory(jnp.broadcast_to(jnp.array(bits, jnp.uint32), shape), profile)


def reset_memory(rules: Rules, feature_set: FeatureSet, memory: Memory, reset: jax.Array) -> Memory:
    """Reset memory [N, ...] and profile where `reset` bool[N]: new partners."""
    known = memory.profile
    empty = None if known is None else known.reset()
    return select_games(reset, init_memory(rules, feature_set, reset.shape, empty), memory)


def next_game(rules: Rules, feature_set: FeatureSet, memory: Memory) -> Memory:
    """Memory before the next game with the same players, with their profile; row 0 moves first."""
    known = memory.profile
    profile = None if known is None else known.next_game()
    return init_memory(rules, feature_set, memory.cards.shape[:-3], profile)


def rotated(memory: Memory, seats: jax.Array) -> Memory:
    """Profile in the frame of the player `seats` int32[N] further; the cards are unchanged."""
    known = memory.profile
    return memory._replace(profile=None if known is None else known.rotated(seats))


def next_seat(memory: Memory) -> Memory:
    """Memory in the frame of the next player."""
    known = memory.profile
    return Memory(jnp.roll(memory.cards, -1, axis=-3), None if known is None else known.rotated(1))


def previous_seat(memory: Memory) -> Memory:
    """Inverse of `next_seat`."""
    known = memory.profile
    return Memory(jnp.roll(memory.cards, 1, axis=-3), None if known is None else known.rotated(-1))


def unpack(memory: Memory) -> jax.Array:
    """[N, P, H, W] -> [W, P, H, N]."""
    return jnp.transpose(memory.cards, (3, 1, 2, 0))


def pack(bits: jax.Array) -> Memory:
    """Inverse of `unpack`."""
    return Memory(jnp.transpose(bits, (3, 1, 2, 0)))


def update_bits(
    rules: Rules,
    feature_set: FeatureSet,
    bits: jax.Array,
    seat_obs: SeatObservation,
    counts: CardCounts,
) -> jax.Array:
    """Memory uint32[W, P, H, N] after the last move, given the memory before it."""
    if feature_set == "facts":
        return bits
    last = seat_obs.last
    hinted = _record_hint(rules, bits[:_INFERRED], seat_obs, counts)
    if not has_conventions(feature_set):
        return materialize(last.shifted(hinted, 0))
    inferred = last.shifted(_update_inferred(rules, bits, seat_obs), rules.all_cards)
    parts = [last.shifted(hinted, 0), inferred[None], seat_obs.knowledge[None]]
    if has_outcomes(feature_set):
        record = records(bits)
        of_card = hint_outcomes.update_card_counts(bits[_CARD_COUNTS], record, seat_obs)
        of_hand = hint_outcomes.update_hand_counts(bits[_HAND_COUNTS], record, seat_obs)
        parts += [last.shifted(of_card, 0)[None], of_hand[None]]
    return materialize(jnp.concatenate(parts))


def _record_hint(
    rules: Rules, bits: jax.Array, seat_obs: SeatObservation, counts: CardCounts
) -> jax.Array:
    """Records and ages after the last move, before any card is drawn."""
    last, players = seat_obs.last, rules.num_players
    hinted_before = bits[_LAST] & 1 != 0
    touched = last.touched & last.target[:, None]
    held = seat_obs.knowledge != 0
    new = touched & ~hinted_before
    row = jnp.arange(players)[:, None]
    giver = jnp.sum(jnp.where(last.actor, row, 0), axis=0)
    after_owner = jnp.where(giver >= row, giver - row, giver - row + players)
    flags = [
        touched,
        last.is_rank_hint & touched,
        new,
        new & first_true(held & ~hinted_before, axis=-2),
        last_true(new, axis=-2),
        last_true(touched, axis=-2),
    ]
    facts = sum(flag.astype(jnp.uint32) << i for i, flag in enumerate(flags))
    numbers = {"touched": _count(touched), "new": _count(new), "giver": after_owner}
    for name, number in numbers.items():
        facts |= number.astype(jnp.uint32)[:, None] << _numbers(rules.hand_size)[name][0]
    record = [
        jnp.broadcast_to(field, touched.shape)
        for field in (facts, counts.playable, counts.critical)
    ]
    aged = bits.at[_AGE].set(jnp.minimum(bits[_AGE] + 1, _MAX_AGE))
    for start in (_LAST, _FIRST):
        older = jnp.minimum((aged[start] >> _AGE_PLACE) + 1, _MAX_AGE)
        facts = (aged[start] & ((1 << _AGE_PLACE) - 1)) | (older << _AGE_PLACE)
        aged = aged.at[start].set(jnp.where(hinted_before, facts, 0))
    before = [aged[i] for i in range(_AGE)]
    latest = [jnp.where(touched, now, was) for now, was in zip(record, before[:3], strict=True)]
    first = [jnp.where(new, now, was) for now, was in zip(record, before[3:], strict=True)]
    return jnp.stack([*latest, *first, aged[_AGE]])


def _count(mask: jax.Array) -> jax.Array:
    return jnp.sum(mask.astype(jnp.uint32), axis=1)


def records(bits: jax.Array) -> HintSnapshot:
    """Records of the last and the first hint on each card: fields [2, P, H, N]."""
    facts = jnp.stack([bits[_LAST], bits[_FIRST]])

    def number(place: int, width: int) -> jax.Array:
        return (facts >> place) & ((1 << width) - 1)

    flags = {flag: number(i, 1) != 0 for i, flag in enumerate(_FLAGS)}
    numbers = {name: number(*field) for name, field in _numbers(facts.shape[2]).items()}
    return HintSnapshot(
        **flags,
        **numbers,
        playable=jnp.stack([bits[_LAST + 1], bits[_FIRST + 1]]),
        critical=jnp.stack([bits[_LAST + 2], bits[_FIRST + 2]]),
    )


def ages(bits: jax.Array) -> jax.Array:
    """Moves since each card was drawn, uint32[P, H, N]; the deal counts as a move."""
    return bits[_AGE]


def outcomes(bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Words of `hint_outcomes.py` of each card and each hand, uint32[P, H, N] each."""
    return bits[_CARD_COUNTS], bits[_HAND_COUNTS]


def to_common_knowledge(bits: jax.Array, seat_obs: SeatObservation) -> CommonKnowledge:
    """Common knowledge in the sense of `bots/hint_inference.py`, after the last move."""
    return CommonKnowledge(seat_obs.knowledge, bits[_INFERRED], seat_obs.hinted)


def _update_inferred(rules: Rules, bits: jax.Array, seat_obs: SeatObservation) -> jax.Array:
    """Cards that hint meanings allow after the last move, before a draw: uint32[P, H, N]."""
    before = CommonKnowledge(bits[_KNOWN], bits[_INFERRED], bits[_LAST] & 1 != 0)
    no_slot = seat_obs.last._replace(slot=jnp.zeros_like(seat_obs.last.slot))
    seen = seat_obs._replace(last=no_slot)  # this module handles the shift of a draw
    return update_common_knowledge(rules, before, seen).inferred
