"""Legal actions of a batch of games: as bits, as masks for one seat or all, and a random one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import (
    WORD_BITS,
    count,
    kth_bit,
    pack_fields,
    union,
    unpack_bits,
)
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.state import State


def legal_words(rules: Rules, state: State) -> list[tuple[jax.Array, int]]:
    """Legal actions of the current player as bits, first action lowest, in words ``(uint32[N], bits
    used)`` of up to 31 bits.

    The no-op, never legal for the current player, has no bit.
    """
    hand, player = rules.hand_size, state.player
    mine = of_seat(state.ranks, player)
    held = union([mine >> (rank * hand) for rank in range(rules.num_ranks)]) & rules.all_slots
    can_hint = state.info_tokens > 0
    color_hints, rank_hints = [], []
    for offset in range(1, rules.num_players):
        target = wrap(player + offset, rules.num_players)
        has_color = _groups_held(of_seat(state.colors, target), rules.num_colors, rules)
        has_rank = _groups_held(of_seat(state.ranks, target), rules.num_ranks, rules)
        color_hints.append((jnp.where(can_hint, has_color, 0), rules.num_colors))
        rank_hints.append((jnp.where(can_hint, has_rank, 0), rules.num_ranks))
    discards = jnp.where(state.info_tokens < rules.max_info_tokens, held, 0)
    words = pack_fields([(discards, hand), (held, hand), *color_hints, *rank_hints])
    return [(materialize(word), width) for word, width in words]


def of_seat(hand_words: jax.Array, seat: jax.Array) -> jax.Array:
    """Hand word of one seat in each game: uint32[N, P], [N] -> uint32[N]."""
    here = jnp.arange(hand_words.shape[1]) == seat[:, None]
    return jnp.sum(jnp.where(here, hand_words, 0), axis=1, dtype=jnp.uint32)


def _groups_held(word: jax.Array, groups: int, rules: Rules) -> jax.Array:
    """Bit g is 1 if a slot of the hand word is in group g."""
    group = rules.all_slots
    return union(
        [
            ((word >> (g * rules.hand_size)) & group != 0).astype(jnp.uint32) << g
            for g in range(groups)
        ]
    )


def wrap(seat: jax.Array, players: int) -> jax.Array:
    """`seat` modulo `players`, for seats below twice that: cheaper than a remainder."""
    return jnp.where(seat >= players, seat - players, seat)


def legal_for_current_player(rules: Rules, state: State) -> jax.Array:
    """Legal actions of the current player, bool[N, A]."""
    return unpack_bits([*legal_words(rules, state), (jnp.zeros_like(state.counters), 1)])


def legal_actions(rules: Rules, state: State) -> jax.Array:
    """Legal actions of every seat, bool[N, P, A], in absolute seat order; an idle seat has only the
    no-op."""
    moving = jnp.arange(rules.num_players) == state.player[:, None]
    only_noop = jnp.arange(rules.num_actions) == rules.noop
    return jnp.where(
        moving[:, :, None], legal_for_current_player(rules, state)[:, None, :], only_noop
    )


def legal_for_seat(rules: Rules, state: State, seat: jax.Array) -> jax.Array:
    """Legal actions bool[N, A] of one seat ``int32[N]`` in each game."""
    only_noop = jnp.arange(rules.num_actions) == rules.noop
    return jnp.where(
        (seat == state.player)[:, None], legal_for_current_player(rules, state), only_noop
    )


def is_legal(rules: Rules, state: State, action: jax.Array) -> jax.Array:
    """True if ``action`` [N] (any integer dtype) is legal for the current player: bool[N]."""
    word_index, place = action // WORD_BITS, (action % WORD_BITS).astype(jnp.uint32)
    words = legal_words(rules, state)
    return union(
        [(word_index == i) & ((word >> place) & 1 != 0) for i, (word, _) in enumerate(words)]
    )


def random_legal_action(rules: Rules, state: State, key: jax.Array) -> jax.Array:
    """Uniformly random legal action of the current player, int32[N]; 0 if there is none.

    One 16-bit random number per game selects the k-th legal action, so probabilities are off by at
    most 1/65,536.
    """
    games = state.counters.shape[0]
    random = jax.random.bits(key, ((games + 1) // 2,), jnp.uint32)
    random = jnp.concatenate([random & 0xFFFF, random >> 16])[:games]
    words = legal_words(rules, state)
    counts = [count(word) for word, _ in words]
    k = (random * sum(counts, jnp.int32(0)).astype(jnp.uint32) >> 16).astype(jnp.int32)
    action, first = jnp.zeros_like(k), 0
    for (word, width), legal in zip(words, counts, strict=True):
        action = jnp.where((k >= 0) & (k < legal), first + kth_bit(word, k), action)
        k, first = k - legal, first + width
    return action
