"""Grounded belief: the exact distribution of a hand given only the rules and hints.

A player that draws no inference from the choice of moves knows of a hand the possible cards of each
slot and the number of unseen copies of each card. Every way to fill the hand from those copies is
then equally likely (the grounded belief of Hu et al. 2021, "Off-Belief Learning", arXiv
2103.04000). This is not a product over slots: two slots cannot hold the same copy.

Let `M` be the set of cards that a slot allows and `n` the number of unseen copies of each. The
number of ways to fill a set S of slots with different copies is, over partitions of S into blocks,

    ways(S) = sum over partitions of prod over blocks B of (-1)^(|B|-1) (|B|-1)! n(M_B),

where M_B are the cards that every slot of B allows: inclusion and exclusion of slots with the same
copy (the Möbius function of the partition lattice). A hand is sampled card by card, each weighted
by the number of ways to fill the following slots. All numbers are integers, so it is exact.

`log_weights` changes the weights of cards in a slot, for beliefs that do draw inferences from
moves; 0 is the grounded belief.

Shapes: `N` games, as the last axis; `H` slots of a hand, `K` card types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.bits import bit, pack_deck, union
from hanabi_rl.games.hanabi.dynamics import Rules, State

LOG_ZERO = -1e30
"""Logarithm of probability 0; finite, so that its gradient is finite."""


class HandKnowledge(NamedTuple):
    """A hand as its holder knows it."""

    possible: jax.Array
    """uint32[H, N]: cards that the hints on each slot allow; 0 for an empty slot."""
    unseen: jax.Array
    """int32[K, N]: copies that are neither on the table nor in another hand."""


def hand_knowledge(rules: Rules, state: State, seat: jax.Array) -> HandKnowledge:
    """Knowledge of seat int32[N] about its hand in each game; its cards and the deck are not
    read."""
    kinds = jnp.arange(rules.num_cards, dtype=jnp.uint32)[:, None]

    def counts(cards: jax.Array) -> jax.Array:
        """Sets uint32[N] -> int32[K, N]."""
        return ((cards >> kinds) & 1).astype(jnp.int32)

    copies = jnp.array(rules.num_copies)
    table = [state.fireworks, *jnp.moveaxis(state.discards, 1, 0)]
    unseen = copies[:, None] - sum(counts(cards) for cards in table)
    for other in range(rules.num_players):
        theirs = jnp.where(other == seat[:, None], 0, state.hands[:, other])
        unseen -= sum(counts(card) for card in theirs.T)
    knowledge = jnp.take_along_axis(state.knowledge, seat[:, None, None], axis=1)[:, 0]
    return HandKnowledge(possible=knowledge.T, unseen=unseen)


def count_hands(rules: Rules, unknown: HandKnowledge) -> jax.Array:
    """Number of ways to fill the hand from the unseen copies, int32[N].

    Raises:
        ValueError: the number may overflow in this game.
    """
    _check_fits(rules)
    every = (1 << rules.hand_size) - 1
    meets = _meets(unknown.possible)
    return _ways(every, _copies(meets, unknown))


def sample_hand(
    rules: Rules, unknown: HandKnowledge, words: jax.Array, log_weights: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Sample one hand per game, uniformly over the ways to fill it or with `log_weights`.

    Args:
        words: random words uint32[H, N], one per slot.
        log_weights: float32[H, K, N]: a card is sampled for its slot, after those of earlier slots,
            with probability proportional to the ways to continue with it times exp(log_weights).
            Impossible cards stay impossible; equal weights for all card types are uniform.

    Returns:
        (cards int32[H, N], 0 in an empty slot; copies still unseen int32[K, N], which form the
            deck).

    Raises:
        ValueError: as `count_hands`.
    """

    def choose(slot: int, ways: jax.Array) -> jax.Array:
        if log_weights is None:
            return _pick(ways, words[slot])
        return _pick_share(jax.nn.softmax(_tilted(ways, log_weights[slot]), axis=0), words[slot])

    cards, _, rest = _fill(rules, unknown, choose)
    return cards, rest


def count_completions(rules: Rules, unknown: HandKnowledge, cards: jax.Array) -> jax.Array:
    """Number of ways to complete a hand with each card type in each slot, after the given cards of
    earlier slots: int32[H, K, N], 0 in an empty slot.

    Args:
        cards: int32[H, N], a possible hand.

    Raises:
        ValueError: as `count_hands`.
    """
    return _fill(rules, unknown, lambda slot, ways: cards[slot])[1]


