"""What everybody knows about every hand: hints read by the conventions of
`hanabi_rl.agents.bots.convention`.

All of it follows from public events alone (the table, the hints and who they touched), never from
what one seat sees, so every seat keeps the same `CommonKnowledge` and can foresee how another will
read a hint. Rows are players relative to the observer; nothing depends on which row is whose, nor
on the order of colours.

Shapes: ``*B`` are axes of games, of hints, or none; games are the last, so that every operation is
one long vector. A set for all of them (``uint32[*B]``) broadcasts against the cards of hands
(``uint32[P, H, *B]``). A *hand word* has bit s set where slot s is meant.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.obs_view import DecodedObservation, copies, members, with_left
from hanabi_rl.games.hanabi.bits import materialize, union
from hanabi_rl.games.hanabi.cards import is_single, next_cards, successors, useless_cards
from hanabi_rl.games.hanabi.rules import Rules


class CommonKnowledge(NamedTuple):
    """Common knowledge about the cards in hands."""

    knowledge: jax.Array
    """uint32[P, H, *B]: what hints and the cards gone leave possible; 0 for an empty slot."""
    inferred: jax.Array
    """uint32[P, H, *B]: what the meaning of the hints leaves possible."""
    hinted: jax.Array
    """bool[P, H, *B]: some hint touched this card."""


class CardFacts(NamedTuple):
    """Sets of cards, each ``uint32[*B]``."""

    playable: jax.Array
    """The next card of each colour, where a copy of it is left."""
    useless: jax.Array
    """Cards that can never score: played already, or above a card whose copies are all gone."""
    critical: jax.Array
    """Useful cards of which one copy is left."""
    available: jax.Array
    """Cards of which a copy is in the deck or in some hand."""


class KnownCards(NamedTuple):
    """The cards known exactly in some hands."""

    once: jax.Array
    """uint32[*B]: in one of them or more."""
    repeated: jax.Array
    """uint32[*B]: in two of them or more."""

    def union(self, more: KnownCards) -> KnownCards:
        """Those of other hands too."""
        return KnownCards(
            materialize(self.once | more.once),
            materialize(self.repeated | more.repeated | (self.once & more.once)),
        )


class HandInference(NamedTuple):
    """What `CommonKnowledge` comes to, given the `CardFacts`."""

    candidates: jax.Array
    """uint32[P, H, *B]: what each card can be."""
    playable: jax.Array
    """bool[P, H, *B]: whatever it is, it can be played now."""
    trash: jax.Array
    """bool[P, H, *B]: whatever it is, it is not needed."""
    chop: jax.Array
    """bool[P, H, *B]: the oldest card without a hint, what its owner discards first."""
    claimed: jax.Array
    """uint32[*B]: the cards known exactly in some hand."""


def unseen_copies(rules: Rules, seen: DecodedObservation) -> jax.Array:
    """Copies of each card in the deck or in the observer's own hand, int32[K]."""
    played, held = members(rules, seen.played), members(rules, seen.hands)
    return jnp.array(copies(rules)) - seen.discarded - played - jnp.sum(held, axis=(0, 1))


def card_facts(rules: Rules, seen: DecodedObservation) -> CardFacts:
    """Which cards are playable, useless, critical and still there."""
    used_up, single = (with_left(rules, seen.discarded, left) for left in (0, 1))
    useless = useless_cards(rules, seen.played, used_up)
    board = CardFacts(
        playable=next_cards(rules, seen.played) & ~useless,
        useless=useless,
        critical=single & ~useless,
        available=rules.all_cards & ~(used_up | (single & seen.played)),
    )
    return jax.tree.map(materialize, board)


def known_exactly(board: CardFacts, public: CommonKnowledge) -> jax.Array:
    """The hinted cards that can be only one, uint32[P, H, *B]; 0 for all others."""
    return _single(public, _narrowed(board, public)[1])


def _single(public: CommonKnowledge, narrowed: jax.Array) -> jax.Array:
    return materialize(jnp.where(public.hinted & is_single(narrowed), narrowed, 0))


def _narrowed(board: CardFacts, public: CommonKnowledge) -> tuple[jax.Array, jax.Array]:
    """What useful cards each card can be by its hints, and what it can be if hints touch no useless
    card; each uint32[P, H, *B]."""
    known = public.knowledge & board.available
    possible = _unless_empty(known & public.inferred, known)
    useful = possible & ~board.useless
    return useful, jnp.where(public.hinted, _unless_empty(useful, possible), possible)


