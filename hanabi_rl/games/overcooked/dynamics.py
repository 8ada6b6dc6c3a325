"""The rules: one step of a batch of games.

Three onions in a pot cook by themselves for 20 steps; a served soup scores 20 points. In a step
both players act at once. Interacts come first, player 0's before player 1's, with the cells and
directions before the step. Then players move; if both would stand on one cell, or exchange cells,
neither moves but both turn. (The dynamics of Carroll et al. 2019, later called old dynamics.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.batching import materialize
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.state import (
    DISH,
    FULL,
    NOTHING,
    ONION,
    PLAYER_BITS,
    READY,
    SOUP,
    SOUPS_SHIFT,
    STEP_SHIFT,
    State,
)
from hanabi_rl.games.overcooked.transitions import (
    CONTENT_SHIFT,
    COUNTER_BIT,
    DISHES_BIT,
    ONIONS_BIT,
    POSE_BITS,
    POT_BIT,
    POT_BITS,
    SERVING_BIT,
    transition_table,
)

SOUP_POINTS = 20
POTTING_REWARD = 3
"""Shaping reward for an onion put into a pot."""
DISH_REWARD = 3
"""Shaping reward for a useful dish taken from a dispenser."""
PICKUP_REWARD = 5
"""Shaping reward for a soup taken from a pot."""


class Outcome(struct.PyTreeNode):
    """Rewards of one step."""

    reward: jax.Array
    """float32[N]: points scored by both players together."""
    shaped: jax.Array
    """float32[N, P]: shaping reward of each player, without the points."""


class Interaction(NamedTuple):
    """Effects of one player's interact, [N] each; all False without one."""

    reached: jax.Array
    """uint32: entry of the transition table."""
    hand: jax.Array
    """uint32: thing in the hand before."""
    thing: jax.Array
    """uint32: thing on the counter reached, before; meaningless without a counter."""
    exchanges: jax.Array
    """bool: the hand and a counter exchanged contents; one of them was empty."""
    takes_onion: jax.Array
    """bool: an onion from a dispenser."""
    takes_dish: jax.Array
    """bool: a dish from a dispenser."""
    is_useful: jax.Array
    """bool: that dish; fewer dishes were held than pots were in use, and none lay on a counter."""
    puts_onion: jax.Array
    """bool: an onion into a pot."""
    takes_soup: jax.Array
    """bool: a soup from a pot."""
    serves: jax.Array
    """bool: a soup is served."""

    def reaches(self, bit: int) -> jax.Array:
        """bool: the thing reached is of this kind (`transitions.COUNTER_BIT` ...)."""
        return _field(self.reached, bit, 1) != 0


def step(
    kitchen: Kitchen, state: State, action: jax.Array, *, count_pots_late: bool = False
) -> tuple[State, Outcome]:
    """Play one step.

    Args:
        kitchen: the kitchen.
        state: games ``N``.
        action: integers [N, P]: 0 up, 1 down, 2 right, 3 left, 4 stay, 5 interact. Only the lowest
            3 bits are read; 6 and 7 are stay.
        count_pots_late: count the pots in use, which make a dish useful, when the dish is taken, as
            jaxmarl's v1 does. The default counts them before the step, as overcooked-ai does; both
            count dishes when the dish is taken.

    Returns:
        The games after the step, and its rewards.
    """
    after, interactions = advance(kitchen, state, action, count_pots_late=count_pots_late)
    shaped = [
        POTTING_REWARD * one.puts_onion.astype(jnp.float32)
        + PICKUP_REWARD * one.takes_soup.astype(jnp.float32)
        + DISH_REWARD * one.is_useful.astype(jnp.float32)
        for one in interactions
    ]
    served = sum((_word(one.serves) for one in interactions), jnp.zeros_like(state.pots))
    reward = (SOUP_POINTS * served).astype(jnp.float32)
    return after, Outcome(reward=reward, shaped=jnp.stack(shaped, axis=-1))


