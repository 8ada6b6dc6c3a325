"""The canonical observation of Hanabi: what each seat sees, in the layout of jaxmarl 0.2 (and HLE's canonical encoder).

One observation is, in this order (``P`` players, hands of ``H``, ``C`` colours, ``R`` ranks, ``K = C * R`` different cards):

- the other players' cards, next player first, ``(P-1) * H * K``; who is missing a card, ``P``;
- the deck as a thermometer; the top card of each firework, ``K``; information and life tokens as thermometers;
- the discards: for each colour and rank a thermometer as long as there are copies;
- the last move: who, ``P``; play, discard, colour or rank hint, ``4``; target, ``P``; colour, ``C``; rank, ``R``; slots touched,
  ``H``; slot played or discarded, ``H``; that card, ``K``; whether it scored; whether it gave a token;
- for each card on the table, own hand first: what it can be, ``K`` (V0 belief: the cards its hints allow, weighted by the copies
  neither played nor discarded, summing to 1); the colours, ``C``, and ranks, ``R``, it was hinted as.

Players are counted from the observer. Every piece is a few bits of a word or one block for a card, written in place into the
result: on a CPU that is several times faster than concatenating the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from hanabi_rl.env.game import Rules
from hanabi_rl.env.rules import State
from hanabi_rl.env.words import any_of, bit, count, unpack_bits

Rotate = Callable[[Sequence[jax.Array], int], jax.Array]
"""``rotate(by_seat, k)``: of arrays ``[N]`` or ``[N, F]``, one a seat, the one belonging to the k-th player after each observer."""


def sections(rules: Rules) -> dict[str, slice]:
    """Where each part of an observation lies along its last axis, in order."""
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


def observe(rules: Rules, state: State) -> jax.Array:
    """What every seat sees: float32[N, P, O], ``O = rules.obs_size``, seats in absolute order."""
    players = rules.num_players

    def rotate(by_seat: Sequence[jax.Array], k: int) -> jax.Array:
        return jnp.stack([by_seat[(seat + k) % players] for seat in range(players)], axis=1)

    return _encode(rules, state, (state.player.shape[0], players), rotate, jnp.arange(players))


def observe_seat(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """What one seat ``int32[N]`` of each game sees: float32[N, O], bit-equal to ``observe(rules, state)[n, seat[n]]``."""
    players = rules.num_players

    def rotate(by_seat: Sequence[jax.Array], k: int) -> jax.Array:
        chosen = by_seat[k]
        for observer in range(1, players):
            here = seat == observer
            chosen = jnp.where(here if chosen.ndim == 1 else here[:, None], by_seat[(observer + k) % players], chosen)
        return chosen

    return _encode(rules, state, seat.shape, rotate, seat)


def _encode(rules: Rules, state: State, rows: tuple[int, ...], rotate: Rotate, seat: jax.Array) -> jax.Array:
    """Write every piece of the observation; `rows` is ``(N, P)`` or ``(N,)`` and `seat` the observer of each row."""
    players, hand = rules.num_players, rules.hand_size
    out = jax.lax.empty((*rows, rules.obs_size), jnp.float32)
    offset = 0

    def write(block: jax.Array) -> None:
        nonlocal out, offset
        block = jnp.broadcast_to(block, (*rows, block.shape[-1]))
        out = jax.lax.dynamic_update_slice_in_dim(out, block, offset, axis=-1)
        offset += block.shape[-1]

    def shared(block: jax.Array) -> jax.Array:
        return block if len(rows) == 1 else block[:, None]

    for k in range(1, players):
        for s in range(hand):
            write(unpack_bits(rotate([state.hands[:, p, s] for p in range(players)], k), rules.num_cards))
    incomplete = [any_of([state.hands[:, p, s] == 0 for s in range(hand)]) for p in range(players)]
    write(jnp.stack([rotate(incomplete, k) for k in range(players)], axis=-1).astype(jnp.float32))

    write(shared(_board(rules, state)))
    write(shared(_discards(rules, state)))
    write(_last_action(rules, state, shared, seat))

    beliefs = _beliefs(rules, state)
    for k in range(players):
        for s in range(hand):
            write(rotate([beliefs[p][s] for p in range(players)], k))
    return out


def _thermometer(level: jax.Array, size: int) -> jax.Array:
    """float32[N, size]: as many ones as `level` [N] says, then zeros."""
    return (jnp.arange(size) < level[:, None]).astype(jnp.float32)


def _board(rules: Rules, state: State) -> jax.Array:
    """The deck, the top of each firework and the tokens, float32[N, ...]."""
    below_another = (state.fireworks >> 1) & ~jnp.uint32(rules.rank_cards[-1])
    return jnp.concatenate(
        [
            _thermometer(state.deck_left, rules.deck_size - rules.num_players * rules.hand_size),
            unpack_bits(state.fireworks & ~below_another, rules.num_cards),
            _thermometer(state.info_tokens, rules.max_info_tokens),
            _thermometer(state.life_tokens, rules.max_life_tokens),
        ],
        axis=-1,
    )


def _discards(rules: Rules, state: State) -> jax.Array:
    """The discards, float32[N, deck_size]: a thermometer for each colour and rank."""
    places = [
        (plane, color * rules.num_ranks + rank)
        for color in range(rules.num_colors)
        for rank, copies in enumerate(rules.num_cards_of_rank)
        for plane in range(copies)
    ]
    plane_of = jnp.array([plane for plane, _ in places], jnp.uint32)
    bit_of = jnp.array([card for _, card in places], jnp.uint32)
    word = any_of(
        [jnp.where(plane_of == j, state.discards[:, j, None], 0) for j in range(state.discards.shape[1])]
    )
    return ((word >> bit_of) & 1).astype(jnp.float32)


def _last_action(
    rules: Rules, state: State, shared: Callable[[jax.Array], jax.Array], seat: jax.Array
) -> jax.Array:
    """The last move, float32[N, (P,) ...]; all zeros before the first one."""
    players, hand, colors, ranks = rules.num_players, rules.hand_size, rules.num_colors, rules.num_ranks
    moved = state.turn > 0
    action = state.last_action.astype(jnp.int32)
    actor = (state.player + (players - 1)) % players
    is_discard = action < hand
    is_play = ~is_discard & (action < 2 * hand)
    hint = action - 2 * hand
    is_color = (hint >= 0) & (hint < (players - 1) * colors)
    is_rank = (hint >= (players - 1) * colors) & (action != rules.noop)
    value = jnp.where(is_color, hint, hint - (players - 1) * colors)
    width = jnp.where(is_color, colors, ranks)
    offset = sum(((value >= k * width).astype(jnp.int32) for k in range(1, players - 1)), jnp.int32(1))
    target = (actor + offset) % players
    value = value - (offset - 1) * width

    kind = any_of([jnp.where(f, jnp.uint32(1 << i), 0) for i, f in enumerate((is_play, is_discard, is_color, is_rank))])
    color = jnp.where(is_color, bit(value & 31), 0)
    rank = jnp.where(is_rank, bit(value & 31), 0)
    slot = jnp.where(is_discard | is_play, bit(jnp.where(is_discard, action, action - hand) & 31), 0)
    outcome = state.last_scored.astype(jnp.uint32) | state.last_gained_token.astype(jnp.uint32) << 1

    def one_seat(who: jax.Array, known: jax.Array) -> jax.Array:
        word = jnp.where(shared(known), bit((shared(who.astype(jnp.int32)) - seat) % players), 0)
        return unpack_bits(word, players)

    def common(word: jax.Array, width: int) -> jax.Array:
        return shared(unpack_bits(jnp.where(moved, word, 0), width))

    pieces = [
        one_seat(actor, moved),
        common(kind, 4),
        one_seat(target, moved & (is_color | is_rank)),
        common(color, colors),
        common(rank, ranks),
        common(state.last_touched.astype(jnp.uint32), hand),
        common(slot, hand),
        common(state.last_card, rules.num_cards),
        common(outcome, 2),
    ]
    rows = pieces[0].shape[:-1]
    return jnp.concatenate([jnp.broadcast_to(piece, (*rows, piece.shape[-1])) for piece in pieces], axis=-1)


def _beliefs(rules: Rules, state: State) -> list[list[jax.Array]]:
    """For each seat and slot, float32[N, K + C + R]: what the card can be, and its hints."""
    remaining, planes = _remaining(rules, state)
    beliefs = []
    for p in range(rules.num_players):
        row = []
        for s in range(rules.hand_size):
            known = state.knowledge[:, p, s]
            total = sum(count(known & plane) for plane in planes)
            # An empty slot can be nothing: dividing its zeros by 1 keeps them zeros.
            share = remaining / jnp.maximum(total, 1).astype(jnp.float32)[:, None]
            can_be = jnp.where(unpack_bits(known, rules.num_cards, jnp.bool_), share, 0.0)
            hinted = unpack_bits(state.hints[:, p, s].astype(jnp.uint32), rules.num_colors + rules.num_ranks)
            row.append(jnp.concatenate([can_be, hinted], axis=-1))
        beliefs.append(row)
    return beliefs


def _remaining(rules: Rules, state: State) -> tuple[jax.Array, list[jax.Array]]:
    """Copies of each card neither played nor discarded: as float32[N, K], and as planes of sets uint32[N]."""
    used = []
    card = state.fireworks
    for j in range(state.discards.shape[1]):
        used.append(state.discards[:, j] | card)
        card = card & state.discards[:, j]
    planes = [jnp.uint32(full) & ~gone for full, gone in zip(rules.full_planes, used, strict=True)]
    copies = jnp.array(rules.num_cards_of_rank * rules.num_colors, jnp.float32)
    return copies - sum(unpack_bits(gone, rules.num_cards) for gone in used), planes