def infer_hands(
    board: CardFacts, public: CommonKnowledge, others: KnownCards | None = None
) -> HandInference:
    """What common knowledge says about each card.

    Good touch: a hint touches no useless card and no card known in another place, unless its owner
    can tell.

    Args:
        public: of all hands; or of some, and `others` what is known of the rest.
    """
    present = public.knowledge != 0
    useful, narrowed = _narrowed(board, public)
    exact = _single(public, narrowed)
    known = union_and_repeats(exact)
    if others is not None:
        known = known.union(others)
    elsewhere = (known.once & ~exact) | known.repeated
    fresh = narrowed & ~elsewhere
    # What is known to be in two places is needed in one: it can be played, and a last copy cannot
    # be there twice.
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
        chop=slots_of(lowest(hand_word(present & ~public.hinted)), present.shape[1]),
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
    """What a hint tells.

    - New cards touched: the *focus* is the chop if it is among them, else the newest of them. It
      can be played, now or after cards already known in some hand. On the chop it may also be saved
      for later: the last copy of a card by either hint (but a card of the last rank by rank only),
      or a 2 by rank.
    - No new card, and nothing becomes playable or trash by the bare facts: the newest card touched
      can be played.

    Args:
        public, before: common knowledge before the hint, and its reading on `board`; of all hands,
            or of some with the target's, and `others` what is known of the rest.
        target: bool[P, *B]. touched: bool[P, H, *B], in the target's row. hinted: uint32[*B], all
            cards of that colour or rank.
        is_rank: bool[*B].
    """
    of_target = target[:, None] & (public.knowledge != 0)
    fits = jnp.where(touched, hinted, ~hinted)
    told = CommonKnowledge(
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
    of_new = told.knowledge & board.available & public.inferred & meaning

    after = infer_hands(board, told, others)
    told_something = hand_word(
        of_target & ((after.playable & ~before.playable) | (after.trash & ~before.trash))
    )
    of_old = after.candidates & playable
    again = highest(hand_word(touched & ~after.playable & ~after.trash & (of_old != 0)))
    again = jnp.where(union(list(told_something | new)) == 0, again, 0)

    inferred = public.inferred
    inferred = jnp.where(slots_of(focus, hand) & (of_new != 0), of_new, inferred)
    inferred = jnp.where(slots_of(again, hand), of_old, inferred)
    return told._replace(knowledge=materialize(told.knowledge), inferred=materialize(inferred))


def update_common_knowledge(
    rules: Rules, public: CommonKnowledge, seen: DecodedObservation
) -> CommonKnowledge:
    """Common knowledge after the last move, from that before it. The fields of `seen` end in axes
    ``*B``."""
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
    # A card leaves, younger ones move down a slot and a new one comes last.
    moved_down = jnp.stack([jnp.any(last.slot[: s + 1], axis=0) for s in range(len(last.slot))])
    younger = jnp.concatenate(
        [public.inferred[:, 1:], jnp.full_like(public.inferred[:, :1], rules.all_cards)], axis=1
    )
    drawn = jnp.where(last.actor[:, None] & moved_down, younger, public.inferred)
    return CommonKnowledge(
        knowledge=seen.knowledge,
        inferred=jnp.where(last.is_hint, hinted.inferred, drawn),
        hinted=seen.hinted,
    )


def focus_of(new: jax.Array, chop: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The card that a hint is about, and whether it is saved: the chop if it is new, else the
    newest new card.

    Args:
        new, chop: hand words uint32[P, *B], the cards that the hint touches and none did before.

    Returns:
        A hand word uint32[P, *B], and bool[*B].
    """
    saved = union(list(new & chop)) != 0
    return materialize(jnp.where(saved, new & chop, highest(new))), saved


def union_and_repeats(cards: jax.Array) -> KnownCards:
    """Of sets ``uint32[P, H, *B]``: the cards in any of them, and those in at least two."""
    once = repeated = jnp.zeros((), jnp.uint32)
    for hand in cards:
        for card in hand:
            repeated |= once & card
            once |= card
    return KnownCards(materialize(once), materialize(repeated))


def hand_word(mask: jax.Array) -> jax.Array:
    """bool[P, H, *B] -> a word for each hand, uint32[P, *B]: a whole hand in one operation, where
    XLA's CPU backend reduces over slots one by one."""
    return materialize(union([mask[:, s].astype(jnp.uint32) << s for s in range(mask.shape[1])]))


def slots_of(word: jax.Array, hand_size: int) -> jax.Array:
    """The inverse of `hand_word`: bool[P, H, *B]."""
    slots = jnp.arange(hand_size, dtype=jnp.uint32).reshape(-1, *(1,) * (word.ndim - 1))
    return ((word[:, None] >> slots) & 1) != 0


def lowest(word: jax.Array) -> jax.Array:
    """The lowest bit alone: a hand's oldest card."""
    return word & (~word + 1)


def highest(word: jax.Array) -> jax.Array:
    """The highest bit alone, of a hand word (8 slots at most): its newest card."""
    for shift in (1, 2, 4):
        word |= word >> shift
    return word & ~(word >> 1)


def first_true(mask: jax.Array) -> jax.Array:
    """Only the first true entry of each row of ``bool[..., H]``."""
    slot = jnp.arange(mask.shape[-1])
    return slot == jnp.min(jnp.where(mask, slot, mask.shape[-1]), axis=-1, keepdims=True)


def last_true(mask: jax.Array) -> jax.Array:
    """Only the last true entry of each row of ``bool[..., H]``."""
    slot = jnp.arange(mask.shape[-1])
    return slot == jnp.max(jnp.where(mask, slot, -1), axis=-1, keepdims=True)


def _unless_empty(cards: jax.Array, otherwise: jax.Array) -> jax.Array:
    return jnp.where(cards != 0, cards, otherwise)


def soon_playable(rules: Rules, board: CardFacts, claimed: jax.Array) -> jax.Array:
    """Cards playable now or once cards known in some hand are played."""
    soon = board.playable
    for _ in range(rules.num_ranks - 1):
        soon |= successors(rules, soon & claimed)
    return materialize(soon)
