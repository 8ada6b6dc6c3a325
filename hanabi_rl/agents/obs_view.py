"""An observation read back into words: what a rule-based agent sees.

The inverse of `hanabi_rl.env.observe`, for one observation; `jax.vmap` it over a batch. Hands are relative to the
observer: row 0 is the observer's own hand, row 1 the next player's. A set of cards is a ``uint32`` word whose bit
``colour * num_ranks + rank`` says whether the card is in it; a single card is a set of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env.rules import Rules


class LastMove(NamedTuple):
    """The move before this observation; all false and empty before the first one."""

    actor: jax.Array
    """bool[P]: who moved, relative to the observer."""
    is_hint: jax.Array
    """bool[]."""
    is_rank_hint: jax.Array
    """bool[]."""
    target: jax.Array
    """bool[P]: who was hinted."""
    hinted: jax.Array
    """uint32[]: the set of cards of the hinted colour or rank."""
    touched: jax.Array
    """bool[H]: the slots the hint touched."""
    slot: jax.Array
    """bool[H]: the slot played or discarded."""


class ObsView(NamedTuple):
    """One observation, decoded. ``P`` players, hands of ``H``, ``K`` different cards."""

    hands: jax.Array
    """uint32[P, H]: the card in each slot, oldest first; 0 for the observer's own cards and for empty slots."""
    knowledge: jax.Array
    """uint32[P, H]: what its hints and the cards gone from the game leave possible; 0 for an empty slot."""
    clued: jax.Array
    """bool[P, H]: some hint touched this card."""
    played: jax.Array
    """uint32[]: the cards on the fireworks."""
    discarded: jax.Array
    """int32[K]: how many copies of each card were discarded or misplayed."""
    deck: jax.Array
    """int32[]: cards left in the deck."""
    info: jax.Array
    """int32[]: information tokens."""
    lives: jax.Array
    """int32[]: life tokens."""
    last: LastMove


def to_set(members: jax.Array) -> jax.Array:
    """The set ``uint32[...]`` of the cards whose entry of ``bool[..., K]`` is true."""
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(members.shape[-1], dtype=jnp.uint32))
    return jnp.sum(jnp.where(members, bits, 0), axis=-1, dtype=jnp.uint32)


def view(rules: Rules, obs: jax.Array) -> ObsView:
    """Decode one observation ``float32[O]``.

    Raises:
        ValueError: an observation of another size, as of another number of players.
    """
    if obs.shape != (rules.obs_size,):
        raise ValueError(
            f"obs must have shape [{rules.obs_size}] for {rules.num_players} players, got {list(obs.shape)}"
        )
    players, hand, cards = rules.num_players, rules.hand_size, rules.num_cards
    position = 0

    def take(*shape: int) -> jax.Array:
        nonlocal position
        start, position = position, position + int(np.prod(shape))
        return (obs[start:position] > 0).reshape(shape)

    others = take(players - 1, hand, cards)
    take(players)  # who is missing a card: empty slots say so
    deck = take(rules.deck_size - players * hand)
    tops = to_set(take(cards))
    info, lives = take(rules.max_info_tokens), take(rules.max_life_tokens)
    discards = take(rules.num_colors, sum(rules.num_cards_of_rank))
    last = _last_move(rules, take)
    knowledge = take(players, hand, cards + rules.num_colors + rules.num_ranks)

    played = tops
    for _ in range(rules.num_ranks - 1):
        played |= (played & ~jnp.uint32(rules.rank_cards[0])) >> 1
    of_rank = np.split(np.arange(sum(rules.num_cards_of_rank)), np.cumsum(rules.num_cards_of_rank)[:-1])
    return ObsView(
        hands=to_set(jnp.concatenate([jnp.zeros((1, hand, cards), jnp.bool_), others])),
        knowledge=to_set(knowledge[..., :cards]),
        clued=jnp.any(knowledge[..., cards:], axis=-1),
        played=played,
        discarded=jnp.stack([jnp.sum(discards[:, places], axis=1) for places in of_rank], axis=1).reshape(-1),
        deck=jnp.sum(deck),
        info=jnp.sum(info),
        lives=jnp.sum(lives),
        last=last,
    )


def _last_move(rules: Rules, take: Callable[..., jax.Array]) -> LastMove:
    actor, kind, target = take(rules.num_players), take(4), take(rules.num_players)
    color, rank = take(rules.num_colors), take(rules.num_ranks)
    touched, slot = take(rules.hand_size), take(rules.hand_size)
    take(rules.num_cards + 2)  # the card played or discarded and its outcome: the board says so too
    in_color = jnp.where(color, jnp.array(rules.color_cards, jnp.uint32), 0)
    in_rank = jnp.where(rank, jnp.array(rules.rank_cards, jnp.uint32), 0)
    return LastMove(
        actor=actor,
        is_hint=kind[2] | kind[3],
        is_rank_hint=kind[3],
        target=target,
        hinted=jnp.sum(in_color, dtype=jnp.uint32) | jnp.sum(in_rank, dtype=jnp.uint32),
        touched=touched,
        slot=slot,
    )
