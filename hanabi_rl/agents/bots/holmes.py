"""`bot:holmes`: HolmesBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

It extends ValueBot with a set of possible cards per slot, reduced by exhausted cards, cards located
in hands, and the meaning of earlier hints.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.agents.bots.simple import newly_playable
from hanabi_rl.agents.bots.value import decide, lowest_missing, next_discards
from hanabi_rl.games.hanabi.bits import to_set
from hanabi_rl.games.hanabi.cards import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class Notes(NamedTuple):
    """Assumed knowledge of each card's owner."""

    possible: jax.Array  # uint32[P, H]: possible cards
    color: jax.Array  # int32[P, H]: -1 if unknown
    rank: jax.Array  # int32[P, H]: from 0; -1 if unknown
    playable: jax.Array  # bool[P, H]: playable now
    valuable: jax.Array  # bool[P, H]: last copy of a card not played yet
    worthless: jax.Array  # bool[P, H]: already played


def _blank(rules: Rules) -> Notes:
    nothing = jnp.bool_(False)
    return Notes(
        possible=jnp.uint32(rules.all_cards),
        color=jnp.int32(-1),
        rank=jnp.int32(-1),
        playable=nothing,
        valuable=nothing,
        worthless=nothing,
    )


def nothing_known(rules: Rules) -> Notes:
    """Notes at the deal."""
    shape = (rules.num_players, rules.hand_size)
    return jax.tree.map(lambda blank: jnp.full(shape, blank), _blank(rules))


def observe(rules: Rules, notes: Notes, seen: SeatObservation) -> Notes:
    """Notes after the last move, with deductions on the current table."""
    board, hint = common.board_before(seen), common.last_hint(rules, seen)
    notes = _after_color_hint(rules, notes, board, hint)
    notes = _after_rank_hint(rules, notes, board, hint, seen)
    notes = _after_play(rules, notes, board, seen)
    notes = jax.tree.map(seen.last.shifted, notes, _blank(rules))
    return deduce(rules, notes, seen)


def _after_color_hint(
    rules: Rules, notes: Notes, board: SeatObservation, hint: common.LastHint
) -> Notes:
    touched, others = hint.touched & hint.is_color, hint.untouched & hint.is_color
    color = jnp.maximum(common.color_of(rules, hint.cards & -hint.cards), 0)
    next_rank = jnp.minimum(common.piles(rules, board)[color], rules.num_ranks - 1)
    guessed = touched & (notes.rank < 0) & ~notes.worthless
    possible = jnp.where(touched, notes.possible & hint.cards, notes.possible)
    possible = jnp.where(guessed, possible & _of_rank(rules, next_rank), possible)
    return notes._replace(
        possible=jnp.where(others, possible & ~hint.cards, possible),
        color=jnp.where(touched, color, notes.color),
        rank=jnp.where(guessed, next_rank, notes.rank),
    )


def _of_rank(rules: Rules, rank: jax.Array) -> jax.Array:
    return jnp.array(rules.rank_cards, jnp.uint32)[rank]


def _after_rank_hint(
    rules: Rules, notes: Notes, board: SeatObservation, hint: common.LastHint, seen: SeatObservation
) -> Notes:
    applies = hint.is_rank & ~hint.reclaim
    touched, others = hint.touched & applies, hint.untouched & applies
    rank = common.rank_of(rules, hint.cards & -hint.cards)
    last = hint.cards & common.last_copies(rules, board)
    saved = touched & next_discards(notes, seen) & common.in_set(notes.possible, last)
    warning = jnp.any(saved)
    possible = jnp.where(touched, notes.possible & hint.cards, notes.possible)
    to_play = touched & (notes.color < 0) & ~warning & ~notes.worthless
    return notes._replace(
        possible=jnp.where(others, possible & ~hint.cards, possible),
        rank=jnp.where(touched, rank, notes.rank),
        playable=notes.playable | to_play | (saved & (rank == lowest_missing(rules, board))),
        valuable=notes.valuable | saved,
    )


def _after_play(rules: Rules, notes: Notes, board: SeatObservation, seen: SeatObservation) -> Notes:
    card = seen.last.card
    is_common = seen.last.scored & ~common.in_set(card, common.last_copies(rules, board))
    it = is_common & ~notes.valuable & common.in_set(notes.possible, card)
    return notes._replace(playable=notes.playable & ~it)


