"""Fourteen events of a move, by which the behaviour of partners is told apart (ZSC-Eval, Wang et
al. 2024, section 4.1: the features phi of a move; the list for Hanabi is ours).

Each is a fact of one turn, of what everybody at the table but the mover can see. The *chop* is a
hand's oldest card without a hint, a *last copy* a useful card of which no other copy is left.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.structured.board import first_true, last_true, read_table
from hanabi_rl.agents.structured.sight import from_state
from hanabi_rl.env.actions import decode
from hanabi_rl.env.game import Rules
from hanabi_rl.env.rules import next_cards
from hanabi_rl.env.state import State
from hanabi_rl.measure.chunks import few_or_many, in_chunks, join_chunks, states_in_a_row
from hanabi_rl.measure.counted import movers

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

EVENTS = (
    "hint_color",
    "hint_rank",
    "hint_playable",  # touches, for the first time, a card that can be played now
    "hint_save",  # touches the receiver's chop, a last copy that cannot be played now
    "hint_again",  # every card touched had a hint before
    "play_known",  # of a card that can be played whatever, by its hints, it is
    "play_blind",  # of a card without a hint
    "play_response",  # of a card that the move just before, a hint to the mover, touched
    "play_newest",  # ... the newest that it touched
    "misplay",
    "discard_chop",
    "discard_hinted",
    "discard_rich",  # with at least half of the information tokens
    "discard_last_copy",
)


def move_events(rules: Rules, state: State, action: jax.Array) -> jax.Array:
    """bool[N, 14]: which of `EVENTS` legal moves are; none for a no-op.

    Args:
        state: N games before the moves.
        action: int32[N], the movers'.
    """
    done, seat = decode(rules, action), jnp.arange(rules.num_players)
    before = decode(rules, state.last_action)
    critical = read_table(rules, from_state(rules, state)).critical[:, None]
    next_up = next_cards(rules, state.fireworks)[:, None]  # lost or not

    def of_seat(cards: jax.Array, after: jax.Array) -> jax.Array:
        """[N, P, H] -> [N, H]: the hand of who sits `after` [N] seats after the mover."""
        there = seat == ((state.player + after) % rules.num_players)[:, None]
        return jnp.sum(jnp.where(there[..., None], cards, 0), axis=1, dtype=cards.dtype)

    hinted = (state.hints != 0).astype(jnp.uint32)
    own = jnp.zeros_like(state.player)
    there = done.offset.astype(jnp.int32)

    # of the hint's receiver
    hand, had = of_seat(state.hands, there), of_seat(hinted, there) != 0
    groups = jnp.array([*rules.color_cards, *rules.rank_cards], jnp.uint32)
    named = groups[done.value + jnp.where(done.is_rank_hint, rules.num_colors, 0)]
    touched = done.is_hint[:, None] & (hand & named[:, None] != 0)
    playable = hand & next_up != 0
    saved = (hand & critical != 0) & ~playable

    # of the card that the mover takes
    taken = jnp.arange(rules.hand_size) == done.slot[:, None].astype(jnp.int32)

    def at(of_slots: jax.Array) -> jax.Array:
        """bool[N]: of the card taken."""
        return jnp.any(taken & of_slots, axis=1)

    mine, had_mine = of_seat(state.hands, own), of_seat(hinted, own) != 0
    could_be = of_seat(state.knowledge, own)
    told = (before.is_hint & (before.offset == 1))[:, None] & (
        (state.last_touched[:, None] >> jnp.arange(rules.hand_size)) & 1 != 0
    )
    plays, discards = done.is_play, done.is_discard
    fits = mine & next_up != 0
    events = (
        done.is_color_hint,
        done.is_rank_hint,
        jnp.any(touched & ~had & playable, axis=1),
        jnp.any(touched & _chop(hand, had) & saved, axis=1),
        done.is_hint & ~jnp.any(touched & ~had, axis=1),
        plays & at(could_be & ~next_up == 0),
        plays & ~at(had_mine),
        plays & at(told),
        plays & at(last_true(told.T).T),
        plays & ~at(fits),
        discards & at(_chop(mine, had_mine)),
        discards & at(had_mine),
        discards & (2 * state.info_tokens >= rules.max_info_tokens),
        discards & at(mine & critical != 0),
    )
    return jnp.stack(events, axis=1)


def _chop(hand: jax.Array, hinted: jax.Array) -> jax.Array:
    """bool[N, H]: the oldest card of hands [N, H] without a hint."""
    return first_true(((hand != 0) & ~hinted).T).T


def event_counts(games: Games) -> np.ndarray:
    """int64[N, P, 14]: how often each seat's moves in recorded games were each of `EVENTS`."""
    chunks = in_chunks(few_or_many(len(games)), games.decks, games.actions, fill=True)
    (events,) = join_chunks([(_read_chunk(games.rules, *chunk),) for chunk in chunks], len(games))
    seats = movers(games)
    of_seats = [events[:, seats == seat].sum(axis=1) for seat in range(games.rules.num_players)]
    return np.stack(of_seats, axis=1).astype(np.int64)


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> jax.Array:
    """bool[n, T, 14] of n games."""
    states = states_in_a_row(rules, decks, actions)
    moves = jnp.asarray(actions, jnp.int32).T.reshape(-1)
    events = move_events(rules, states, moves)
    return jnp.swapaxes(events.reshape(actions.shape[1], actions.shape[0], len(EVENTS)), 0, 1)
