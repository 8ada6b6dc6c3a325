"""Possible hands of a searching seat: sample or enumerate, weight, resample."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.belief import (
    LOG_ZERO,
    HandKnowledge,
    hand_knowledge,
    replace_hand,
    sample_deck,
    sample_hand,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State


class HandSamples(NamedTuple):
    """`K` possible hands of the seat."""

    cards: jax.Array  # int32[H, K]: card ids, 0 in an empty slot
    rest: jax.Array  # int32[kinds, K]: copies of each card type that are then in the deck
    num_valid: jax.Array  # int32[]: number of valid hands, the first ones
    # bool[]: True if the valid hands are all possible hands, equally likely by the rules; False if
    # they were sampled
    is_exhaustive: jax.Array

    @property
    def loglik(self) -> jax.Array:
        """Initial log-likelihood, before any move is read, float32[K]."""
        return jnp.where(jnp.arange(self.cards.shape[1]) < self.num_valid, 0.0, LOG_ZERO)


def sample_hands(rules: Rules, count: int, each: int, state: State, key: jax.Array) -> HandSamples:
    """`count` hands of seat 0 in one game [1], from the grounded belief.

    If at most one card is left in the deck and all hands fit, each is listed `each` times in a row;
    otherwise hands are sampled.
    """
    unknown = hand_knowledge(rules, state, jnp.zeros(1, jnp.int32))
    many = [jnp.broadcast_to(x, (*x.shape[:-1], count)) for x in unknown]
    words = jax.random.bits(key, (rules.hand_size, count))
    drawn = HandSamples(
        *sample_hand(rules, HandKnowledge(*many), words),
        num_valid=jnp.int32(count),
        is_exhaustive=jnp.bool_(False),
    )
    every = _every_hand(rules, count, each, unknown, state.deck_left[0])
    return jax.tree.map(lambda a, b: jnp.where(every.is_exhaustive, a, b), every, drawn)


def _every_hand(
    rules: Rules, count: int, each: int, unknown: HandKnowledge, deck_left: jax.Array
) -> HandSamples:
    """Enumerate hands from permutations of the unseen cards: the hand, and the card in the deck.

    Equal cards are distinguished by their position in that list. Permutations that differ only in
    equal cards are counted once, so that all hands represent the same number of deals.
    """
    size = rules.hand_size + 1
    orders = np.array(list(itertools.permutations(range(size))), np.int32)
    place = np.argsort(orders, axis=1)
    unseen, kinds = unknown.unseen[:, 0], jnp.arange(rules.num_cards)
    cards = jnp.repeat(kinds, unseen, total_repeat_length=size)
    whole = jnp.sum(unseen) == rules.hand_size + deck_left  # no slot is empty
    fits = jnp.full(len(orders), whole & (deck_left <= 1))
    # without a deck the last card is a dummy
    fits &= (deck_left == 1) | (orders[:, -1] == size - 1)
    for first in range(size - 1):
        fits &= (cards[first] != cards[first + 1]) | (place[:, first] < place[:, first + 1])
    dealt = cards[orders]  # [orders, size]
    for slot in range(rules.hand_size):
        fits &= (unknown.possible[slot] >> dealt[:, slot].astype(jnp.uint32)) & 1 != 0
    found = jnp.sum(fits)
    which = jnp.nonzero(fits, size=-(-count // each), fill_value=0)[0]
    dealt = dealt[jnp.repeat(which, each)[:count]].T
    rest = (kinds[:, None] == dealt[-1]) & (deck_left == 1)
    return HandSamples(
        cards=dealt[:-1],
        rest=rest.astype(jnp.int32),
        num_valid=found * each,
        is_exhaustive=(found > 0) & (found * each <= count),
    )


def with_hands(rules: Rules, state: State, cards: jax.Array) -> State:
    """Put the cards int32[H, R] into the hand of seat 0 in games [R]."""
    nothing = jnp.zeros((1, cards.shape[1]), jnp.int32)
    return replace_hand(rules, state, nothing[0], cards, nothing)


def normalized_weights(loglik: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Normalised weights float32[K], and their effective sample size 1 / sum of squares (Kong
    1992), from log-likelihoods."""
    weight = jax.nn.softmax(loglik)
    return weight, 1.0 / jnp.sum(weight**2)


def systematic_resample(weight: jax.Array, positions: jax.Array) -> jax.Array:
    """Indices int32[R] of the hands at `positions` in [0, 1) of the cumulative weights float32[K];
    evenly spaced positions give systematic resampling (Kitagawa 1996)."""
    which = jnp.sum(jnp.cumsum(weight)[:, None] <= positions, axis=0)
    return jnp.minimum(which, len(weight) - 1)


class Determinizations(NamedTuple):
    """Hidden cards of the played games [R]; `num_tried` consecutive rows share one deal."""

    deal: jax.Array  # int32[R]: index of the deal; left-over rows at the end repeat the last
    hand: jax.Array  # int32[R]: index of one of the K hands
    weight: jax.Array  # float32[R]: weight of the deal; the weights of all deals sum to 1
    # bool[]: True if every valid hand has one deal, weighted like the hand; False if hands were
    # resampled by weight, so that deals have equal weights
    exact: jax.Array


def determinize(
    rows: int, hands: HandSamples, loglik: jax.Array, num_tried: jax.Array, key: jax.Array
) -> Determinizations:
    """Assign hands to `rows` games, given the hands' log-likelihoods float32[K]."""
    number = rows // num_tried
    deal = jnp.minimum(jnp.arange(rows) // num_tried, number - 1)
    weight = normalized_weights(loglik)[0]
    again = systematic_resample(weight, (deal + jax.random.uniform(key)) / number)
    exact = hands.is_exhaustive & (hands.num_valid <= number)
    return Determinizations(
        deal=deal,
        hand=jnp.where(exact, deal, again),
        weight=jnp.where(exact, weight[deal], 1.0 / number),
        exact=exact,
    )


def apply_determinizations(
    rules: Rules, state: State, hands: HandSamples, deals: Determinizations, key: jax.Array
) -> State:
    """Put the hands of the deals, and an order of the deck for each, into games [R]."""
    rows = deals.deal.shape[0]
    most = rules.deck_size - rules.num_players * rules.hand_size
    words = jax.random.bits(key, (most, rows))[:, deals.deal]
    drawn = sample_deck(hands.rest[:, deals.hand], words)
    seat = jnp.zeros(rows, jnp.int32)
    return replace_hand(rules, state, seat, hands.cards[:, deals.hand], drawn)
