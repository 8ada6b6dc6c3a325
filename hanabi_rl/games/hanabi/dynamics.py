"""Rules of Hanabi as pure functions over a batch of games.

Nothing loops over games or branches: every field of `State` has a leading axis of ``N`` games, and
each function is a sequence of integer operations on whole arrays, without `lax.cond`, gather or
scatter. So one CPU core plays millions of moves per second.

Seats, actions and scoring follow jaxmarl 0.2, which follows the Hanabi Learning Environment: a game
scores 0 when the last life is lost. `tests/games/hanabi/test_equals_jaxmarl.py` compares each step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi import cards
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.bits import bit, card_at, count, pack_fields, union
from hanabi_rl.games.hanabi.cards import next_cards
from hanabi_rl.games.hanabi.legality import (
    is_legal,
    legal_actions,
    legal_for_current_player,
    legal_for_seat,
    legal_words,
    of_seat,
    random_legal_action,
    wrap,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State, deal, deal_packed, pack_counters, pack_last

__all__ = [
    "Rules",
    "State",
    "critical_cards",
    "current_player",
    "deal",
    "deal_packed",
    "finished",
    "is_legal",
    "legal_actions",
    "legal_for_current_player",
    "legal_for_seat",
    "legal_words",
    "next_cards",
    "points",
    "random_legal_action",
    "score",
    "step",
    "useless_cards",
]


def current_player(state: State) -> jax.Array:
    """The seat ``int32[N]`` whose turn it is."""
    return state.player


def points(rules: Rules, state: State) -> jax.Array:
    """Cards on the fireworks ``int32[N]``, independent of lives."""
    return count(state.fireworks)


def score(rules: Rules, state: State) -> jax.Array:
    """Current score ``int32[N]``: the points, or 0 after the last life is lost."""
    return jnp.where(state.life_tokens > 0, points(rules, state), 0)


def finished(rules: Rules, state: State) -> jax.Array:
    """bool[N]: no lives left, all fireworks complete, or every player moved once after the last
    draw."""
    return _is_over(rules, state.fireworks, state.life_tokens, state.last_round)


def _is_over(
    rules: Rules, fireworks: jax.Array, life_tokens: jax.Array, last_round: jax.Array
) -> jax.Array:
    return (life_tokens == 0) | (fireworks == rules.all_cards) | (last_round > rules.num_players)


def useless_cards(rules: Rules, state: State) -> jax.Array:
    """Cards that can never score again, uint32[...] (`cards.useless_cards`)."""
    return cards.useless_cards(
        rules, state.fireworks, cards.exhausted_cards(rules, state.discard_planes)
    )


def critical_cards(rules: Rules, state: State) -> jax.Array:
    """Last copies that can still score, uint32[...]."""
    single = cards.last_copies(rules, state.discard_planes)
    return single & ~useless_cards(rules, state)


class _Move(NamedTuple):
    """A move and its effects; every field uint32[N], kinds and effects 0 or 1. An illegal move has
    no kind."""

    legal: jax.Array
    over: jax.Array  # the game had ended; no effect
    is_discard: jax.Array
    is_play: jax.Array
    is_color_hint: jax.Array
    is_rank_hint: jax.Array
    scored: jax.Array
    gained_token: jax.Array
    life_lost: jax.Array
    slot: jax.Array  # played or discarded slot
    card: jax.Array  # card id in the slot
    target: jax.Array  # hinted seat
    value: jax.Array  # hinted colour or rank


# bits of each field of a move
_MOVE_WIDTHS: tuple[int, ...] = (
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    3,
    5,
    3,
    4,
)


def step(rules: Rules, state: State, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
    """Play one move in every game, without auto-reset.

    An illegal action costs a life, moves no card, gives no token and passes the turn, so that a
    game always ends. A finished game does not change: its reward is 0 and done stays true.

    Args:
        action: ``int32[N]``, action of the current player.

    Returns:
        (next state, reward ``float32[N]``, done ``bool[N]``). The reward is the points gained;
            losing
        the last life takes back all of them.
    """
    move = _judge(rules, state, action)
    takes = (move.is_play | move.is_discard) != 0
    scored, goes_on = move.scored != 0, move.over == 0
    card = jnp.where(takes, bit(move.card), 0)
    fireworks = jnp.where(scored, state.fireworks | card, state.fireworks)

    hands, touched = _hands_after(rules, state, move, takes)
    deck_left = state.deck_left - (takes & (state.deck_left > 0))
    life_tokens = state.life_tokens - move.life_lost.astype(jnp.int32)
    last_round = state.last_round + (goes_on & (deck_left == 0))
    info_change = (move.is_discard + move.gained_token).astype(jnp.int32) - (
        move.is_color_hint | move.is_rank_hint
    )
    last = pack_last(
        turn=state.turn + 1,
        action=jnp.where(move.legal != 0, action, rules.noop),
        card=jnp.where(takes, move.card, 0),
        touched=touched,
        scored=move.scored,
        gained_token=move.gained_token,
    )
    after = state.replace(
        **hands,
        fireworks=fireworks,
        discards=_discards_after(state.discards, jnp.where(scored, 0, card)),
        counters=pack_counters(
            deck_left=deck_left,
            info_tokens=state.info_tokens + info_change,
            life_tokens=life_tokens,
            player=jnp.where(goes_on, wrap(state.player + 1, rules.num_players), state.player),
            last_round=last_round,
        ),
        last=jnp.where(goes_on, last, state.last),
    )
    bombed = (move.life_lost != 0) & (life_tokens == 0)
    reward = jnp.where(bombed, -count(fireworks), scored).astype(jnp.float32)
    return after, reward, _is_over(rules, fireworks, life_tokens, last_round)


def _judge(rules: Rules, state: State, action: jax.Array) -> _Move:
    """Decode actions [N] and compute their effects on tokens and fireworks."""
    players, hand, colors, ranks = (
        rules.num_players,
        rules.hand_size,
        rules.num_colors,
        rules.num_ranks,
    )
    asked = decode(rules, action)
    over = finished(rules, state)
    possible = is_legal(rules, state, action)
    legal = possible & ~over
    is_play = legal & asked.is_play
    color = _group_of_slot(of_seat(state.colors, state.player), asked.slot, colors, hand)
    rank = _group_of_slot(of_seat(state.ranks, state.player), asked.slot, ranks, hand)
    card = color * ranks + rank
    scored = is_play & (bit(card & 31) & next_cards(rules, state.fireworks) != 0)
    move = _Move(
        legal=legal,
        over=over,
        is_discard=legal & asked.is_discard,
        is_play=is_play,
        is_color_hint=legal & asked.is_color_hint,
        is_rank_hint=legal & asked.is_rank_hint,
        scored=scored,
        gained_token=scored & (rank == ranks - 1) & (state.info_tokens < rules.max_info_tokens),
        life_lost=(is_play & ~scored) | ~(possible | over),
        slot=asked.slot,
        card=card,
        target=wrap(state.player + asked.offset.astype(jnp.int32), players),
        value=asked.value,
    )
    return _materialize_move(move)


def _group_of_slot(word: jax.Array, slot: jax.Array, groups: int, hand: int) -> jax.Array:
    """Group uint32[N] of slot [N] in a hand word [N]."""
    in_slot = word >> jnp.minimum(slot, hand - 1)
    return union(
        [jnp.where((in_slot >> (g * hand)) & 1 != 0, jnp.uint32(g), 0) for g in range(groups)]
    )


def _materialize_move(move: _Move) -> _Move:
    """Pass a move through one materialised word, from which all arrays of the next state are
    computed."""
    fields = [
        (field.astype(jnp.uint32) & ((1 << w) - 1), w)
        for field, w in zip(move, _MOVE_WIDTHS, strict=True)
    ]
    ((word, _),) = pack_fields(fields)
    word = materialize(word)
    places = [sum(_MOVE_WIDTHS[:i]) for i in range(len(_MOVE_WIDTHS))]
    return _Move(
        *[(word >> place) & ((1 << w) - 1) for place, w in zip(places, _MOVE_WIDTHS, strict=True)]
    )


def _hands_after(
    rules: Rules, state: State, move: _Move, takes: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Hand words after a move, by field of State, and the slots touched by a hint (uint32[N])."""
    hand, colors, ranks = rules.hand_size, rules.num_colors, rules.num_ranks
    seats = jnp.arange(rules.num_players)
    drawing = takes[:, None] & (seats == state.player[:, None])
    hinted = seats == move.target[:, None]

    place = move.value * hand
    of_color = jnp.where(move.is_color_hint != 0, of_seat(state.colors, move.target), 0)
    of_rank = jnp.where(move.is_rank_hint != 0, of_seat(state.ranks, move.target), 0)
    touched = materialize(((of_color | of_rank) >> place) & rules.all_slots)

    draws = state.deck_left > 0
    new_card = materialize(card_at(state.deck, rules.deck_size - state.deck_left))

    def redrawn(word: jax.Array, groups: int, new_groups: jax.Array) -> jax.Array:
        """Close the gap at `move.slot` and fill the last slot with new groups (a hand word [N] of
        slot 0)."""
        every = sum(1 << (g * hand) for g in range(groups))
        before = ((bit(move.slot) - 1) * every)[:, None]
        moved_down = (word >> 1) & ~before & (every * (rules.all_slots >> 1))
        return (word & before) | moved_down | jnp.where(draws, new_groups << (hand - 1), 0)[:, None]

    def told(word: jax.Array, groups: int, is_hint: jax.Array) -> jax.Array:
        """Touched slots keep only the hinted group and are marked as named; others lose it."""
        every = sum(1 << (g * hand) for g in range(groups))
        ruled_out = (touched * every) ^ (jnp.uint32(rules.all_slots) << place)
        now = (word & ~ruled_out[:, None]) | (touched << (groups * hand))[:, None]
        return jnp.where(hinted & (is_hint != 0)[:, None], now, word)

    def unknown(groups: int) -> jax.Array:
        return jnp.uint32(sum(1 << (g * hand) for g in range(groups)))

    maybe_colors, maybe_ranks = state.possible_colors, state.possible_ranks
    new_color, new_rank = bit(new_card // ranks * hand), bit(new_card % ranks * hand)
    hands = {
        "colors": jnp.where(drawing, redrawn(state.colors, colors, new_color), state.colors),
        "ranks": jnp.where(drawing, redrawn(state.ranks, ranks, new_rank), state.ranks),
        "possible_colors": jnp.where(
            drawing,
            redrawn(maybe_colors, colors + 1, unknown(colors)),
            told(maybe_colors, colors, move.is_color_hint),
        ),
        "possible_ranks": jnp.where(
            drawing,
            redrawn(maybe_ranks, ranks + 1, unknown(ranks)),
            told(maybe_ranks, ranks, move.is_rank_hint),
        ),
    }
    return hands, touched


def _discards_after(planes: jax.Array, card: jax.Array) -> jax.Array:
    """Add a one-card set (or 0) [N] to the discard planes uint32[N, M], on the first plane without
    it."""
    plane = jnp.arange(planes.shape[1])
    added = card[:, None]
    for below in range(planes.shape[1] - 1):
        added = jnp.where(plane > below, added & planes[:, below, None], added)
    return planes | added
