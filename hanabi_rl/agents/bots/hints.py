"""Value of each hint: the receiver's inference compared with the true cards."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.hint_inference import (
    CardFacts,
    CommonKnowledge,
    HandInference,
    infer_hands,
    infer_hint,
    soon_playable,
    union_and_repeats,
)
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import union
from hanabi_rl.games.hanabi.cards import is_single
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class HintValues:
    """Gains and costs of a hint, from coordinate search on self-play of 2 to 5 players."""

    PLAY = 7.5  # a card becomes known to be playable
    SOON = 4.0  # or playable after cards known elsewhere
    TOUCH = 3.0  # a useful card gets its first hint ...
    CRITICAL = 2.5  # ... and is the last copy
    NARROWED = 0.7  # per useful hinted card, times the fraction of its candidates excluded
    KNOWN_TRASH = 2.0  # a useless card becomes known
    FIXED = 20.0  # a misplay is prevented
    MISPLAY = 40.0  # a misplay is caused
    WRONG = 8.0  # the receiver excludes the true identity of a useful card
    TRASH = 6.0  # a useless card is touched and its owner cannot tell
    DUPLICATE = 9.0  # or a second copy of a hinted card
    HARMLESS = 1.0  # either of these, if its owner can tell
    MAYBE_MINE = 15.0  # a copy may be among the hinter's own hinted cards, times its probability
    LOST_CRITICAL = 12.0  # the next player discards the last copy of a useful card
    LOST_PLAYABLE = 4.0  # or the only visible copy of a playable card
    LOST_TWO = 3.0  # or of a 2


class Hints(NamedTuple):
    """All ``A = (P - 1) * (C + R)`` hints in action order; constants of the rules."""

    target: np.ndarray  # bool[A, P]
    cards: np.ndarray  # uint32[A], all cards of the hinted colour or rank
    is_rank: np.ndarray  # bool[A]
    # int32[A], tie-breaking order: nearer players, ranks, high ranks; equal for a player's colours
    order: np.ndarray


class _Facts(NamedTuple):
    """True properties of the cards ``[P, H, *B]`` that hints touch; 0 for the hinter's own."""

    useful: jax.Array  # bool
    playable: jax.Array  # bool
    critical: jax.Array  # bool
    taken: jax.Array  # bool: a hinted copy is visible or known elsewhere
    # float32: expected number of copies among the hinter's hinted cards
    maybe_mine: jax.Array


def all_hints(rules: Rules) -> Hints:
    """Hints of a game."""
    players = rules.num_players
    # bits for touched slots, or a rank
    below = max(rules.hand_size, (rules.num_ranks - 1).bit_length())
    rows = [(seat, cards, False, 0) for seat in range(1, players) for cards in rules.color_cards]
    rows += [
        (seat, cards, True, rank)
        for seat in range(1, players)
        for rank, cards in enumerate(rules.rank_cards)
    ]
    return Hints(
        target=np.array([[seat == p for p in range(players)] for seat, *_ in rows]),
        cards=np.array([cards for _, cards, *_ in rows], np.uint32),
        is_rank=np.array([is_rank for _, _, is_rank, _ in rows]),
        order=np.array(
            [((2 * (players - seat) + is_rank) << below) + rank for seat, _, is_rank, rank in rows],
            np.int32,
        ),
    )


