"""Observation of one seat as sets of cards, with games as the last axis for vector operations.

A `SeatObservation` comes from an observation vector (any seat) or, faster, from the environment's
`State` (current player). Rows are players relative to the observer, which is row 0.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.obs_view import DecodedObservation, LastMove, decode_observation, to_set
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import bit, union
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.state import State


class SeatObservation(NamedTuple):
    """``N`` observations: ``P`` players, ``H`` slots, up to ``M`` copies per card."""

    seen: DecodedObservation
    """Fields of `DecodedObservation`, each with ``N`` as its last axis."""
    discards: jax.Array
    """uint32[M, N]: plane j is the set of cards with at least j + 1 discarded copies."""


@functools.partial(jax.jit, static_argnums=0, inline=True)
def from_observation(rules: Rules, obs: jax.Array) -> SeatObservation:
    """Decode observations float32[N, O]."""
    seen = jax.vmap(lambda o: decode_observation(rules, o), out_axes=-1)(obs)
    copies = max(rules.num_cards_of_rank)
    planes = [to_set((seen.discarded > j).T) for j in range(copies)]
    return _computed_once(SeatObservation(seen, jnp.stack(planes)))


def from_state(rules: Rules, state: State) -> SeatObservation:
    """Observation of the current player of each of ``N`` games."""
    players, hand, player = rules.num_players, rules.hand_size, state.player

    def current_player_first(seats: jax.Array) -> jax.Array:
        """uint32[N, P], seats in absolute order -> [P, N], current player first."""
        rolled = [
            union([jnp.where(player == (p - k) % players, seats[:, p], 0) for p in range(players)])
            for k in range(players)
        ]
        return jnp.stack(rolled)

    def slots_of(hands: jax.Array, group: int) -> jax.Array:
        """One group of bits of hands [P, N], by slot: bool[P, H, N]."""
        slots = jnp.arange(hand, dtype=jnp.uint32)[:, None] + group * hand
        return (hands[:, None] >> slots) & 1 != 0

    def slot_union(hands: jax.Array, groups: tuple[int, ...]) -> jax.Array:
        return union(
            [jnp.where(slots_of(hands, g), jnp.uint32(s), 0) for g, s in enumerate(groups)]
        )

    colors, ranks = current_player_first(state.colors), current_player_first(state.ranks)
    maybe_colors, maybe_ranks = (
        current_player_first(state.possible_colors),
        current_player_first(state.possible_ranks),
    )
    discards = state.discards.T
    gone = _gone_for_good(rules, state.fireworks, discards)
    cards = slot_union(colors, rules.color_cards) & slot_union(ranks, rules.rank_cards)
    maybe = slot_union(maybe_colors, rules.color_cards) & slot_union(maybe_ranks, rules.rank_cards)
    color_named = slots_of(maybe_colors, rules.num_colors)
    rank_named = slots_of(maybe_ranks, rules.num_ranks)
    is_observer = np.arange(players)[:, None, None] == 0
    seen = DecodedObservation(
        hands=jnp.where(is_observer, jnp.uint32(0), cards),
        knowledge=jnp.where(cards != 0, maybe & ~gone, 0),
        hinted=color_named | rank_named,
        color_named=color_named,
        rank_named=rank_named,
        played=state.fireworks,
        discarded=_counts(rules, discards),
        deck=state.deck_left,
        info=state.info_tokens,
        lives=state.life_tokens,
        last=_last_move(rules, state),
    )
    return _computed_once(SeatObservation(seen, discards))


def _last_move(rules: Rules, state: State) -> LastMove:
    """The last move in the frame of the next player: the actor is the previous player."""
    players, hand, colors = rules.num_players, rules.hand_size, rules.num_colors
    action, moved = state.last_action, state.turn > 0
    hint = action - 2 * hand
    rank_hint = hint - (players - 1) * colors
    is_color = moved & (hint >= 0) & (rank_hint < 0)
    is_rank = moved & (rank_hint >= 0) & (action != rules.noop)
    in_color = union(
        [
            jnp.where(is_color & (hint % colors == c), jnp.uint32(s), 0)
            for c, s in enumerate(rules.color_cards)
        ]
    )
    in_rank = union(
        [
            jnp.where(is_rank & (rank_hint % rules.num_ranks == r), jnp.uint32(s), 0)
            for r, s in enumerate(rules.rank_cards)
        ]
    )
    # the actor is the last row, so the player k + 1 after it is row k
    target = jnp.where(is_color, hint // colors, rank_hint // rules.num_ranks)
    rows, slots = jnp.arange(players)[:, None], jnp.arange(hand)[:, None]
    is_hint, takes = is_color | is_rank, moved & (hint < 0)
    return LastMove(
        actor=moved & (rows == players - 1),
        is_hint=is_hint,
        is_rank_hint=is_rank,
        target=is_hint & (rows == target),
        hinted=in_color | in_rank,
        touched=is_hint & ((state.last_touched >> slots) & 1 != 0),
        slot=takes & (slots == action % hand),
        card=jnp.where(takes, bit(state.last_card), 0),
        is_play=takes & (action >= hand),
        scored=state.last_scored,
        gained_token=state.last_gained_token,
    )


def _counts(rules: Rules, planes: jax.Array) -> jax.Array:
    """Unary planes uint32[M, N] -> counts int32[K, N]."""
    cards = bit(jnp.arange(rules.num_cards))[:, None]
    return sum(((plane & cards) != 0).astype(jnp.int32) for plane in planes)


def _gone_for_good(rules: Rules, played: jax.Array, discards: jax.Array) -> jax.Array:
    """Set uint32[N] of cards with all copies played or discarded."""
    full = [*rules.full_planes, 0]
    gone = jnp.zeros_like(played)
    for copies in range(len(full) - 1):
        has_exactly = jnp.uint32(full[copies] & ~full[copies + 1])
        before = discards[copies - 1] if copies else jnp.uint32(rules.all_cards)
        gone |= has_exactly & (discards[copies] | (before & played))
    return gone


def _computed_once(seat_obs: SeatObservation) -> SeatObservation:
    def once(leaf: jax.Array) -> jax.Array:
        return materialize(leaf) if leaf.dtype == jnp.uint32 else leaf

    return jax.tree.map(once, seat_obs)
