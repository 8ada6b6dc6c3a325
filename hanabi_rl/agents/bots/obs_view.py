"""Decoding of an observation for rule-based agents.

Inverse of `hanabi_rl.games.hanabi.observation`, for one observation; `jax.vmap` it over a batch.
Hands are relative to the observer: row 0 is the observer's hand, row 1 the next player's. A set of
cards is a ``uint32`` with bit ``colour * num_ranks + rank`` per card; a single card is a set of
one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.rules import Rules


class LastMove(NamedTuple):
    """The move before this observation; false and empty before the first move."""

    actor: jax.Array  # bool[P]: player that moved, relative to the observer
    is_hint: jax.Array  # bool[]
    is_rank_hint: jax.Array  # bool[]
    target: jax.Array  # bool[P]: player that received the hint
    hinted: jax.Array  # uint32[]: set of cards of the hinted colour or rank
    touched: jax.Array  # bool[H]: slots that the hint touched
    slot: jax.Array  # bool[H]: slot of the card played or discarded
    card: jax.Array  # uint32[]: card played or discarded, as a set of one
    is_play: jax.Array  # bool[]: True for a play, successful or not
    scored: jax.Array  # bool[]: True for a successful play
    gained_token: jax.Array  # bool[]: True if the play completed a firework and gained a token


class DecodedObservation(NamedTuple):
    """Decoded observation: ``P`` players, hands of ``H``, ``K`` card types."""

    # uint32[P, H]: card in each slot, oldest first; 0 for the observer's own cards and for empty
    # slots
    hands: jax.Array
    # uint32[P, H]: cards that hints and exhausted cards allow; 0 for an empty slot
    knowledge: jax.Array
    hinted: jax.Array  # bool[P, H]: a hint touched this card
    color_named: jax.Array  # bool[P, H]: a colour hint touched this card
    rank_named: jax.Array  # bool[P, H]: a rank hint touched this card
    played: jax.Array  # uint32[]: cards on the fireworks
    discarded: jax.Array  # int32[K]: copies of each card discarded or misplayed
    deck: jax.Array  # int32[]: cards left in the deck
    info: jax.Array  # int32[]: information tokens
    lives: jax.Array  # int32[]: life tokens
    last: LastMove


def to_set(members: jax.Array) -> jax.Array:
    """``bool[..., K]`` -> set ``uint32[...]`` of the true entries."""
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(members.shape[-1], dtype=jnp.uint32))
    return jnp.sum(jnp.where(members, bits, 0), axis=-1, dtype=jnp.uint32)


def members(rules: Rules, cards: jax.Array) -> jax.Array:
    """Sets ``uint32[...]`` -> zeros and ones ``int32[..., K]``."""
    bits = jnp.arange(rules.num_cards, dtype=jnp.uint32)
    return ((cards[..., None] >> bits) & 1).astype(jnp.int32)


def copies(rules: Rules) -> np.ndarray:
    """Copies of each card in the deck: int32[K]."""
    return np.tile(np.array(rules.num_cards_of_rank, np.int32), rules.num_colors)


def with_left(rules: Rules, discarded: jax.Array, left: int) -> jax.Array:
    """Set ``uint32[*B]`` of the cards with exactly `left` copies not in `discarded` ``int32[K,
    *B]``: `exhausted_cards` (0) or `last_copies` (1) of `games.hanabi.cards`."""
    by_card = rules.num_cards, *(1,) * (discarded.ndim - 1)
    kept = discarded == jnp.array(copies(rules) - left).reshape(by_card)
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(rules.num_cards, dtype=jnp.uint32))
    return jnp.sum(jnp.where(kept, bits.reshape(by_card), 0), axis=0, dtype=jnp.uint32)


def decode_observation(rules: Rules, obs: jax.Array) -> DecodedObservation:
    """Decode one observation ``float32[O]``; raises ValueError for a wrong size."""
    if obs.shape != (rules.obs_size,):
        raise ValueError(
            f"obs must have shape [{rules.obs_size}] for {rules.num_players} players, got "
            f"{list(obs.shape)}"
        )
    players, hand, cards, ranks = (
        rules.num_players,
        rules.hand_size,
        rules.num_cards,
        rules.num_ranks,
    )
    part = {name: obs[where] > 0 for name, where in observation_slices(rules).items()}

    mine = jnp.zeros((1, hand), jnp.uint32)
    cards_known = part["beliefs"].reshape(players, hand, rules.card_features)
    played = to_set(part["fireworks"])
    for _ in range(ranks - 1):
        played |= (played & ~jnp.uint32(rules.rank_cards[0])) >> 1
    copy_of = np.repeat(np.arange(cards), copies(rules))
    return DecodedObservation(
        hands=jnp.concatenate([mine, to_set(part["hands"].reshape(players - 1, hand, cards))]),
        knowledge=to_set(cards_known[..., :cards]),
        hinted=jnp.any(cards_known[..., cards:], axis=-1),
        color_named=jnp.any(cards_known[..., cards : cards + rules.num_colors], axis=-1),
        rank_named=jnp.any(cards_known[..., cards + rules.num_colors :], axis=-1),
        played=played,
        discarded=jnp.sum((copy_of == np.arange(cards)[:, None]) & part["discards"], axis=1),
        deck=jnp.sum(part["deck"]),
        info=jnp.sum(part["info_tokens"]),
        lives=jnp.sum(part["life_tokens"]),
        last=_last_move(rules, part),
    )


def _last_move(rules: Rules, part: dict[str, jax.Array]) -> LastMove:
    in_color = jnp.where(part["last_color"], jnp.array(rules.color_cards, jnp.uint32), 0)
    in_rank = jnp.where(part["last_rank"], jnp.array(rules.rank_cards, jnp.uint32), 0)
    is_play, _, is_color_hint, is_rank_hint = part["last_kind"]
    return LastMove(
        actor=part["last_player"],
        is_hint=is_color_hint | is_rank_hint,
        is_rank_hint=is_rank_hint,
        target=part["last_target"],
        hinted=jnp.sum(in_color, dtype=jnp.uint32) | jnp.sum(in_rank, dtype=jnp.uint32),
        touched=part["last_touched"],
        slot=part["last_slot"],
        card=to_set(part["last_card"]),
        is_play=is_play,
        scored=part["last_outcome"][0],
        gained_token=part["last_outcome"][1],
    )