def score_hints(
    rules: Rules,
    board: CardFacts,
    public: CommonKnowledge,
    everyone: HandInference,
    own_inference: HandInference,
    seen: SeatObservation,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Find the best hint.

    Args:
        everyone: inference from `public`.
        own_inference: inference that includes the observer's private knowledge of its hand (row 0).

    Returns:
        Index of the hint, int32[]; its value, float32[], -inf if no hint is possible; and the next
            player's discard loss without a hint, float32[].
    """
    hints = all_hints(rules)
    facts = _facts(board, public, own_inference, seen)
    danger = next_discard_loss(rules, board, everyone, seen)

    def waits(known: CommonKnowledge, reading: HandInference) -> jax.Array:
        late = reading.candidates & ~soon_playable(rules, board, reading.claimed)
        return (
            known.hinted
            & (late == 0)
            & ~reading.trash
            & ~reading.playable
            & ((reading.candidates & seen.hands) != 0)
        )

    def score(
        target: jax.Array, cards: jax.Array, is_rank: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        touched = ((seen.hands & cards) != 0) & target[:, None]
        after_hint = infer_hint(rules, board, public, everyone, target, touched, cards, is_rank)
        after = infer_hands(board, after_hint)
        worth = _gain(public, everyone, after_hint, after, facts, target, touched, seen)
        worth += HintValues.SOON * jnp.sum(
            waits(after_hint, after) & ~waits(public, everyone) & target[:, None]
        )
        worth += danger - next_discard_loss(rules, board, after, seen)
        pattern = jnp.sum(jnp.where(touched, jnp.left_shift(1, jnp.arange(rules.hand_size)), 0))
        return jnp.where(jnp.any(touched), worth, -jnp.inf), jnp.where(is_rank, 0, pattern)

    worth, pattern = jax.vmap(score)(
        jnp.array(hints.target), jnp.array(hints.cards), jnp.array(hints.is_rank)
    )
    worth = jnp.where(seen.info > 0, worth, -jnp.inf)
    # colours must not break ties: hints of different colours touch different slots
    order = jnp.where(worth == jnp.max(worth), hints.order + pattern, -1)
    return jnp.argmax(order), jnp.max(worth), danger


def _facts(
    board: CardFacts,
    public: CommonKnowledge,
    own_inference: HandInference,
    seen: SeatObservation,
) -> _Facts:
    held = seen.hands != 0
    hinted = union_and_repeats(jnp.where(public.hinted, seen.hands, 0)).once
    own = jnp.where(public.hinted[0], own_inference.candidates[0], 0)
    known = union_and_repeats(jnp.where(is_single(own), own, 0)[None]).once
    vague = jnp.where(is_single(own), 0, own)
    probs = 1.0 / jnp.maximum(jax.lax.population_count(vague), 1).astype(jnp.float32)
    maybe_mine = jnp.zeros(seen.hands.shape)
    for cards, prob in zip(vague, probs, strict=True):
        maybe_mine += jnp.where((seen.hands & cards) != 0, prob, 0.0)
    return _Facts(
        useful=held & ((seen.hands & board.useless) == 0),
        playable=(seen.hands & board.playable) != 0,
        critical=(seen.hands & board.critical) != 0,
        taken=(seen.hands & (hinted | known)) != 0,
        maybe_mine=maybe_mine,
    )


def _gain(
    public: CommonKnowledge,
    before: HandInference,
    after_hint: CommonKnowledge,
    after: HandInference,
    facts: _Facts,
    target: jax.Array,
    touched: jax.Array,
    seen: SeatObservation,
) -> jax.Array:
    """Value of the receiver's inference from a hint, float32[]."""
    v = HintValues
    new = touched & ~public.hinted
    useful, held = facts.useful, seen.hands != 0
    taken = facts.taken | _repeats_earlier(jnp.where(new, seen.hands, 0))
    kept = (after.candidates & seen.hands) != 0
    had = (before.candidates & seen.hands) != 0
    was_wrong, is_wrong = before.playable & ~facts.playable, after.playable & ~facts.playable
    first_copy = new & useful & ~taken
    sizes = [
        jax.lax.population_count(reading.candidates).astype(jnp.float32)
        for reading in (before, after)
    ]
    narrowed = (sizes[0] - sizes[1]) / jnp.maximum(sizes[0], 1.0)

    def where(condition: jax.Array, value: jax.Array | float) -> jax.Array:
        return jnp.where(condition, value, 0.0)

    worth = (
        where(after.playable & facts.playable & ~before.playable, v.PLAY)
        + where(was_wrong & ~is_wrong, v.FIXED)
        - where(is_wrong & ~was_wrong, v.MISPLAY)
        + where(first_copy, v.TOUCH - v.MAYBE_MINE * facts.maybe_mine)
        + where(first_copy & facts.critical, v.CRITICAL)
        - where(~kept & (first_copy | (after_hint.hinted & useful & ~new & had)), v.WRONG)
        - where(new & ~useful, jnp.where(after.trash, v.HARMLESS, v.TRASH))
        - where(new & useful & taken, jnp.where(after.trash, v.HARMLESS, v.DUPLICATE))
        + where(after.trash & ~before.trash & ~useful, v.KNOWN_TRASH)
        + where(after_hint.hinted & useful, v.NARROWED * narrowed)
    )
    return jnp.sum(jnp.where(held & target[:, None], worth, 0.0))


def _repeats_earlier(cards: jax.Array) -> jax.Array:
    """bool[P, H, *B]: an older slot of the same hand holds the same card."""
    union = jnp.zeros_like(cards[:, 0])
    repeats = []
    for slot in range(cards.shape[1]):
        repeats.append((cards[:, slot] & union) != 0)
        union |= cards[:, slot]
    return jnp.stack(repeats, axis=1)


def next_discard_loss(
    rules: Rules, board: CardFacts, reading: HandInference, seen: SeatObservation
) -> jax.Array:
    """Loss of the next player's discard, float32[*B]; 0 if it has a card to play or known trash."""
    busy = union(list(reading.playable[1] | reading.trash[1]))
    chop = union(list(jnp.where(reading.chop[1], seen.hands[1], 0)))
    return jnp.where(busy, 0.0, discard_loss(rules, board, chop, seen))


def discard_loss(
    rules: Rules, board: CardFacts, card: jax.Array, seen: SeatObservation
) -> jax.Array:
    """Loss of discarding a card uint32[*B], float32[*B]; 0 for no card."""
    v, card = HintValues, materialize(card)
    only_one = (card & union_and_repeats(seen.hands).repeated) == 0
    two = jnp.uint32(rules.rank_cards[1] if rules.num_ranks > 2 else 0) & ~board.useless
    value = jnp.where(only_one & ((card & two) != 0), v.LOST_TWO, 0.0)
    value = jnp.where(only_one & ((card & board.playable) != 0), v.LOST_PLAYABLE, value)
    return jnp.where((card & board.critical) != 0, v.LOST_CRITICAL, value)
