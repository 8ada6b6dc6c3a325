"""Canonical observation of Hanabi in the layout of jaxmarl 0.2 (and HLE's canonical encoder).

One observation is, in this order (``P`` players, hands of ``H``, ``C`` colours, ``R`` ranks, ``K =
C * R`` card types):

- the other players' cards, next player first, ``(P-1) * H * K``; players missing a card, ``P``;
- the deck as a thermometer; the top card of each firework, ``K``; information and life tokens as
  thermometers;
- the discards: for each colour and rank a thermometer as long as the number of copies;
- the last move: player, ``P``; play, discard, colour or rank hint, ``4``; target, ``P``; colour,
  ``C``; rank, ``R``; slots touched, ``H``; slot played or discarded, ``H``; that card, ``K``; 1 if
  it scored; 1 if it gave a token;
- for each card in a hand, own hand first: its belief, ``K`` (V0 belief: cards allowed by its hints,
  weighted by the copies neither played nor discarded, summing to 1); hinted colours, ``C``, and
  ranks, ``R``.

Players are counted from the observer. Everything except beliefs is first packed into a few words of
bits per game and then expanded in wide blocks, each ``word & mask != 0``: XLA's CPU backend turns a
block of more than about 50 numbers into vector instructions, and narrower blocks or blocks made by
shifts into scalar ones. Blocks are written in place into the result; concatenation is several times
slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.bits import bit, count, pack_fields, union
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.state import State

Field = tuple[jax.Array, int]
"""Bits and their number: ``(uint32[N], width)``."""


def observation_slices(rules: Rules) -> dict[str, slice]:
    """Slice of each part of an observation along its last axis, in order."""
    players, hand, cards = rules.num_players, rules.hand_size, rules.num_cards
    widths = {
        "hands": (players - 1) * hand * cards,
        "missing": players,
        "deck": rules.deck_size - players * hand,
        "fireworks": cards,
        "info_tokens": rules.max_info_tokens,
        "life_tokens": rules.max_life_tokens,
        "discards": rules.deck_size,
        "last_player": players,
        "last_kind": 4,
        "last_target": players,
        "last_color": rules.num_colors,
        "last_rank": rules.num_ranks,
        "last_touched": hand,
        "last_slot": hand,
        "last_card": cards,
        "last_outcome": 2,
        "beliefs": players * hand * rules.card_features,
    }
    parts, start = {}, 0
    for name, width in widths.items():
        parts[name] = slice(start, start + width)
        start += width
    return parts


def observe(rules: Rules, state: State, out: jax.Array | None = None) -> jax.Array:
    """Observations of all seats: float32[N, P, O], ``O = rules.obs_size``, in absolute seat order.

    Args:
        state: preferably `materialized` if it was just computed, as every block reads it.
        out: an older observation of the same shape to overwrite, such as a loop's carry: otherwise
            a step on a CPU spends a third of its time on zeroing a new array. All reads of it must
            come before the step's actions; other reads make XLA copy the whole array, which halves
            the speed.
    """
    table = _read_common(rules, state)
    if out is None:
        out = jax.lax.empty(
            (state.counters.shape[0], rules.num_players, rules.obs_size), jnp.float32
        )
    for seat in range(rules.num_players):
        start = 0
        for block in _blocks(rules, state, table, seat):
            out = jax.lax.dynamic_update_slice(out, block[:, None], (0, seat, start))
            start += block.shape[1]
    return out


def observe_seat(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """Observation of one seat ``int32[N]`` of each game: float32[N, O], bit-equal to
    ``observe(rules, state)[n, seat[n]]``."""
    state = _turn_table(rules, state, seat).materialized()
    out = jax.lax.empty((state.counters.shape[0], rules.obs_size), jnp.float32)
    start = 0
    for block in _blocks(rules, state, _read_common(rules, state), 0):
        out = jax.lax.dynamic_update_slice(out, block, (0, start))
        start += block.shape[1]
    return out


def _turn_table(rules: Rules, state: State, seat: jax.Array) -> State:
    """Renumber seats so that `seat` [N] is seat 0."""
    players = rules.num_players

    def turned(hand_words: jax.Array) -> jax.Array:
        turns = [jnp.roll(hand_words, -first, axis=1) for first in range(players)]
        return union(
            [jnp.where((seat == first)[:, None], turn, 0) for first, turn in enumerate(turns)]
        )

    player = (state.player - seat) % players
    counters = (state.counters & ~jnp.uint32(7 << 20)) | (player.astype(jnp.uint32) << 20)
    return state.replace(
        colors=turned(state.colors),
        ranks=turned(state.ranks),
        possible_colors=turned(state.possible_colors),
        possible_ranks=turned(state.possible_ranks),
        counters=counters,
    )


class _Common(NamedTuple):
    """Parts of an observation that do not depend on the observer, ready to be written."""

    missing: list[jax.Array]  # by seat, uint32[N]: 1 if it is missing a card
    board: list[Field]  # deck, fireworks, tokens, discards
    actor: jax.Array  # int32[N], seat of the last move
    target: jax.Array  # int32[N], seat it hinted
    kind: jax.Array  # uint32[N]: play, discard, colour hint, rank hint
    moved: jax.Array  # bool[N], True if there was a last move
    hinted: jax.Array  # bool[N], True if it was a hint
    move: list[Field]  # colour, rank, slots touched, slot, card, outcome of the last move
    # float32[N, K + C + R]: copies of each card neither played nor discarded, then ones
    remaining: jax.Array
    weight: jax.Array  # float32[P, H, N]: 1 / number of those copies that the card in a slot can be


def _read_common(rules: Rules, state: State) -> _Common:
    hand, players = rules.hand_size, rules.num_players
    held = [
        union([state.ranks[:, p] >> (r * hand) for r in range(rules.num_ranks)]) & rules.all_slots
        for p in range(players)
    ]
    remaining, planes = _remaining(rules, state)
    return _Common(
        missing=[(slots != rules.all_slots).astype(jnp.uint32) for slots in held],
        board=_materialize_fields(_board(rules, state)),
        remaining=remaining,
        weight=_weights(rules, state, planes),
        **_last_move(rules, state),
    )


def _materialize_fields(fields: Sequence[Field]) -> list[Field]:
    return [(materialize(word), width) for word, width in pack_fields(fields)]


def _board(rules: Rules, state: State) -> list[Field]:
    """Deck, top of each firework, tokens and discards."""
    below_another = (state.fireworks >> 1) & ~jnp.uint32(rules.rank_cards[-1])
    planes = state.discard_planes
    discards = [
        ((planes[j] >> (color * rules.num_ranks + rank)) & 1, 1)
        for color in range(rules.num_colors)
        for rank, copies in enumerate(rules.num_cards_of_rank)
        for j in range(copies)
    ]
    return [
        *_thermometer(state.deck_left, rules.deck_size - rules.num_players * rules.hand_size),
        (state.fireworks & ~below_another, rules.num_cards),
        *_thermometer(state.info_tokens, rules.max_info_tokens),
        *_thermometer(state.life_tokens, rules.max_life_tokens),
        *discards,
    ]


def _thermometer(level: jax.Array, size: int) -> list[Field]:
    """`size` bits with the lowest `level` int32[N] of them set, in pieces of up to 30."""
    piece = 30
    return [
        (bit(jnp.clip(level - low, 0, piece)) - 1, min(piece, size - low))
        for low in range(0, size, piece)
    ]


def _last_move(rules: Rules, state: State) -> dict[str, Any]:
    """Fields of `_Common` for the last move."""
    players, hand, colors, ranks = (
        rules.num_players,
        rules.hand_size,
        rules.num_colors,
        rules.num_ranks,
    )
    last, moved = decode(rules, state.last_action), state.turn > 0
    actor = jnp.where(state.player == 0, players - 1, state.player - 1)
    outcome = state.last_scored.astype(jnp.uint32) | state.last_gained_token.astype(jnp.uint32) << 1

    def where(condition: jax.Array, word: jax.Array, width: int) -> Field:
        return jnp.where(moved & condition, word, 0), width

    kinds = [
        where(which, jnp.uint32(1), 1)
        for which in (last.is_play, last.is_discard, last.is_color_hint, last.is_rank_hint)
    ]
    takes = last.is_discard | last.is_play
    move = [
        where(last.is_color_hint, bit(last.value), colors),
        where(last.is_rank_hint, bit(last.value), ranks),
        where(last.is_hint, state.last_touched.astype(jnp.uint32), hand),
        where(takes, bit(last.slot), hand),
        where(takes, bit(state.last_card), rules.num_cards),
        where(last.is_play, outcome, 2),
    ]
    return {
        "actor": actor,
        "target": (actor + last.offset.astype(jnp.int32)) % players,
        "kind": pack_fields(kinds)[0][0],
        "moved": moved,
        "hinted": moved & last.is_hint,
        "move": _materialize_fields(move),
    }


def _remaining(rules: Rules, state: State) -> tuple[jax.Array, list[jax.Array]]:
    """Copies of each card neither played nor discarded: as `_Common.remaining`, and as planes of
    sets uint32[N]."""
    used = []
    card = state.fireworks
    for j in range(state.discards.shape[1]):
        used.append(state.discards[:, j] | card)
        card = card & state.discards[:, j]
    planes = [
        materialize(jnp.uint32(full) & ~gone)
        for full, gone in zip(rules.full_planes, used, strict=True)
    ]
    hints = rules.card_features - rules.num_cards
    mask = jnp.asarray([1 << card for card in range(rules.num_cards)] + [0] * hints, jnp.uint32)
    is_hint = jnp.asarray([0.0] * rules.num_cards + [1.0] * hints, jnp.float32)
    copies = sum(((plane[:, None] & mask) != 0).astype(jnp.float32) for plane in planes) + is_hint
    as_words = materialize(jax.lax.bitcast_convert_type(copies, jnp.uint32))
    return jax.lax.bitcast_convert_type(as_words, jnp.float32), planes


def _weights(rules: Rules, state: State, planes: list[jax.Array]) -> jax.Array:
    """1 / number of remaining copies that each card in a hand can be, float32[P, H, N]; 1 for an
    empty slot."""
    hand, slot = rules.hand_size, np.arange(rules.hand_size, dtype=np.uint32)[:, None]

    def cards(words: jax.Array, groups: Sequence[int]) -> jax.Array:
        words = words.T[:, None]
        return union(
            [
                ((words >> (g * hand + slot)) & 1) * jnp.uint32(cards)
                for g, cards in enumerate(groups)
            ]
        )

    possible = cards(state.possible_colors, rules.color_cards) & cards(
        state.possible_ranks, rules.rank_cards
    )
    total = sum((count(possible & plane) for plane in planes), jnp.int32(0))
    return 1.0 / jnp.maximum(total, 1).astype(jnp.float32)


def _blocks(rules: Rules, state: State, table: _Common, seat: int) -> list[jax.Array]:
    """One seat's observation as consecutive blocks float32[N, ...]."""
    players = rules.num_players
    order = [(seat + k) % players for k in range(players)]
    color_of, rank_of = _hand_masks(rules)
    hands = [
        ((state.colors[:, p, None] & color_of) != 0) & ((state.ranks[:, p, None] & rank_of) != 0)
        for p in order[1:]
    ]

    def from_here(who: jax.Array, known: jax.Array) -> jax.Array:
        place = jnp.where(who < seat, who + (players - seat), who - seat)
        return jnp.where(known, bit(place), 0)

    words = _materialize_fields(
        [
            *[(table.missing[p], 1) for p in order],
            *table.board,
            (from_here(table.actor, table.moved), players),
            (table.kind, 4),
            (from_here(table.target, table.hinted), players),
            *table.move,
        ]
    )
    pairs = [words[i : i + 2] for i in range(0, len(words), 2)]
    if len(pairs) > 1 and len(pairs[-1]) == 1:
        pairs[-2:] = [pairs[-2] + pairs[-1]]
    blocks = [block.astype(jnp.float32) for block in [*hands, *map(_spread, pairs)]]
    return blocks + [
        _belief(rules, state, table, p, s) for p in order for s in range(rules.hand_size)
    ]


