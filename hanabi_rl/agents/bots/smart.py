"""`bot:smart`: SmartBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

The notes are one set per card of each hand: its possible identities for its owner, by the hints,
their meaning, and the moves that others would have made.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.games.hanabi.bits import count, last_true, tally, to_set
from hanabi_rl.games.hanabi.cards import (
    exhausted_cards,
    last_copies,
    next_cards,
    successors,
    useless_cards,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

KNOWS_ALL, KNOWN_RANKS_FROM = 7, 5
"""Value of a playable card of unknown rank, and of the lowest rank (minus 1 per rank)."""
NEWS = 100
"""Additional value of a card that only its owner knows to be playable."""
CONFUSED = 10
"""Size assumed for an empty set, which contradictory hints leave."""


class CardClasses(NamedTuple):
    """Sets of cards for a board, each uint32[]."""

    playable: jax.Array  # next card of each firework
    worthless: jax.Array  # played, or above a card without copies left
    valuable: jax.Array  # last copies of other cards


def card_classes(rules: Rules, board: SeatObservation) -> CardClasses:
    """Playable, worthless and valuable cards."""
    # a card without copies left is itself not counted: no slot holds it
    exhausted = exhausted_cards(rules, board.discards)
    worthless = useless_cards(rules, board.played, successors(rules, exhausted))
    return CardClasses(
        playable=next_cards(rules, board.played),
        worthless=worthless,
        valuable=last_copies(rules, board.discards) & ~worthless,
    )


def is_certain(cards: jax.Array, kind: jax.Array) -> jax.Array:
    """True if every possible identity is of the class: bool[...]."""
    return (cards != 0) & common.subset(cards, kind)


def is_excluded(cards: jax.Array, kind: jax.Array) -> jax.Array:
    """True if no possible identity is of the class: bool[...]."""
    return (cards != 0) & ~common.in_set(cards, kind)


def is_undecided(cards: jax.Array, kind: jax.Array) -> jax.Array:
    """True if neither is known, as for the empty set: bool[...]."""
    return ~is_certain(cards, kind) & ~is_excluded(cards, kind)


def class_prob(cards: jax.Array, kind: jax.Array) -> jax.Array:
    """Fraction of the possible identities in the class: float32[...]; 0.5 if empty."""
    size = count(cards)
    return jnp.where(size == 0, 0.5, count(cards & kind) / jnp.maximum(size, 1))


def rule_out(cards: jax.Array, left: jax.Array, held: jax.Array) -> jax.Array:
    """Exclude cards with all copies `left` int32[K] in `held` int32[K]; known cards are kept."""
    return jnp.where(count(cards) == 1, cards, cards & ~to_set(held >= left))


def nothing_known(rules: Rules) -> jax.Array:
    """Notes at the deal, uint32[P, H]."""
    return jnp.full((rules.num_players, rules.hand_size), rules.all_cards, jnp.uint32)


def observe(rules: Rules, notes: jax.Array, seen: SeatObservation) -> jax.Array:
    """Notes after the last move, with deductions on the current table."""
    board, hint = common.board_before(seen), common.last_hint(rules, seen)
    kinds, present = card_classes(rules, board), seen.knowledge != 0
    noted = _read_hint(notes, seen, kinds, hint)
    unwarned = _no_warning(noted, seen, board, kinds)
    silent = jnp.any(seen.last.actor) & ~(seen.last.is_hint & hint.to_next)
    notes = jnp.where(silent, unwarned, noted)
    notes = _finesse(rules, notes, seen, kinds)
    notes = seen.last.shifted(notes, rules.all_cards)
    return _locate(rules, jnp.where(present, notes, rules.all_cards), present, seen)


def next_discards(notes: jax.Array, present: jax.Array, kinds: CardClasses) -> jax.Array:
    """Next discard of each seat, bool[P, H]: the card most likely worthless among those not known
    to be valuable; none while a card is known to be playable or worthless."""
    busy = jnp.any(
        present & (is_certain(notes, kinds.playable) | is_certain(notes, kinds.worthless)), axis=-1
    )
    free = present & ~is_certain(notes, kinds.valuable)
    slot = jnp.argmax(jnp.where(free, class_prob(notes, kinds.worthless), -1.0), axis=-1)
    return common.at_slot(slot, ~busy & jnp.any(free, axis=-1), notes.shape[1])


def _no_warning(
    notes: jax.Array, seen: SeatObservation, board: SeatObservation, kinds: CardClasses
) -> jax.Array:
    """Notes if the last player gave the next no warning: its next discard is not valuable."""
    next_player = jnp.roll(seen.last.actor, 1)
    safe = next_discards(notes, seen.knowledge != 0, kinds) & next_player[:, None]
    return jnp.where(safe & (board.deck > 0) & (board.info > 0), notes & ~kinds.valuable, notes)


def _finesse(
    rules: Rules, notes: jax.Array, seen: SeatObservation, kinds: CardClasses
) -> jax.Array:
    """Notes after a finesse: a known playable card is discarded, so another player has it."""
    last = seen.last
    taken = jnp.sum(jnp.where(last.actor[:, None] & last.slot, notes, 0), dtype=jnp.uint32)
    is_finesse = (
        jnp.any(last.slot) & ~last.is_play & (count(taken) == 1) & is_certain(taken, kinds.playable)
    )
    newest = _newest(seen)
    shows = jnp.sum(jnp.where(newest, seen.hands, 0), axis=-1, dtype=jnp.uint32)
    players = jnp.arange(rules.num_players)
    has_it = (shows == last.card) & ~last.actor & (players > 0)
    holder, there = common.first_where(has_it)
    theirs = newest & (players == holder)[:, None]
    mine = newest & (players == 0)[:, None]
    found = jnp.where(
        there,
        jnp.where(theirs, last.card, notes),
        jnp.where(mine & ~last.actor[0], notes & last.card, notes),
    )
    return jnp.where(is_finesse, found, notes)


def _newest(seen: SeatObservation) -> jax.Array:
    """Newest card of each hand, bool[P, H]."""
    present = seen.knowledge != 0
    return present & ~jnp.roll(present, -1, axis=1).at[:, -1].set(False)


def _warned(
    notes: jax.Array, discards: jax.Array, cards: jax.Array, kinds: CardClasses
) -> jax.Array:
    """True where a rank hint of `cards` to the next player would warn of the touched card."""
    return (
        discards
        & is_undecided(notes, kinds.valuable)
        & common.in_set(notes & cards, kinds.valuable)
    )


def _read_hint(
    notes: jax.Array,
    seen: SeatObservation,
    kinds: CardClasses,
    hint: common.LastHint,
) -> jax.Array:
    discards = next_discards(notes, seen.knowledge != 0, kinds)
    warned = hint.touched & _warned(notes, discards, hint.cards, kinds)
    warned &= hint.is_rank & ~hint.reclaim & hint.to_next
    before = jnp.where(warned, notes & kinds.valuable, notes)
    after = jnp.where(hint.touched, before & hint.cards, before)
    after = jnp.where(hint.untouched, after & ~hint.cards, after)
    open_ = (hint.touched | hint.untouched) & is_undecided(before, kinds.playable)
    identified = jnp.any(open_ & is_certain(after, kinds.playable))
    candidate = open_ & hint.touched & is_undecided(after, kinds.playable)
    newest = last_true(candidate)
    meant = newest & ~jnp.any(warned) & ~hint.reclaim & ~identified
    return jnp.where(meant, after & kinds.playable, after)


_Going = tuple[jax.Array, jax.Array, jax.Array]


def _locate(rules: Rules, notes: jax.Array, present: jax.Array, seen: SeatObservation) -> jax.Array:
    """Exclude copies gone or located in hands, until no further card is located."""
    left = common.copies_left(rules, seen)

    def again(going: _Going) -> _Going:
        notes, located, _ = going
        notes = rule_out(notes, left, located)
        now = _located(rules, notes, present)
        return notes, now, jnp.any(now != located)

    start = (notes, _located(rules, notes, present), jnp.bool_(True))
    return jax.lax.while_loop(lambda going: going[2], again, start)[0]


def _located(rules: Rules, notes: jax.Array, present: jax.Array) -> jax.Array:
    known = jnp.where(present & (count(notes) == 1), notes, 0)
    return tally(rules, known)


def _hints(
    rules: Rules,
    notes: jax.Array,
    seen: SeatObservation,
    kinds: CardClasses,
    discards: jax.Array,
) -> jax.Array:
    """Number of identities that each hint excludes, int32[P-1, V]; 0 if it would mislead."""
    cards = jnp.array(rules.hint_cards, jnp.uint32)[:, None]
    touched, present = common.touches(rules, seen), (seen.knowledge != 0)[1:, None]
    before = notes[1:, None]
    after = jnp.where(touched, before & cards, before & ~cards)
    open_ = present & is_undecided(before, kinds.playable)
    reveals = jnp.any(open_ & is_certain(after, kinds.playable), axis=-1)
    candidate = open_ & touched & is_undecided(after, kinds.playable)
    newest = last_true(candidate)
    good = jnp.any(newest & common.in_set(seen.hands, kinds.playable)[1:, None], axis=-1)

    is_rank = jnp.arange(touched.shape[1]) >= rules.num_colors
    to_next = jnp.arange(touched.shape[0])[:, None] == 0
    warns = jnp.any(touched & _warned(before, discards[1:, None], cards, kinds), axis=-1)
    allowed = (reveals | good) & ~(warns & is_rank & to_next) & jnp.any(touched, axis=-1)
    news = jnp.sum(jnp.where(present, _size(before) - _size(after), 0), axis=-1)
    return jnp.where(allowed, news, 0)


def _size(cards: jax.Array) -> jax.Array:
    return jnp.where(cards == 0, CONFUSED, count(cards))


def choose(rules: Rules, notes: jax.Array, seen: SeatObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    kinds, present = card_classes(rules, seen), seen.knowledge != 0
    mine = notes[0]
    known = jnp.where(present[0] & (count(mine) == 1), mine, 0)
    eye = tally(rules, seen.hands) + tally(rules, known)
    private = rule_out(mine, common.copies_left(rules, seen), eye)
    play, plays = _play(rules, mine, private, present[0], kinds)
    guess, guesses = _mystery(private, present[0], kinds, seen)

    discards = next_discards(notes, present, kinds)
    value, gain = common.best_hint(_hints(rules, notes, seen, kinds, discards))
    partner, can_hint = jnp.argmax(gain), seen.info > 0
    endangered = jnp.where(
        discards[1] & common.in_set(seen.hands[1], kinds.valuable), seen.hands[1], 0
    )
    saved = jnp.sum(endangered, dtype=jnp.uint32)
    warning = jnp.where(gain[0] > 0, value[0], common.rank_value(rules, saved))

    shared = jnp.sum((seen.hands[1:] == known[:, None, None]) & _newest(seen)[1:], axis=(1, 2)) == 1
    finesse, finesses = common.first_where(
        (known != 0) & is_excluded(mine, kinds.valuable) & is_certain(mine, kinds.playable) & shared
    )
    hinting = seen.deck > 0
    return common.pick(
        (~hinting & plays, common.play_action(rules, play)),
        (~hinting & guesses, common.play_action(rules, guess)),
        (can_hint & (saved != 0), common.hint_action(rules, 0, warning)),
        ((seen.info < rules.max_info_tokens) & finesses, finesse),
        (plays, common.play_action(rules, play)),
        (can_hint & (gain[partner] > 0), common.hint_action(rules, partner, value[partner])),
        (guesses, common.play_action(rules, guess)),
        (seen.info == rules.max_info_tokens, common.reclaim_action(rules, seen)),
        otherwise=_discard(rules, mine, private, present[0], kinds, discards[0]),
    )


def _play(
    rules: Rules, mine: jax.Array, private: jax.Array, present: jax.Array, kinds: CardClasses
) -> tuple[jax.Array, jax.Array]:
    """Slot to play, and True if there is one: first cards that only the observer knows to be
    playable, then unknown ranks, then low ranks."""
    playable = present & ~is_excluded(mine, kinds.playable) & is_certain(private, kinds.playable)
    worth = _by_rank(rules, private, KNOWS_ALL, -1, KNOWN_RANKS_FROM)
    worth += jnp.where(is_certain(mine, kinds.playable), 0, NEWS)
    return jnp.argmax(jnp.where(playable, worth, -1)), jnp.any(playable)


def _by_rank(rules: Rules, cards: jax.Array, unknown: int, step: int, first: int) -> jax.Array:
    """``first + step * rank`` for cards of one known rank, `unknown` for others: int32[H]."""
    has = common.in_set(cards[..., None], jnp.array(rules.rank_cards, jnp.uint32))
    rank = jnp.argmax(has, axis=-1)
    return jnp.where(jnp.sum(has, axis=-1) == 1, first + step * rank, unknown)


def _mystery(
    private: jax.Array, present: jax.Array, kinds: CardClasses, seen: SeatObservation
) -> tuple[jax.Array, jax.Array]:
    """Near the end: the newest slot most likely playable, and True if it is to be tried."""
    late = seen.deck <= jnp.where(seen.lives >= 3, 3, 1)
    tried = present & is_undecided(private, kinds.playable)
    hope = jnp.where(tried, class_prob(private, kinds.playable), 0.0)
    newest = hope.shape[0] - 1 - jnp.argmax(hope[::-1])
    return newest, late & (hope[newest] > 0)


def _discard(
    rules: Rules,
    mine: jax.Array,
    private: jax.Array,
    present: jax.Array,
    kinds: CardClasses,
    next_discard: jax.Array,
) -> jax.Array:
    """Slot to discard: a card that only the observer knows to be worthless, otherwise the expected
    discard, otherwise the highest rank."""
    seems = is_undecided(mine, kinds.worthless) & is_certain(private, kinds.worthless)
    trash = present & (is_certain(mine, kinds.worthless) | seems)
    least = jnp.argmin(jnp.where(trash, class_prob(mine, kinds.worthless), 2.0))
    highest = jnp.argmax(jnp.where(present, _by_rank(rules, mine, -1, 1, 0), -2))
    expected = jnp.where(jnp.any(next_discard), jnp.argmax(next_discard), highest)
    return jnp.where(jnp.any(trash), least, expected)