def hand_log_prob(ways: jax.Array, cards: jax.Array, tilt: jax.Array | None = None) -> jax.Array:
    """Log probability float32[H, N] that `sample_hand` samples each card int32[H, N] for its slot
    after those of earlier slots; 0 in an empty slot. ways: `count_completions` of these cards."""
    logs = _tilted(ways, 0.0 if tilt is None else tilt)
    chosen = jnp.take_along_axis(logs, cards[:, None], axis=1)[:, 0]
    return jnp.where(ways.any(axis=1), chosen - jax.nn.logsumexp(logs, axis=1), 0.0)


def _fill(
    rules: Rules, unknown: HandKnowledge, choose: Callable[[int, jax.Array], jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Fill a hand slot by slot. `choose` receives the slot and the ways to continue with each card
    type, int32[K, N], and returns a card int32[N].

    Returns:
        (cards int32[H, N], 0 in an empty slot; the ways [H, K, N]; copies left [K, N]).
    """
    _check_fits(rules)
    meets = _meets(unknown.possible)
    copies = _copies(meets, unknown)
    kinds = jnp.arange(rules.num_cards, dtype=jnp.uint32)[:, None]
    rest, hand, on = unknown.unseen, [], []
    for slot in range(rules.hand_size):
        held = unknown.possible[slot] != 0
        after = [block for block in meets if block >> (slot + 1) << (slot + 1) == block]
        hit = {block: ((meets[block] >> kinds) & 1).astype(jnp.int32) for block in after}
        with_kind = {block: copies[block] - hit[block] for block in after}
        ways = _ways(sum(1 << s for s in range(slot + 1, rules.hand_size)), with_kind)
        fits = ((unknown.possible[slot] >> kinds) & 1).astype(jnp.int32)
        on.append(fits * rest * ways)
        card = choose(slot, on[-1])
        taken = ((kinds == card.astype(jnp.uint32)) & held).astype(jnp.int32)
        rest = rest - taken
        copies = {b: copies[b] - jnp.sum(hit[b] * taken, axis=0) for b in after}
        hand.append(jnp.where(held, card, 0))
    return jnp.stack(hand), jnp.stack(on), rest


def sample_deck(rest: jax.Array, words: jax.Array) -> jax.Array:
    """Next cards int32[D, N] of a deck that holds `rest` int32[K, N] in unknown order, from random
    words uint32[D, N]; 0 past its end."""
    kinds = jnp.arange(rest.shape[0])[:, None]

    def draw(rest: jax.Array, word: jax.Array) -> tuple[jax.Array, jax.Array]:
        card = jnp.where(jnp.sum(rest, axis=0) > 0, _pick(rest, word), 0)
        return jnp.maximum(rest - (kinds == card), 0), card

    return jax.lax.scan(draw, rest, words)[1]


def resample_hand(
    rules: Rules,
    state: State,
    seat: jax.Array,
    words: jax.Array,
    tilt: jax.Array | None = None,
) -> State:
    """Resample the hand of `seat` int32[N] and the next cards of the deck.

    Args:
        words: random words uint32[H + D, N]: for the hand, and for D cards of the deck. Cards drawn
            after those are card 0.
        tilt: log weights of the hand, see `sample_hand`.

    Returns:
        States [N] without the true hand and deck.
    """
    unknown = hand_knowledge(rules, state, seat)
    cards, rest = sample_hand(rules, unknown, words[: rules.hand_size], tilt)
    drawn = sample_deck(rest, words[rules.hand_size :])
    return replace_hand(rules, state, seat, cards, drawn)


def replace_hand(
    rules: Rules, state: State, seat: jax.Array, cards: jax.Array, drawn: jax.Array
) -> State:
    """Put the cards int32[H, N] into the hand of `seat` int32[N] and `drawn` int32[D, N] on top of
    the deck. Empty slots stay empty."""
    knowledge = jnp.take_along_axis(state.knowledge, seat[:, None, None], axis=1)[:, 0]

    def word(groups: jax.Array) -> jax.Array:
        """Groups int32[H, N] -> hand word uint32[N]."""
        slots = jnp.arange(rules.hand_size)[:, None]
        return union(list(jnp.where(knowledge.T != 0, bit(groups * rules.hand_size + slots), 0)))

    here = jnp.arange(rules.num_players) == seat[:, None]
    colors, ranks = word(cards // rules.num_ranks), word(cards % rules.num_ranks)
    place = jnp.arange(rules.deck_size) - (rules.deck_size - state.deck_left)[:, None]
    deck = jnp.take_along_axis(drawn.T, jnp.clip(place, 0, drawn.shape[0] - 1), axis=1)
    deck = jnp.where((place >= 0) & (place < drawn.shape[0]), deck, 0)
    return state.replace(
        colors=jnp.where(here, colors[:, None], state.colors),
        ranks=jnp.where(here, ranks[:, None], state.ranks),
        deck=pack_deck(deck),
    )


def can_count_hands(rules: Rules) -> bool:
    """True if the hands of this game can be counted in 31 bits, as in every standard game."""
    most = math.prod(range(rules.deck_size, rules.deck_size + rules.hand_size))
    return most < 1 << 31


def _check_fits(rules: Rules) -> None:
    if not can_count_hands(rules):
        raise ValueError(
            "belief: expected a game whose hands can be counted in 31 bits, got "
            f"{rules.hand_size} of {rules.deck_size} cards"
        )


def _meets(allowed: jax.Array) -> dict[int, jax.Array]:
    """Cards uint32[N] allowed by all slots of a block, by block (a number whose bits are slots)."""
    meets: dict[int, jax.Array] = {}
    for block in range(1, 1 << allowed.shape[0]):
        low = block & -block
        slot = allowed[low.bit_length() - 1]
        meets[block] = slot if block == low else slot & meets[block ^ low]
    return meets


def _copies(meets: dict[int, jax.Array], unknown: HandKnowledge) -> dict[int, jax.Array]:
    """Unseen copies int32[N] allowed by all slots of a block; 1 for an empty slot."""
    kinds = jnp.arange(unknown.unseen.shape[0], dtype=jnp.uint32)[:, None]
    copies: dict[int, jax.Array] = {}
    for block, cards in meets.items():
        total = jnp.sum(jnp.where((cards >> kinds) & 1 != 0, unknown.unseen, 0), axis=0)
        single = block & (block - 1) == 0
        copies[block] = jnp.where(cards == 0, 1, total) if single else total
    return copies


def _ways(slots: int, copies: dict[int, jax.Array]) -> jax.Array:
    """Number of ways to fill the `slots` with different copies, int32 like the `copies` of
    blocks."""
    if slots == 0:
        return jnp.int32(1)
    found: dict[int, jax.Array] = {0: jnp.int32(1)}
    for some in sorted(part for part in copies if part & ~slots == 0):
        low = some & -some
        terms = []
        for block in (part for part in copies if part & ~some == 0 and part & low):
            size = block.bit_count()
            sign = (-1) ** (size - 1) * math.factorial(size - 1)
            terms.append(sign * copies[block] * found[some ^ block])
        found[some] = sum(terms[1:], start=terms[0])
    return found[slots]


def _pick(weights: jax.Array, word: jax.Array) -> jax.Array:
    """Sample a card type int32[N] proportionally to the weights int32[K, N], to 24 bits."""
    upto = jnp.cumsum(weights, axis=0)
    total = upto[-1]
    share = (word >> 8).astype(jnp.float32) * 2.0**-24
    place = jnp.minimum((share * total.astype(jnp.float32)).astype(jnp.int32), total - 1)
    return jnp.minimum(jnp.sum(upto <= place, axis=0), weights.shape[0] - 1).astype(jnp.int32)


def _tilted(ways: jax.Array, tilt: jax.Array | float) -> jax.Array:
    """log(ways) + tilt; about -1e30 where there are no ways."""
    counted = jnp.log(jnp.maximum(ways, 1).astype(jnp.float32))
    return jnp.where(ways > 0, counted + tilt, LOG_ZERO)


def _pick_share(shares: jax.Array, word: jax.Array) -> jax.Array:
    """Sample a card type int32[N] from probabilities float32[K, N] that sum to about 1."""
    upto = jnp.cumsum(shares, axis=0)
    share = (word >> 8).astype(jnp.float32) * 2.0**-24
    place = share * upto[-1]
    place = jnp.where(place < upto[-1], place, 0.0)  # rounding may reach the end
    return jnp.sum(upto <= place, axis=0).astype(jnp.int32)
