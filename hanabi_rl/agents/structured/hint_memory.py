"""What is remembered about each card in a hand: how things stood when it was hinted.

Everything kept is public (the table, the hints and whom they touched), so that each seat could keep
the same memory; rows are players relative to the observer. A memory is a few fields of bits a card,
because hands shift with every draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.card_counts import CardCounts, first_true, last_true
from hanabi_rl.games.hanabi.bits import materialize
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import select_games
from hanabi_rl.nn.structured_network import FeatureSet

if TYPE_CHECKING:
    from hanabi_rl.agents.bots.hint_inference import CommonKnowledge
    from hanabi_rl.agents.structured.profile import PlayerProfile
    from hanabi_rl.agents.structured.seat_observation import SeatObservation

FEATURE_SETS: tuple[FeatureSet, ...] = ("facts", "hint-history", "conventions")

# The fields of a card. A record is how things stood at a hint: its flags and numbers, and which
# cards were playable and critical then.
_LAST, _FIRST, _AGE, _INFERRED, _KNOWN = 0, 3, 6, 7, 8
_FIELDS = {"facts": 0, "hint-history": 7, "conventions": 9}
_FLAGS = ("hinted", "by_rank", "was_new", "was_oldest", "was_newest_new", "was_newest")
_AGE_PLACE, _AGE_BITS = 20, 8
_MAX_AGE = (1 << _AGE_BITS) - 1


class Memory(NamedTuple):
    """The carry of a structured policy."""

    cards: jax.Array
    """uint32[..., P, H, W]: the fields of each card; W is 0 for `facts`, which needs no memory."""
    profile: PlayerProfile | None = None
    """What is known of the players; None for a network that does not ask."""


class HintSnapshot(NamedTuple):
    """How things stood when cards were hinted: bool or uint32 [2, P, H, N], the last hint and the
    first; all 0 without one."""

    hinted: jax.Array
    by_rank: jax.Array
    was_new: jax.Array
    """The card had no hint before."""
    was_oldest: jax.Array
    """It was the oldest card without a hint."""
    was_newest_new: jax.Array
    """Of the cards that had no hint before, it was the newest touched."""
    was_newest: jax.Array
    """Of all the cards touched, it was the newest."""
    touched: jax.Array
    """How many cards were touched."""
    new: jax.Array
    """How many of them had no hint before."""
    giver: jax.Array
    """How many seats after the owner the giver sits."""
    age: jax.Array
    """Moves since."""
    playable: jax.Array
    """The set of cards that were playable."""
    critical: jax.Array
    """The set of cards that were critical."""


def _numbers(hand_size: int) -> dict[str, tuple[int, int]]:
    """Where the numbers of a record lie in its first word, above its flags: (place, bits). As many
    cards can be touched as a hand has; three bits are the least."""
    count = max(3, hand_size.bit_length())
    return {
        "touched": (8, count),
        "new": (8 + count, count),
        "giver": (8 + 2 * count, 3),
        "age": (_AGE_PLACE, _AGE_BITS),
    }


def init_memory(
    rules: Rules,
    feature_set: FeatureSet,
    batch: tuple[int, ...],
    profile: PlayerProfile | None = None,
) -> Memory:
    """The memory before the first move of games, each leaf `[*batch, ...]`."""
    bits = [0] * _FIELDS[feature_set]
    if feature_set == "conventions":
        bits[_INFERRED] = bits[_KNOWN] = rules.all_cards
    shape = (*batch, rules.num_players, rules.hand_size, len(bits))
    return Memory(jnp.broadcast_to(jnp.array(bits, jnp.uint32), shape), profile)


def reset_memory(rules: Rules, feature_set: FeatureSet, memory: Memory, reset: jax.Array) -> Memory:
    """The memory [N, ...], as before the first move with strangers where `reset` bool[N]."""
    known = memory.profile
    stranger = None if known is None else known.reset()
    return select_games(reset, init_memory(rules, feature_set, reset.shape, stranger), memory)


def next_game(rules: Rules, feature_set: FeatureSet, memory: Memory) -> Memory:
    """The memory before the first move of another game with the same players: what is known of them
    stays. Whoever moves first there must be row 0."""
    known = memory.profile
    kept = None if known is None else known.next_game()
    return init_memory(rules, feature_set, memory.cards.shape[:-3], kept)


def rotated(memory: Memory, seats: jax.Array) -> Memory:
    """The profile as whoever sits int32[N] `seats` further keeps it; nothing else."""
    known = memory.profile
    return memory._replace(profile=None if known is None else known.rotated(seats))


def next_seat(memory: Memory) -> Memory:
    """The same memory as the next player keeps it: rows count from that player."""
    known = memory.profile
    return Memory(jnp.roll(memory.cards, -1, axis=-3), None if known is None else known.rotated(1))


def previous_seat(memory: Memory) -> Memory:
    """The inverse of `next_seat`."""
    known = memory.profile
    return Memory(jnp.roll(memory.cards, 1, axis=-3), None if known is None else known.rotated(-1))


def unpack(memory: Memory) -> jax.Array:
    """[N, P, H, W] -> [W, P, H, N]."""
    return jnp.transpose(memory.cards, (3, 1, 2, 0))


def pack(bits: jax.Array) -> Memory:
    """The inverse of `unpack`."""
    return Memory(jnp.transpose(bits, (3, 1, 2, 0)))


def remember(
    rules: Rules,
    feature_set: FeatureSet,
    bits: jax.Array,
    seat_obs: SeatObservation,
    counts: CardCounts,
) -> jax.Array:
    """The memory uint32[W, P, H, N] after the last move, from that before it."""
    if feature_set == "facts":
        return bits
    last = seat_obs.seen.last
    inferred = bits[_INFERRED:_KNOWN]
    if feature_set == "conventions":
        inferred = _reread(rules, bits, seat_obs)[None]
    hinted = _note_hint(rules, bits[:_INFERRED], seat_obs, counts)
    bits = jnp.concatenate([hinted, inferred])
    fresh = init_memory(rules, feature_set, ()).cards[0, 0, : bits.shape[0], None, None, None]
    younger = jnp.concatenate(
        [bits[:, :, 1:], jnp.broadcast_to(fresh, (*bits.shape[:2], 1, bits.shape[3]))], axis=2
    )
    moved_down = jnp.stack([jnp.any(last.slot[: s + 1], axis=0) for s in range(rules.hand_size)])
    bits = jnp.where(last.actor[:, None] & moved_down, younger, bits)
    known = seat_obs.seen.knowledge[None] if feature_set == "conventions" else bits[:0]
    return materialize(jnp.concatenate([bits, known]))


def _note_hint(
    rules: Rules, bits: jax.Array, seat_obs: SeatObservation, counts: CardCounts
) -> jax.Array:
    """The records and ages after the last move, before any card is drawn."""
    last, players = seat_obs.seen.last, rules.num_players
    hinted_before = bits[_LAST] & 1 != 0
    touched = last.touched & last.target[:, None]
    held = seat_obs.seen.knowledge != 0
    new = touched & ~hinted_before
    row = jnp.arange(players)[:, None]
    giver = jnp.sum(jnp.where(last.actor, row, 0), axis=0)
    after_owner = jnp.where(giver >= row, giver - row, giver - row + players)
    flags = [
        touched,
        last.is_rank_hint & touched,
        new,
        new & first_true(held & ~hinted_before),
        last_true(new),
        last_true(touched),
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
    """Of the last hint on each card, and of the first: fields [2, P, H, N]."""
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
    """Moves since each card was drawn, uint32[P, H, N]; for those of the first hands the deal
    counts as one."""
    return bits[_AGE]


def to_common_knowledge(bits: jax.Array, seat_obs: SeatObservation) -> CommonKnowledge:
    """What `bots/hint_inference.py` calls common knowledge, after the last move."""
    from hanabi_rl.agents.bots.hint_inference import CommonKnowledge

    return CommonKnowledge(seat_obs.seen.knowledge, bits[_INFERRED], seat_obs.seen.hinted)


def _reread(rules: Rules, bits: jax.Array, seat_obs: SeatObservation) -> jax.Array:
    """What the meaning of the hints leaves possible after the last move, before any card is
    drawn: uint32[P, H, N]."""
    from hanabi_rl.agents.bots.hint_inference import CommonKnowledge, update_common_knowledge

    before = CommonKnowledge(bits[_KNOWN], bits[_INFERRED], bits[_LAST] & 1 != 0)
    nobody = seat_obs.seen.last._replace(slot=jnp.zeros_like(seat_obs.seen.last.slot))
    seen = seat_obs.seen._replace(last=nobody)  # the shift of a draw is this file's work
    return update_common_knowledge(rules, before, seen).inferred
