"""Common knowledge of all hands, with hints interpreted by `hanabi_rl.agents.bots.convention`.

It follows from public events only (table, hints and touched cards), so every seat has the same
`CommonKnowledge` and can predict another's interpretation of a hint. Rows are players relative to
the observer; results do not depend on the order of rows or colours.

Shapes: ``*B`` are optional axes of games or hints, games last for vector operations. A set for all
of them (``uint32[*B]``) broadcasts against the cards of hands (``uint32[P, H, *B]``). A *hand word*
is a bit mask of slots.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import slot_bits, tally, union
from hanabi_rl.games.hanabi.cards import (
    exhausted_cards,
    gone_cards,
    is_single,
    last_copies,
    next_cards,
    successors,
    useless_cards,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class CommonKnowledge(NamedTuple):
    """Common knowledge about the cards in hands."""

    # uint32[P, H, *B]: cards that hints and exhausted cards allow; 0 for an empty slot
    knowledge: jax.Array
    inferred: jax.Array  # uint32[P, H, *B]: cards that the meaning of the hints allows
    hinted: jax.Array  # bool[P, H, *B]: a hint touched this card


class CardFacts(NamedTuple):
    """Sets of cards, each ``uint32[*B]``."""

    playable: jax.Array  # the next card of each colour, if a copy is left
    # cards that cannot score: already played, or above a card without copies left
    useless: jax.Array
    critical: jax.Array  # useful cards with one copy left
    available: jax.Array  # cards with a copy in the deck or in a hand


class KnownCards(NamedTuple):
    """Cards that are known exactly in some hands."""

    once: jax.Array  # uint32[*B]: known in at least one place
    repeated: jax.Array  # uint32[*B]: known in at least two places

    def union(self, more: KnownCards) -> KnownCards:
        """Merge with the known cards of other hands."""
        return KnownCards(
            materialize(self.once | more.once),
            materialize(self.repeated | more.repeated | (self.once & more.once)),
        )


class HandInference(NamedTuple):
    """Inferences from `CommonKnowledge`, given the `CardFacts`."""

    candidates: jax.Array  # uint32[P, H, *B]: possible cards of each slot
    playable: jax.Array  # bool[P, H, *B]: every candidate is playable now
    trash: jax.Array  # bool[P, H, *B]: no candidate is needed
    chop: jax.Array  # bool[P, H, *B]: oldest unhinted card, which its owner discards first
    claimed: jax.Array  # uint32[*B]: cards known exactly in some hand


def unseen_copies(rules: Rules, seen: SeatObservation) -> jax.Array:
    """Copies of each card in the deck or in the observer's own hand, int32[K]."""
    known = sum(tally(rules, cards) for cards in (seen.discards, seen.played, seen.hands))
    return jnp.array(rules.num_copies) - known


def card_facts(rules: Rules, seen: SeatObservation) -> CardFacts:
    """Playable, useless, critical and available cards."""
    useless = useless_cards(rules, seen.played, exhausted_cards(rules, seen.discards))
    board = CardFacts(
        playable=next_cards(rules, seen.played) & ~useless,
        useless=useless,
        critical=last_copies(rules, seen.discards) & ~useless,
        available=rules.all_cards & ~gone_cards(rules, seen.played, seen.discards),
    )
    return jax.tree.map(materialize, board)


def known_exactly(board: CardFacts, public: CommonKnowledge) -> jax.Array:
    """Hinted cards with one candidate, uint32[P, H, *B]; 0 for others."""
    return _single(public, _narrowed(board, public)[1])


def _single(public: CommonKnowledge, narrowed: jax.Array) -> jax.Array:
    return materialize(jnp.where(public.hinted & is_single(narrowed), narrowed, 0))


def _narrowed(board: CardFacts, public: CommonKnowledge) -> tuple[jax.Array, jax.Array]:
    """Useful candidates, and candidates under good touch, of each card; each uint32[P, H, *B]."""
    known = public.knowledge & board.available
    possible = _unless_empty(known & public.inferred, known)
    useful = possible & ~board.useless
    return useful, jnp.where(public.hinted, _unless_empty(useful, possible), possible)


def infer_hands(
    board: CardFacts, public: CommonKnowledge, others: KnownCards | None = None
) -> HandInference:
    """Infer candidates, playable cards, trash and chop of each hand.

    Good touch: a hint touches no useless card and no card known elsewhere, unless its owner can
    tell. `public` may contain some of the hands, with the known cards of the rest in `others`.
    """
    present = public.knowledge != 0
    useful, narrowed = _narrowed(board, public)
    exact = _single(public, narrowed)
    known = union_and_repeats(exact)
    if others is not None:
        known = known.union(others)
    elsewhere = (known.once & ~exact) | known.repeated
    fresh = narrowed & ~elsewhere
    # A card known in two places is needed in one: if it is playable, it is played; a last copy
    # cannot be in two places.
    duplicate = (
        public.hinted
        & (fresh == 0)
        & ((exact & board.playable) == 0)
        & ((narrowed & board.critical) == 0)
    )
    candidates = materialize(jnp.where(public.hinted, _unless_empty(fresh, narrowed), narrowed))

    trash = present & ((useful == 0) | duplicate)
    return HandInference(
        candidates=candidates,
        playable=present & ~trash & ((candidates & ~board.playable) == 0),
        trash=trash,
        chop=slot_bits(lowest(hand_word(present & ~public.hinted)), present.shape[1], axis=1),
        claimed=known.once,
    )


