"""`bot:value`: ValueBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

It extends SimpleBot with saves: a rank hint that touches the receiver's next discard, of a rank
that may be a last copy, is a warning to keep that card.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.agents.bots.simple import lowest_playable, newly_playable, still_playable
from hanabi_rl.games.hanabi.cards import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

if TYPE_CHECKING:
    from hanabi_rl.agents.bots import holmes


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


def observe(rules: Rules, notes: Notes, seen: SeatObservation) -> Notes:
    """Notes after the last move."""
    board, hint = common.board_before(seen), common.last_hint(rules, seen)
    notes = _after_color_hint(rules, notes, board, hint)
    notes = _after_rank_hint(rules, notes, board, hint, seen)
    notes = jax.tree.map(seen.last.shifted, notes, BLANK)
    return _after_play(rules, notes, board, seen)


def _after_color_hint(
    rules: Rules, notes: Notes, board: SeatObservation, hint: common.LastHint
) -> Notes:
    touched = hint.touched & hint.is_color
    color = jnp.maximum(common.color_of(rules, hint.cards & -hint.cards), 0)
    next_rank = jnp.minimum(common.piles(rules, board)[color], rules.num_ranks - 1)
    rank = jnp.where(notes.rank < 0, next_rank, notes.rank)
    card = jnp.uint32(1) << (color * rules.num_ranks + rank).astype(jnp.uint32)
    played = (card & board.played) != 0
    last = (card & common.last_copies(rules, board)) != 0
    return Notes(
        color=jnp.where(touched, color, notes.color),
        rank=jnp.where(touched, rank, notes.rank),
        playable=notes.playable | (touched & ~played & (rank == next_rank)),
        valuable=notes.valuable | (touched & ~played & last),
        worthless=notes.worthless | (touched & played),
    )


def _after_rank_hint(
    rules: Rules, notes: Notes, board: SeatObservation, hint: common.LastHint, seen: SeatObservation
) -> Notes:
    touched = hint.touched & hint.is_rank & ~hint.reclaim
    rank = common.rank_of(rules, hint.cards & -hint.cards)
    saved = touched & next_discards(notes, seen) & could_be_valuable(rules, board, hint.cards)
    warning = jnp.any(saved)
    low = lowest_missing(rules, board)
    return notes._replace(
        rank=jnp.where(touched, rank, notes.rank),
        playable=notes.playable | (saved & (rank == low)) | (touched & ~warning & (rank >= low)),
        valuable=notes.valuable | saved,
    )


def _after_play(rules: Rules, notes: Notes, board: SeatObservation, seen: SeatObservation) -> Notes:
    last, card = seen.last, seen.last.card
    was_last = last.scored & common.in_set(card, common.last_copies(rules, board))
    stays = still_playable(rules, notes.color, notes.rank, card) | ~last.scored | was_last
    passed = last.scored & (lowest_missing(rules, seen) > common.rank_of(rules, card))
    of_rank = notes.rank == common.rank_of(rules, card)
    return notes._replace(
        playable=notes.playable & stays, worthless=notes.worthless | (passed & of_rank)
    )


def next_discards(notes: "Notes | holmes.Notes", seen: SeatObservation) -> jax.Array:
    """Next discard of each seat, bool[P, H]: its oldest card not flagged valuable; none while a
    card is flagged playable or worthless."""
    present = seen.knowledge != 0
    busy = jnp.any(present & (notes.playable | notes.worthless), axis=-1)
    slot, there = common.first_where(present & ~notes.valuable)
    return common.at_slot(slot, there & ~busy, seen.hands.shape[1])


def could_be_valuable(rules: Rules, board: SeatObservation, cards: jax.Array) -> jax.Array:
    """True if one of the cards is the last copy of a card not played yet."""
    return common.in_set(cards, common.last_copies(rules, board))


def lowest_missing(rules: Rules, board: SeatObservation) -> jax.Array:
    """Lowest rank that some colour needs, from 0; the number of ranks if all are complete."""
    return jnp.min(common.piles(rules, board))


def choose(rules: Rules, notes: Notes, seen: SeatObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    playable = next_cards(rules, seen.played)
    discards = next_discards(notes, seen)
    wrong = (seen.hands != 0) & ((seen.hands & playable) == 0)
    unknown = (wrong & (notes.rank < 0))[1:, None]
    touched = common.touches(rules, seen)
    by_color = jnp.arange(touched.shape[1]) < rules.num_colors
    misleads = jnp.any(touched & jnp.where(by_color[:, None], unknown, wrong[1:, None]), axis=-1)
    ranks = jnp.array(rules.hint_cards, jnp.uint32)
    warns = jnp.any(touched & discards[1:, None], axis=-1) & could_be_valuable(rules, seen, ranks)
    allowed = ~misleads & ~(warns & ~by_color)
    worth = jnp.where(allowed, newly_playable(rules, notes.playable, seen), 0)
    urgent = jnp.any(discards[1] & common.in_set(seen.hands[1], common.last_copies(rules, seen)))
    saved = jnp.sum(jnp.where(discards[1], seen.hands[1], 0))
    return decide(rules, notes, seen, worth, urgent, saved, jnp.bool_(False), jnp.int32(0))


def decide(
    rules: Rules,
    notes: "Notes | holmes.Notes",
    seen: SeatObservation,
    worth: jax.Array,
    urgent: jax.Array,
    saved: jax.Array,
    guesses: jax.Array,
    guess: jax.Array,
) -> jax.Array:
    """Common decision order of ValueBot and HolmesBot, int32[].

    Args:
        worth: int32[P-1, V], value of each hint.
        urgent: bool[], True if the next player would discard a last copy, `saved` uint32[].
        guesses: bool[], True to play the slot `guess` int32[] instead of discarding.
    """
    value, gain = common.best_hint(worth)
    partner = jnp.argmax(gain)
    of_next = jnp.where(gain[0] > 0, value[0], common.rank_value(rules, saved))
    slot, plays = lowest_playable(notes.playable[0], notes.rank[0])
    present = seen.knowledge[0] != 0
    trash, has_trash = common.first_where(present & notes.worthless[0])
    free, has_free = common.first_where(present & ~notes.valuable[0])
    highest = jnp.argmax(jnp.where(present, notes.rank[0], -2))
    return common.pick(
        ((seen.info > 0) & urgent, common.hint_action(rules, 0, of_next)),
        (plays, common.play_action(rules, slot)),
        ((seen.info > 0) & (gain[partner] > 0), common.hint_action(rules, partner, value[partner])),
        (guesses, common.play_action(rules, guess)),
        (seen.info == rules.max_info_tokens, common.reclaim_action(rules, seen)),
        (has_trash, trash),
        (has_free, free),
        otherwise=highest,
    )
