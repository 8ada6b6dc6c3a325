"""Fourteen event features of a move, from the state before it: behaviours that distinguish partners
(event features of ZSC-Eval, Wang et al., arXiv 2310.05208; those for Hanabi are ours).

*Playable*: next card of a firework. *Useful*: not played and still reachable. *Last copy*: useful,
with one copy left. A slot is *hinted* if a hint named its colour or rank; the *chop* is the oldest
slot that is not hinted.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.dynamics import critical_cards, next_cards
from hanabi_rl.games.hanabi.legality import of_seat
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State

EVENTS = (
    "hint_color",  # any colour hint
    "hint_rank",  # any rank hint
    "hint_playable",  # hint on a playable card that was not hinted before
    "hint_save",  # hint on the receiver's chop, a last copy that is not playable
    "hint_repeated",  # hint on slots that were all hinted before
    "play_known",  # play of a slot that by its hints alone must be playable
    "play_blind",  # play of a slot without hints
    "play_after_hint",  # play of a slot touched by a hint in the move just before
    "play_newest",  # such a play of the newest slot that the hint touched
    "misplay",  # play of an unplayable card: a life is lost
    "discard_chop",  # discard of the chop
    "discard_hinted",  # discard of a hinted slot
    "discard_many_tokens",  # discard with at least half of the information tokens
    "discard_last_copy",  # discard of a last copy
)
"""Names along the last axis of `detect_events`, E = 14."""


class _Hand(NamedTuple):
    """One seat's hand in each of N games, slot by slot, oldest first."""

    cards: jax.Array  # uint32[N, H], one-card sets; 0 for an empty slot
    possible: jax.Array  # uint32[N, H], possible cards by hints
    hinted: jax.Array  # bool[N, H]

    @property
    def chop(self) -> jax.Array:
        """bool[N, H]: True for the chop; False everywhere if all cards are hinted."""
        free = (self.cards != 0) & ~self.hinted
        return free & (jnp.cumsum(free, axis=1) == 1)


@functools.partial(jax.jit, static_argnums=0)
def detect_events(rules: Rules, state: State, action: jax.Array) -> jax.Array:
    """Events of a move.

    Args:
        rules: the game; static.
        state: N games before the move, with or without the hidden deck.
        action: int32[N], legal action of the current player; a no-op has no events.

    Returns:
        bool[N, E].
    """
    move = decode(rules, action)
    playable = next_cards(rules, state.fireworks)[:, None]
    last_copy = critical_cards(rules, state)[:, None]

    receiver = (state.player + move.offset.astype(jnp.int32)) % rules.num_players
    told = _hand(state, receiver)
    named = jnp.where(
        move.is_color_hint,
        jnp.array(rules.color_cards, jnp.uint32)[jnp.minimum(move.value, rules.num_colors - 1)],
        jnp.array(rules.rank_cards, jnp.uint32)[jnp.minimum(move.value, rules.num_ranks - 1)],
    )
    touched = move.is_hint[:, None] & (told.cards & named[:, None] != 0)
    on_playable = told.cards & playable != 0
    saved = told.chop & (told.cards & last_copy != 0) & ~on_playable

    own = _hand(state, state.player)
    slots = jnp.arange(rules.hand_size)
    here = slots == move.slot.astype(jnp.int32)[:, None]
    play, discard = here & move.is_play[:, None], here & move.is_discard[:, None]
    before = decode(rules, state.last_action)
    to_mover = before.is_hint & (before.offset == 1)
    hint = jnp.where(to_mover, state.last_touched, 0)[:, None]
    newest = (hint >> slots) == 1

    found = (
        move.is_color_hint,
        move.is_rank_hint,
        touched & ~told.hinted & on_playable,
        touched & saved,
        move.is_hint & ~(touched & ~told.hinted).any(axis=1),
        play & (own.possible & ~playable == 0),
        play & ~own.hinted,
        play & (hint >> slots & 1 != 0),
        play & newest,
        play & (own.cards & playable == 0),
        discard & own.chop,
        discard & own.hinted,
        move.is_discard & (2 * state.info_tokens >= rules.max_info_tokens),
        discard & (own.cards & last_copy != 0),
    )
    return jnp.stack([fact if fact.ndim == 1 else fact.any(axis=1) for fact in found], axis=1)


def _hand(state: State, seat: jax.Array) -> _Hand:
    """Hand of `seat` int32[N] in each game."""
    rules = state.rules
    words = (state.colors, state.ranks, state.possible_colors, state.possible_ranks)
    colors, ranks, maybe_colors, maybe_ranks = (of_seat(word, seat)[:, None] for word in words)
    alone = state.replace(
        colors=colors, ranks=ranks, possible_colors=maybe_colors, possible_ranks=maybe_ranks
    )
    slots = jnp.arange(rules.hand_size)
    marks = maybe_colors >> (rules.num_colors * rules.hand_size)
    marks |= maybe_ranks >> (rules.num_ranks * rules.hand_size)
    return _Hand(alone.hands[:, 0], alone.knowledge[:, 0], marks >> slots & 1 != 0)