def infer_hint(
    rules: Rules,
    board: CardFacts,
    public: CommonKnowledge,
    before: HandInference,
    target: jax.Array,
    touched: jax.Array,
    hinted: jax.Array,
    is_rank: jax.Array,
    others: KnownCards | None = None,
) -> CommonKnowledge:
    """Update common knowledge with a hint.

    - If the hint touches new cards, the *focus* is the chop if it is one of them, otherwise the
      newest. It is playable, now or after cards already known in a hand. On the chop it may instead
      need saving: the last copy of a card by either hint (a card of the last rank by rank only), or
      a 2 by rank.
    - If it touches no new card, and nothing becomes playable or trash by the bare facts, the newest
      touched card is playable.

    Args:
        public, before: common knowledge before the hint, and its inference on `board`; of all
            hands, or of some including the target's, with the known cards of the rest in `others`.
        target: bool[P, *B].
        touched: bool[P, H, *B], in the target's row.
        hinted: uint32[*B], all cards of the hinted colour or rank.
        is_rank: bool[*B].
    """
    of_target = target[:, None] & (public.knowledge != 0)
    fits = jnp.where(touched, hinted, ~hinted)
    after_hint = CommonKnowledge(
        knowledge=jnp.where(of_target, public.knowledge & fits, public.knowledge),
        inferred=public.inferred,
        hinted=public.hinted | touched,
    )
    playable = soon_playable(rules, board, before.claimed)

    hand = touched.shape[1]
    new = hand_word(touched & ~public.hinted)
    focus, saved = focus_of(new, hand_word(before.chop))
    last_rank = jnp.uint32(rules.rank_cards[-1])
    by_rank = last_rank | jnp.uint32(rules.rank_cards[1] if rules.num_ranks > 2 else 0)
    saves = (
        jnp.where(is_rank, board.critical | by_rank, board.critical & ~last_rank) & ~board.useless
    )
    meaning = (playable & ~before.claimed) | jnp.where(saved, saves, 0)
    of_new = after_hint.knowledge & board.available & public.inferred & meaning

    after = infer_hands(board, after_hint, others)
    is_informative = hand_word(
        of_target & ((after.playable & ~before.playable) | (after.trash & ~before.trash))
    )
    of_old = after.candidates & playable
    again = highest(hand_word(touched & ~after.playable & ~after.trash & (of_old != 0)))
    again = jnp.where(union(list(is_informative | new)) == 0, again, 0)

    inferred = public.inferred
    inferred = jnp.where(slot_bits(focus, hand, axis=1) & (of_new != 0), of_new, inferred)
    inferred = jnp.where(slot_bits(again, hand, axis=1), of_old, inferred)
    return after_hint._replace(
        knowledge=materialize(after_hint.knowledge), inferred=materialize(inferred)
    )


def update_common_knowledge(
    rules: Rules, public: CommonKnowledge, seen: SeatObservation
) -> CommonKnowledge:
    """Update common knowledge with the last move. The fields of `seen` end in axes ``*B``."""
    last = seen.last
    board = card_facts(rules, seen)
    touched = last.touched & last.target[:, None]
    hinted = infer_hint(
        rules,
        board,
        public,
        infer_hands(board, public),
        last.target,
        touched,
        last.hinted,
        last.is_rank_hint,
    )
    drawn = last.shifted(public.inferred, rules.all_cards)
    return CommonKnowledge(
        knowledge=seen.knowledge,
        inferred=jnp.where(last.is_hint, hinted.inferred, drawn),
        hinted=seen.hinted,
    )


def focus_of(new: jax.Array, chop: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Focus of a hint and True if it is saved: the chop if new, otherwise the newest new card.

    `new` (cards touched for the first time) and `chop` are hand words uint32[P, *B], as is the
    focus.
    """
    saved = union(list(new & chop)) != 0
    return materialize(jnp.where(saved, new & chop, highest(new))), saved


def union_and_repeats(cards: jax.Array) -> KnownCards:
    """Given sets ``uint32[P, H, *B]``: the cards in any of them, and those in at least two."""
    once = repeated = jnp.zeros((), jnp.uint32)
    for hand in cards:
        for card in hand:
            repeated |= once & card
            once |= card
    return KnownCards(materialize(once), materialize(repeated))


def hand_word(mask: jax.Array) -> jax.Array:
    """bool[P, H, *B] -> hand words uint32[P, *B]; XLA's CPU backend reduces slots one by one."""
    return materialize(union([mask[:, s].astype(jnp.uint32) << s for s in range(mask.shape[1])]))


def lowest(word: jax.Array) -> jax.Array:
    """Lowest set bit: the oldest card of a hand word."""
    return word & (~word + 1)


def highest(word: jax.Array) -> jax.Array:
    """Highest set bit of a hand word (at most 8 slots): its newest card."""
    for shift in (1, 2, 4):
        word |= word >> shift
    return word & ~(word >> 1)


def _unless_empty(cards: jax.Array, otherwise: jax.Array) -> jax.Array:
    return jnp.where(cards != 0, cards, otherwise)


def soon_playable(rules: Rules, board: CardFacts, claimed: jax.Array) -> jax.Array:
    """Cards playable now or after the cards known in a hand are played."""
    soon = board.playable
    for _ in range(rules.num_ranks - 1):
        soon |= successors(rules, soon & claimed)
    return materialize(soon)
