"""`bot:value`: ValueBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

It extends SimpleBot with saves: a rank hint that touches the receiver's next discard, of a rank
that may be a last copy, is a warning to keep that card.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common
from hanabi_rl.agents.bots.obs_view import DecodedObservation
from hanabi_rl.agents.bots.odwyer_common import Board
from hanabi_rl.agents.bots.simple import lowest_playable, newly_playable, still_playable
from hanabi_rl.games.hanabi.rules import Rules


class Notes(NamedTuple):
    """Assumed knowledge of each card's owner."""

    color: jax.Array  # int32[P, H]: -1 if unknown
    rank: jax.Array  # int32[P, H]: from 0; -1 if unknown
    playable: jax.Array  # bool[P, H]: playable now
    valuable: jax.Array  # bool[P, H]: last copy of a card not played yet
    worthless: jax.Array  # bool[P, H]: already played


BLANK = Notes(color=-1, rank=-1, playable=False, valuable=False, worthless=False)  # type: ignore[arg-type]


def nothing_known(rules: Rules) -> Notes:
    """Notes at the deal."""
    shape = (rules.num_players, rules.hand_size)
    return jax.tree.map(lambda blank: jnp.full(shape, blank), BLANK)


def observe(rules: Rules, notes: Notes, seen: DecodedObservation) -> Notes:
    """Notes after the last move."""
    board, hint = odwyer_common.board_before(rules, seen), odwyer_common.last_hint(rules, seen)
    notes = _after_color_hint(rules, notes, board, hint)
    notes = _after_rank_hint(rules, notes, board, hint, seen)
    notes = jax.tree.map(
        lambda note, blank: odwyer_common.move_down(seen, note, blank), notes, BLANK
    )
    return _after_play(rules, notes, board, seen)


def _after_color_hint(
    rules: Rules, notes: Notes, board: Board, hint: odwyer_common.LastHint
) -> Notes:
    touched = hint.touched & hint.is_color
    color = jnp.maximum(odwyer_common.color_of(rules, hint.cards & -hint.cards), 0)
    next_rank = jnp.minimum(odwyer_common.piles(rules, board)[color], rules.num_ranks - 1)
    rank = jnp.where(notes.rank < 0, next_rank, notes.rank)
    card = jnp.uint32(1) << (color * rules.num_ranks + rank).astype(jnp.uint32)
    played = (card & board.played) != 0
    last = (card & odwyer_common.last_copies(rules, board)) != 0
    return Notes(
        color=jnp.where(touched, color, notes.color),
        rank=jnp.where(touched, rank, notes.rank),
        playable=notes.playable | (touched & ~played & (rank == next_rank)),
        valuable=notes.valuable | (touched & ~played & last),
        worthless=notes.worthless | (touched & played),
    )


def _after_rank_hint(
    rules: Rules, notes: Notes, board: Board, hint: odwyer_common.LastHint, seen: DecodedObservation
) -> Notes:
    touched = hint.touched & hint.is_rank & ~hint.reclaim
    rank = odwyer_common.rank_of(rules, hint.cards & -hint.cards)
    saved = touched & next_discards(notes, seen) & could_be_valuable(rules, board, hint.cards)
    warning = jnp.any(saved)
    low = lowest_missing(rules, board)
    return notes._replace(
        rank=jnp.where(touched, rank, notes.rank),
        playable=notes.playable | (saved & (rank == low)) | (touched & ~warning & (rank >= low)),
        valuable=notes.valuable | saved,
    )


def _after_play(rules: Rules, notes: Notes, board: Board, seen: DecodedObservation) -> Notes:
    last, card = seen.last, seen.last.card
    was_last = last.scored & odwyer_common.in_set(card, odwyer_common.last_copies(rules, board))
    stays = still_playable(rules, notes.color, notes.rank, card) | ~last.scored | was_last
    passed = last.scored & (
        lowest_missing(rules, odwyer_common.board_now(seen)) > odwyer_common.rank_of(rules, card)
    )
    of_rank = notes.rank == odwyer_common.rank_of(rules, card)
    return notes._replace(
        playable=notes.playable & stays, worthless=notes.worthless | (passed & of_rank)
    )


