"""Common parts of O'Dwyer's bots: table before and after the last move, shifts of slots, hints.

Unbatched. Rows are seats relative to the observer; a single card is a set of one (``uint32``), as
in `SeatObservation`. *Hint values* are the ``V = C + R`` colours, then ranks; *partners* are the
other seats, next player first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.actions import Moves, action_slices, encode
from hanabi_rl.games.hanabi.bits import count, tally
from hanabi_rl.games.hanabi.cards import last_copies as single_copies
from hanabi_rl.games.hanabi.cards import without_copy
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


def board_before(seen: SeatObservation) -> SeatObservation:
    """With the table (fireworks, discards, deck, tokens) as before the last move, at which the
    original bots are notified; hands and last move are unchanged."""
    last = seen.last
    took = jnp.any(last.slot)
    drew = took & jnp.any(last.actor & (seen.knowledge[:, -1] != 0))
    gained = last.gained_token | (took & ~last.is_play)
    wasted = took & ~last.scored
    return seen._replace(
        played=jnp.where(last.scored, seen.played & ~last.card, seen.played),
        discards=jnp.stack(without_copy(seen.discards, jnp.where(wasted, last.card, 0))),
        info=seen.info + last.is_hint - gained,
        deck=seen.deck + drew,
    )


def piles(rules: Rules, board: SeatObservation) -> jax.Array:
    """Height of each firework: int32[C]."""
    return count(board.played & jnp.array(rules.color_cards, jnp.uint32))


def copies_left(rules: Rules, board: SeatObservation) -> jax.Array:
    """Copies of each card neither played nor discarded: int32[K]."""
    gone = tally(rules, board.discards) + tally(rules, board.played)
    return jnp.array(rules.num_copies) - gone


def last_copies(rules: Rules, board: SeatObservation) -> jax.Array:
    """Cards not played yet with one copy left, reachable or not: uint32[]."""
    return single_copies(rules, board.discards) & ~board.played


def color_of(rules: Rules, card: jax.Array) -> jax.Array:
    """Colour of a set of one; -1 for the empty set."""
    return jnp.where(card == 0, -1, count(card - 1) // rules.num_ranks)


def rank_of(rules: Rules, card: jax.Array) -> jax.Array:
    """Rank, from 0, of a set of one; -1 for the empty set."""
    return jnp.where(card == 0, -1, count(card - 1) % rules.num_ranks)


def subset(cards: jax.Array, of: jax.Array) -> jax.Array:
    """True if every card is also in `of`."""
    return (cards & ~of) == 0


def in_set(cards: jax.Array, of: jax.Array) -> jax.Array:
    """True if any card is also in `of`."""
    return (cards & of) != 0


def first_where(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """First true slot of ``bool[..., H]``, int32[...], and True if there is one."""
    return jnp.argmax(mask, axis=-1), jnp.any(mask, axis=-1)


def at_slot(slot: jax.Array, there: jax.Array, hand_size: int) -> jax.Array:
    """Mask of the slot ``int32[...]`` where `there`: bool[..., H]."""
    return (jnp.arange(hand_size) == slot[..., None]) & there[..., None]


class LastHint(NamedTuple):
    """The last move as a hint; touches nothing if it was another move."""

    touched: jax.Array  # bool[P, H]
    untouched: jax.Array  # bool[P, H]: other cards of the target
    cards: jax.Array  # uint32[]: all cards of the hinted colour or rank
    is_color: jax.Array  # bool[]
    is_rank: jax.Array  # bool[]
    # bool[]: a rank hint that only passes the turn: with all tokens, from the player after its
    # target, touching the target's oldest card
    reclaim: jax.Array
    to_next: jax.Array  # bool[]: the target is the next player after the giver


def last_hint(rules: Rules, seen: SeatObservation) -> LastHint:
    """Decode the last move as a hint."""
    last = seen.last
    of_target = last.target[:, None] & (seen.knowledge != 0)
    after_target = jnp.any(jnp.roll(last.target, 1) & last.actor)
    full = seen.info == rules.max_info_tokens - 1
    return LastHint(
        touched=of_target & last.touched,
        untouched=of_target & ~last.touched,
        cards=last.hinted,
        is_color=last.is_hint & ~last.is_rank_hint,
        is_rank=last.is_rank_hint,
        reclaim=last.is_rank_hint & full & after_target & last.touched[0],
        to_next=jnp.any(jnp.roll(last.actor, 1) & last.target),
    )


def touches(rules: Rules, seen: SeatObservation) -> jax.Array:
    """Cards that each hint would touch: bool[P-1, V, H]."""
    return (seen.hands[1:, None] & jnp.array(rules.hint_cards, jnp.uint32)[:, None]) != 0


def hint_action(rules: Rules, partner: jax.Array | int, value: jax.Array | int) -> jax.Array:
    """Action that gives `partner` (0 is the next player) a hint: int32[]."""
    by_color = jnp.asarray(value) < rules.num_colors
    no = jnp.zeros_like(by_color)
    of_kind = jnp.where(by_color, value, value - rules.num_colors)
    after_mover = jnp.asarray(partner) + 1
    slot = jnp.zeros_like(of_kind)
    return encode(rules, Moves(no, no, by_color, ~by_color, slot, after_mover, of_kind))


def play_action(rules: Rules, slot: jax.Array) -> jax.Array:
    """Action that plays a slot: int32[]."""
    return action_slices(rules)["play"].start + slot


def rank_value(rules: Rules, card: jax.Array) -> jax.Array:
    """Hint value of a card's rank: int32[]."""
    return rules.num_colors + rank_of(rules, card)


def best_hint(worth: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Index of the first best hint of ``[..., V]`` for each partner, and its value."""
    return jnp.argmax(worth, axis=-1), jnp.max(worth, axis=-1)


def reclaim_action(rules: Rules, seen: SeatObservation) -> jax.Array:
    """Hint that passes the turn with all tokens: the rank of the previous player's oldest card."""
    return hint_action(rules, rules.num_players - 2, rank_value(rules, seen.hands[-1, 0]))


def pick(*choices: tuple[jax.Array, jax.Array], otherwise: jax.Array) -> jax.Array:
    """First action of ``(condition, action)`` pairs with a true condition: int32[]."""
    action = otherwise
    for holds, this in reversed(choices):
        action = jnp.where(holds, this, action)
    return action.astype(jnp.int32)
