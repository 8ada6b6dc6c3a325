"""Outcomes of hints in the current game: evidence for or against an interpretation of a hint.

Each card counts the hints that touched it. While it has the same last hint as another card of its
hand, it also counts how that card turns out: if the newest of three white cards is played and
fails, the hint meant another one. A later hint keeps these counts.
Each hand counts how many of its hinted cards were playable at their last hint, by type of hint.
Everything is public when counted. Unlike a profile (`profile.py`), nothing outlives the game.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from hanabi_rl.agents.structured.packed_features import Columns, quantize
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

if TYPE_CHECKING:
    from hanabi_rl.agents.structured.hint_memory import HintSnapshot

CARD_COUNTS = ("color", "rank", "scored", "failed", "discarded")
"""Counts of a card: colour and rank hints that touched it; cards with the same last hint as it that
scored, failed or were discarded."""
_CARD_BITS = 3

HINT_TYPES = 4
"""Types of a card's last hint: by colour or rank (+ 1), the newest touched card or not (+ 2)."""
_HAND_BITS = 4


def _number(word: jax.Array, place: int, bits: int) -> jax.Array:
    return (word >> place) & ((1 << bits) - 1)


def _counted(word: jax.Array, place: int, bits: int, where: jax.Array) -> jax.Array:
    """Add 1 to the number at `place`, up to its maximum."""
    more = where & (_number(word, place, bits) < (1 << bits) - 1)
    return word + (more.astype(jnp.uint32) << place)


def card_counts(word: jax.Array) -> dict[str, jax.Array]:
    """Numbers of `CARD_COUNTS`, uint32 like `word`, at most 7."""
    return {name: _number(word, _CARD_BITS * i, _CARD_BITS) for i, name in enumerate(CARD_COUNTS)}


def hand_counts(word: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """Per type of hint: revealed cards that were playable at their last hint, and the others;
    uint32 like `word`, at most 15."""
    numbers = [_number(word, _HAND_BITS * i, _HAND_BITS) for i in range(2 * HINT_TYPES)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def hint_type(record: HintSnapshot) -> jax.Array:
    """Type of the last hint on each card, uint32[P, H, N]."""
    return record.by_rank[0].astype(jnp.uint32) + 2 * record.was_newest[0]


def update_card_counts(
    word: jax.Array, record: HintSnapshot, seat_obs: SeatObservation
) -> jax.Array:
    """Counts of the cards uint32[P, H, N] after the last move, before a draw; `record`: the hints
    before it."""
    last = seat_obs.last
    hinted, age = record.hinted[0], record.age[0]
    left = last.actor[:, None] & last.slot & hinted  # at most one card
    # names a hint, one move each; hints of 255 or more moves ago are one
    hint_age = jnp.max(jnp.where(left, age, 0), axis=(0, 1))
    mates = last.actor[:, None] & hinted & (age == hint_age) & jnp.any(left, axis=(0, 1))
    touched = last.touched & last.target[:, None]
    events = {
        "color": touched & ~last.is_rank_hint,
        "rank": touched & last.is_rank_hint,
        "scored": mates & last.is_play & last.scored,
        "failed": mates & last.is_play & ~last.scored,
        "discarded": mates & ~last.is_play,
    }
    for i, name in enumerate(CARD_COUNTS):
        word = _counted(word, _CARD_BITS * i, _CARD_BITS, events[name])
    return word


def update_hand_counts(
    word: jax.Array, record: HintSnapshot, seat_obs: SeatObservation
) -> jax.Array:
    """Counts of the hands after the last move, uint32[P, H, N], equal in all slots of a hand."""
    last = seat_obs.last
    left = last.actor[:, None] & last.slot & record.hinted[0]
    playable = record.playable[0] & last.card != 0
    kinds = hint_type(record)
    for kind in range(HINT_TYPES):
        place = 2 * _HAND_BITS * kind
        of_kind = left & (kinds == kind)
        meant = jnp.any(of_kind & playable, axis=1, keepdims=True)
        other = jnp.any(of_kind & ~playable, axis=1, keepdims=True)
        word = _counted(word, place, _HAND_BITS, meant)
        word = _counted(word, place + _HAND_BITS, _HAND_BITS, other)
    return word


def card_columns(of_card: jax.Array, of_hand: jax.Array, record: HintSnapshot) -> Columns:
    """Features of cards [..., H, N]; `record` has the same cards."""
    counts, kinds = card_counts(of_card), hint_type(record)
    playable = others = jnp.zeros_like(of_card)
    for kind, (were_playable, were_others) in enumerate(hand_counts(of_hand)):
        playable = jnp.where(kinds == kind, were_playable, playable)
        others = jnp.where(kinds == kind, were_others, others)
    revealed = playable + others
    hinted = record.hinted[0]
    return [
        *[quantize(counts[name] / 3.0) for name in CARD_COUNTS],
        counts["color"] + counts["rank"] > 1,
        counts["failed"] > 0,
        quantize(jnp.where(hinted, playable / (revealed + 1.0), 0.0)),
        quantize(jnp.where(hinted, revealed / (revealed + 2.0), 0.0)),
    ]


def hint_columns(rules: Rules, touched: jax.Array, of_card: jax.Array) -> Columns:
    """Features of hints per slot [P - 1, C + R, H, N]: whether a card with the same last hint
    failed, and whether the card had a hint of the same type; `of_card` [P - 1, H, N]."""
    counts = {name: count[:, None] for name, count in card_counts(of_card).items()}
    is_rank = jnp.arange(rules.num_colors + rules.num_ranks)[:, None, None] >= rules.num_colors
    same = jnp.where(is_rank, counts["rank"], counts["color"]) > 0
    return [touched & (counts["failed"] > 0), touched & same]
