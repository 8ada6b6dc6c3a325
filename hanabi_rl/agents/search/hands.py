"""The hands that a searching seat may hold: drawn, put into games, weighed and drawn again."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.env.belief import Unknown, draw_hand, hand_of, with_cards
from hanabi_rl.env.game import Rules
from hanabi_rl.env.state import State


class Hands(NamedTuple):
    """`K` hands that the seat may hold."""

    cards: jax.Array
    """int32[H, K]: ids, 0 in an empty slot."""
    rest: jax.Array
    """int32[kinds, K]: what is then in the deck."""


def draw_hands(rules: Rules, count: int, state: State, key: jax.Array) -> Hands:
    """`count` hands from the grounded belief of seat 0 in one game [1]."""
    unknown = hand_of(rules, state, jnp.zeros(1, jnp.int32))
    many = [jnp.broadcast_to(x, (*x.shape[:-1], count)) for x in unknown]
    words = jax.random.bits(key, (rules.hand_size, count))
    return Hands(*draw_hand(rules, Unknown(*many), words))


def with_hands(rules: Rules, state: State, cards: jax.Array) -> State:
    """The games [R] with the cards int32[H, R] in the hand of seat 0."""
    nothing = jnp.zeros((1, cards.shape[1]), jnp.int32)
    return with_cards(rules, state, nothing[0], cards, nothing)


def weights(loglik: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Hands' weights float32[K], which sum to 1, and their effective number
    1 / sum of squares (Kong 1992), by their log-likelihoods."""
    weight = jax.nn.softmax(loglik)
    return weight, 1.0 / jnp.sum(weight**2)


def drawn_again(weight: jax.Array, shares: jax.Array) -> jax.Array:
    """The hand int32[R] at each share of the weights float32[K], the hands laid end to end: evenly
    spaced shares draw each hand as often as it weighs (systematic resampling, Kitagawa 1996)."""
    which = jnp.sum(jnp.cumsum(weight)[:, None] <= shares, axis=0)
    return jnp.minimum(which, len(weight) - 1)