def deduce(rules: Rules, notes: Notes, board: SeatObservation) -> Notes:
    """Exclude cards with all copies gone or located, until no further card is located."""
    left = common.copies_left(rules, board)

    def again(going: tuple[Notes, jax.Array, jax.Array]) -> tuple[Notes, jax.Array, jax.Array]:
        notes, located, _ = going
        notes = _update(rules, notes, board, to_set(located >= left))
        now = _located(rules, notes)
        return notes, now, jnp.any(now != located)

    start = (notes, _located(rules, notes), jnp.bool_(True))
    return jax.lax.while_loop(lambda going: going[2], again, start)[0]


def _located(rules: Rules, notes: Notes) -> jax.Array:
    """Number of slots known to hold each card, int32[K]."""
    known = (notes.color >= 0) & (notes.rank >= 0)
    card = jnp.where(known, notes.color * rules.num_ranks + notes.rank, -1)
    return jnp.sum(card[..., None] == jnp.arange(rules.num_cards), axis=(0, 1))


def _update(rules: Rules, notes: Notes, board: SeatObservation, taken: jax.Array) -> Notes:
    playable, last = (next_cards(rules, board.played), common.last_copies(rules, board))
    remaining = jnp.uint32(rules.all_cards) & ~taken
    remaining &= jnp.where(notes.valuable, last, rules.all_cards)
    remaining &= jnp.where(notes.playable, playable, rules.all_cards)
    remaining &= jnp.where(notes.worthless, board.played, rules.all_cards)
    notes = _name(rules, notes)
    known = (notes.color >= 0) & (notes.rank >= 0)
    notes = notes._replace(possible=jnp.where(known, notes.possible, notes.possible & remaining))
    notes = _name(rules, notes)

    possible, open_ = notes.possible, ~notes.worthless
    trash = open_ & ~notes.playable & ~notes.valuable & common.subset(possible, board.played)
    open_ &= ~trash
    return notes._replace(
        worthless=notes.worthless | trash,
        valuable=notes.valuable | (open_ & common.subset(possible, last)),
        playable=notes.playable | (open_ & common.subset(possible, playable)),
    )


def _name(rules: Rules, notes: Notes) -> Notes:
    """Set colour or rank where all possible cards share it."""

    def only(known: jax.Array, groups: tuple[int, ...]) -> jax.Array:
        has = common.in_set(notes.possible[..., None], jnp.array(groups, jnp.uint32))
        single = (jnp.sum(has, axis=-1) == 1) & (known < 0)
        return jnp.where(single, jnp.argmax(has, axis=-1), known).astype(jnp.int32)

    return notes._replace(
        color=only(notes.color, rules.color_cards), rank=only(notes.rank, rules.rank_cards)
    )


def choose(rules: Rules, notes: Notes, seen: SeatObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    playable, last = (next_cards(rules, seen.played), common.last_copies(rules, seen))
    discards = next_discards(notes, seen)
    wrong = (seen.hands != 0) & ~common.in_set(seen.hands, playable) & ~notes.worthless
    touched = common.touches(rules, seen)
    by_color = (jnp.arange(touched.shape[1]) < rules.num_colors)[:, None]
    misled = jnp.where(
        by_color, (wrong & (notes.rank < 0))[1:, None], (wrong & (notes.color < 0))[1:, None]
    )
    could = jnp.where(discards, notes.possible & last, 0)[1:, None]
    warns = (
        touched & ~by_color & common.in_set(could, jnp.array(rules.hint_cards, jnp.uint32)[:, None])
    )
    out = jnp.any((touched & misled) | warns, axis=-1)
    worth = jnp.where(out, 0, newly_playable(rules, notes.playable, seen))

    urgent = jnp.any(discards[1] & common.in_set(seen.hands[1], last))
    saved = jnp.sum(jnp.where(discards[1], seen.hands[1], 0), dtype=jnp.uint32)
    known = (notes.color[0] >= 0) & (notes.rank[0] >= 0)
    unknown = (seen.knowledge[0] != 0) & ~notes.worthless[0] & ~known
    newest = jnp.max(jnp.where(unknown, jnp.arange(unknown.shape[0]), -1))
    return decide(
        rules,
        notes,
        seen,
        worth,
        urgent,
        saved,
        guesses=(seen.deck <= 1) & (newest >= 0),
        guess=newest,
    )