def advance(
    kitchen: Kitchen, state: State, action: jax.Array, *, count_pots_late: bool = False
) -> tuple[State, tuple[Interaction, Interaction]]:
    """Play one step; return the effects of each player's interact instead of rewards."""
    table = jnp.asarray(transition_table(kitchen))
    low, high, pots = state.counters_low, state.counters_high, state.pots
    poses = [_field(state.players, PLAYER_BITS * p, POSE_BITS) for p in range(2)]
    hands = [_field(state.players, PLAYER_BITS * p + POSE_BITS, 2) for p in range(2)]
    # `materialize`: one look-up per player, not one per result
    entries = [
        materialize(
            table.at[(action[:, p].astype(jnp.uint32) & 7) << POSE_BITS | poses[p]].get(
                mode="promise_in_bounds"
            )
        )
        for p in range(2)
    ]

    pots_in_use = _count_in_use(kitchen, pots)
    interactions = []
    for player, entry in enumerate(entries):
        if count_pots_late:
            pots_in_use = _count_in_use(kitchen, pots)
        shift = _field(entry, CONTENT_SHIFT, 5)
        one = _interact(entry, hands, player, pots_in_use, low, high, pots)
        interactions.append(one)
        exchanged = jnp.where(one.exchanges, one.hand ^ one.thing, 0)
        low ^= (exchanged & 1) << shift
        high ^= (exchanged >> 1) << shift
        pots += (_word(one.puts_onion) - READY * _word(one.takes_soup)) << shift
        # each changes the hand from one known thing to another, and at most one happens
        hands[player] = (
            one.hand
            ^ exchanged
            ^ ONION * _word(one.takes_onion | one.puts_onion)
            ^ DISH * _word(one.takes_dish)
            ^ (DISH ^ SOUP) * _word(one.takes_soup)
            ^ SOUP * _word(one.serves)
        )

    for number in range(len(kitchen.pots)):
        content = _field(pots, POT_BITS * number, POT_BITS)
        pots += _word((content >= FULL) & (content < READY)) << POT_BITS * number

    targets = [_field(entry, 0, POSE_BITS) for entry in entries]
    same = targets[0] >> 2 == targets[1] >> 2
    crossed = (targets[0] >> 2 == poses[1] >> 2) & (targets[1] >> 2 == poses[0] >> 2)
    served = _word(interactions[0].serves) + _word(interactions[1].serves)
    players = ((state.players >> SOUPS_SHIFT) + served) << SOUPS_SHIFT
    for player in range(2):
        turned = (poses[player] >> 2) << 2 | (targets[player] & 3)
        pose = jnp.where(same | crossed, turned, targets[player])
        players |= (pose | hands[player] << POSE_BITS) << PLAYER_BITS * player

    after = State(
        players=players,
        pots=pots + jnp.uint32(1 << STEP_SHIFT),
        counters_low=low,
        counters_high=high,
    )
    return after, (interactions[0], interactions[1])


def _interact(
    entry: jax.Array,
    hands: Sequence[jax.Array],
    player: int,
    pots_in_use: jax.Array,
    low: jax.Array,
    high: jax.Array,
    pots: jax.Array,
) -> Interaction:
    hand, shift = hands[player], _field(entry, CONTENT_SHIFT, 5)
    counter, onions, dishes, pot, serving = (
        _field(entry, bit, 1) != 0
        for bit in (COUNTER_BIT, ONIONS_BIT, DISHES_BIT, POT_BIT, SERVING_BIT)
    )
    empty, takes_dish = hand == NOTHING, dishes & (hand == NOTHING)
    thing = (low >> shift & 1) | (high >> shift & 1) << 1
    content = _field(pots, shift, POT_BITS)
    dishes_held = _word(hands[0] == DISH) + _word(hands[1] == DISH)
    none_lies = (high & ~low) == 0
    return Interaction(
        reached=entry,
        hand=hand,
        thing=thing,
        exchanges=counter & (empty != (thing == NOTHING)),
        takes_onion=onions & empty,
        takes_dish=takes_dish,
        is_useful=takes_dish & none_lies & (dishes_held < pots_in_use),
        puts_onion=pot & (hand == ONION) & (content < FULL),
        takes_soup=pot & (hand == DISH) & (content == READY),
        serves=serving & (hand == SOUP),
    )


def score(state: State) -> jax.Array:
    """Points scored so far, int32[N]."""
    return SOUP_POINTS * state.soups


def _field(word: jax.Array, shift: jax.Array | int, width: int) -> jax.Array:
    return word >> shift & ((1 << width) - 1)


def _word(flag: jax.Array) -> jax.Array:
    return flag.astype(jnp.uint32)


def _count_in_use(kitchen: Kitchen, pots: jax.Array) -> jax.Array:
    """Pots that are not empty, uint32[N]."""
    used = [_word(_field(pots, POT_BITS * k, POT_BITS) != 0) for k in range(len(kitchen.pots))]
    return sum(used, jnp.zeros_like(pots))