def _spread(words: Sequence[Field]) -> jax.Array:
    """All bits of a few words, bool[N, sum of widths]."""
    size = sum(width for _, width in words)
    bits, start = [], 0
    for word, width in words:
        mask = np.zeros(size, np.uint32)
        mask[start : start + width] = 1 << np.arange(width)
        bits.append(word[:, None] & mask)
        start += width
    return union(bits) != 0


def _hand_masks(rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """Bit in the hand words of colours and of ranks for each of a hand's ``H * K`` card
    features."""
    slot, card = np.divmod(np.arange(rules.hand_size * rules.num_cards), rules.num_cards)
    color, rank = np.divmod(card, rules.num_ranks)
    by_color, by_rank = (1 << (group * rules.hand_size + slot) for group in (color, rank))
    return by_color.astype(np.uint32), by_rank.astype(np.uint32)


def _belief(rules: Rules, state: State, table: _Common, seat: int, slot: int) -> jax.Array:
    """Belief and hints of one card: float32[N, K + C + R].

    Each number is 1 if all of a few bits of the two hand words are set: for a card, its possible
    colour and rank; for a hint, a possible colour and its mark as named.
    """
    hand, colors, ranks = rules.hand_size, rules.num_colors, rules.num_ranks
    color, rank = np.divmod(np.arange(rules.num_cards), ranks)
    possible_color, possible_rank = 1 << (color * hand + slot), 1 << (rank * hand + slot)
    named_color = 1 << (np.arange(colors) * hand + slot) | 1 << (colors * hand + slot)
    named_rank = 1 << (np.arange(ranks) * hand + slot) | 1 << (ranks * hand + slot)
    of_colors = np.concatenate([possible_color, named_color, np.zeros(ranks, int)]).astype(
        np.uint32
    )
    of_ranks = np.concatenate([possible_rank, np.zeros(colors, int), named_rank]).astype(np.uint32)
    is_card = np.arange(rules.card_features) < rules.num_cards

    yes = (state.possible_colors[:, seat, None] & of_colors) == of_colors
    yes &= (state.possible_ranks[:, seat, None] & of_ranks) == of_ranks
    return jnp.where(
        yes, table.remaining * jnp.where(is_card, table.weight[seat, slot][:, None], 1.0), 0.0
    )