class Flags(Protocol):
    """Flags of ValueBot and HolmesBot, each bool[P, H], and ranks int32[P, H]."""

    @property
    def rank(self) -> jax.Array:
        """-1 if unknown."""

    @property
    def playable(self) -> jax.Array:
        """Playable now."""

    @property
    def valuable(self) -> jax.Array:
        """Last copy of a card not played yet."""

    @property
    def worthless(self) -> jax.Array:
        """Already played."""


def next_discards(notes: Flags, seen: DecodedObservation) -> jax.Array:
    """Next discard of each seat, bool[P, H]: its oldest card not flagged valuable; none while a
    card is flagged playable or worthless."""
    present = seen.knowledge != 0
    busy = jnp.any(present & (notes.playable | notes.worthless), axis=-1)
    slot, there = odwyer_common.first_where(present & ~notes.valuable)
    return odwyer_common.at_slot(slot, there & ~busy, seen.hands.shape[1])


def could_be_valuable(rules: Rules, board: Board, cards: jax.Array) -> jax.Array:
    """True if one of the cards is the last copy of a card not played yet."""
    return odwyer_common.in_set(cards, odwyer_common.last_copies(rules, board))


def lowest_missing(rules: Rules, board: Board) -> jax.Array:
    """Lowest rank that some colour needs, from 0; the number of ranks if all are complete."""
    return jnp.min(odwyer_common.piles(rules, board))


def choose(rules: Rules, notes: Notes, seen: DecodedObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    board = odwyer_common.board_now(seen)
    playable = odwyer_common.playable_cards(rules, board)
    discards = next_discards(notes, seen)
    wrong = (seen.hands != 0) & ((seen.hands & playable) == 0)
    unknown = (wrong & (notes.rank < 0))[1:, None]
    touched = odwyer_common.touches(rules, seen)
    by_color = jnp.arange(touched.shape[1]) < rules.num_colors
    misleads = jnp.any(touched & jnp.where(by_color[:, None], unknown, wrong[1:, None]), axis=-1)
    ranks = jnp.array(odwyer_common.hint_cards(rules))
    warns = jnp.any(touched & discards[1:, None], axis=-1) & could_be_valuable(rules, board, ranks)
    allowed = ~misleads & ~(warns & ~by_color)
    worth = jnp.where(allowed, newly_playable(rules, notes.playable, seen), 0)
    urgent = jnp.any(
        discards[1] & odwyer_common.in_set(seen.hands[1], odwyer_common.last_copies(rules, board))
    )
    saved = jnp.sum(jnp.where(discards[1], seen.hands[1], 0))
    return decide(rules, notes, seen, worth, urgent, saved, jnp.bool_(False), jnp.int32(0))


def decide(
    rules: Rules,
    notes: Flags,
    seen: DecodedObservation,
    worth: jax.Array,
    urgent: jax.Array,
    saved: jax.Array,
    guesses: jax.Array,
    guess: jax.Array,
) -> jax.Array:
    """Common decision order of ValueBot and HolmesBot, int32[].

    Args:
        worth: int32[P-1, V], value of each hint.
        urgent: bool[], True if the next player would discard a last copy: the card `saved`,
            uint32[].
        guesses: bool[], True to play the slot `guess` int32[] instead of discarding.
    """
    value, gain = odwyer_common.best_hint(worth)
    partner = jnp.argmax(gain)
    of_next = jnp.where(gain[0] > 0, value[0], odwyer_common.rank_value(rules, saved))
    slot, plays = lowest_playable(notes.playable[0], notes.rank[0])
    present = seen.knowledge[0] != 0
    trash, has_trash = odwyer_common.first_where(present & notes.worthless[0])
    free, has_free = odwyer_common.first_where(present & ~notes.valuable[0])
    highest = jnp.argmax(jnp.where(present, notes.rank[0], -2))
    return odwyer_common.pick(
        ((seen.info > 0) & urgent, odwyer_common.hint_action(rules, 0, of_next)),
        (plays, odwyer_common.play_action(rules, slot)),
        (
            (seen.info > 0) & (gain[partner] > 0),
            odwyer_common.hint_action(rules, partner, value[partner]),
        ),
        (guesses, odwyer_common.play_action(rules, guess)),
        (seen.info == rules.max_info_tokens, odwyer_common.reclaim_action(rules, seen)),
        (has_trash, trash),
        (has_free, free),
        otherwise=highest,
    )
