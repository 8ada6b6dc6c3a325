"""`bot:simple`: SimpleBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

Hints mean that the touched cards are playable. It plays the lowest such card, otherwise gives the
hint that makes the most cards known to be playable, otherwise discards its oldest card.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.games.hanabi.cards import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation


class Notes(NamedTuple):
    """Assumed knowledge of each card's owner."""

    color: jax.Array  # int32[P, H]: -1 if unknown
    rank: jax.Array  # int32[P, H]: from 0; -1 if unknown
    playable: jax.Array  # bool[P, H]


def nothing_known(rules: Rules) -> Notes:
    """Notes at the deal."""
    shape = (rules.num_players, rules.hand_size)
    unknown = jnp.full(shape, -1, jnp.int32)
    return Notes(color=unknown, rank=unknown, playable=jnp.zeros(shape, jnp.bool_))


def observe(rules: Rules, notes: Notes, seen: SeatObservation) -> Notes:
    """Notes after the last move."""
    hint = common.last_hint(rules, seen)
    color = common.color_of(rules, seen.last.hinted & -seen.last.hinted)
    rank = common.rank_of(rules, seen.last.hinted & -seen.last.hinted)
    by_color, by_rank = (hint.touched & which for which in (hint.is_color, hint.is_rank))
    by_rank &= ~hint.reclaim
    next_rank = jnp.minimum(common.piles(rules, seen)[color], rules.num_ranks - 1)
    noted = Notes(
        color=jnp.where(by_color, color, notes.color),
        rank=jnp.where(by_color, next_rank, jnp.where(by_rank, rank, notes.rank)),
        playable=notes.playable | by_color | by_rank,
    )
    moved = Notes(
        color=seen.last.shifted(noted.color, -1),
        rank=seen.last.shifted(noted.rank, -1),
        playable=seen.last.shifted(noted.playable, False),
    )
    stays = still_playable(rules, moved.color, moved.rank, seen.last.card)
    return moved._replace(playable=moved.playable & (stays | ~seen.last.is_play))


def still_playable(rules: Rules, color: jax.Array, rank: jax.Array, card: jax.Array) -> jax.Array:
    """True where a card assumed playable stays so after a play of `card`: bool[P, H]."""
    other_color = (color >= 0) & (color != common.color_of(rules, card))
    other_rank = (rank >= 0) & (rank != common.rank_of(rules, card))
    return (rank == rules.num_ranks - 1) | other_color | other_rank


def lowest_playable(playable: jax.Array, rank: jax.Array) -> tuple[jax.Array, jax.Array]:
    """First flagged slot ``int32[]`` of the lowest rank (unknown: lowest), and True if there is
    one."""
    return jnp.argmin(jnp.where(playable, rank, 99)), jnp.any(playable)


def newly_playable(rules: Rules, playable: jax.Array, seen: SeatObservation) -> jax.Array:
    """Number of playable, unflagged cards that each hint would touch: int32[P-1, V]."""
    new = ((seen.hands & next_cards(rules, seen.played)) != 0) & ~playable
    return jnp.sum(common.touches(rules, seen) & new[1:, None], axis=-1)


def choose(rules: Rules, notes: Notes, seen: SeatObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    playable = next_cards(rules, seen.played)
    wrong = (seen.hands != 0) & ((seen.hands & playable) == 0)
    misleads = jnp.any(common.touches(rules, seen) & wrong[1:, None], axis=-1)
    worth = jnp.where(misleads, 0, newly_playable(rules, notes.playable, seen)).reshape(-1)
    best = jnp.argmax(worth)
    values = rules.num_colors + rules.num_ranks
    slot, plays = lowest_playable(notes.playable[0], notes.rank[0])
    return common.pick(
        (plays, common.play_action(rules, slot)),
        (
            (seen.info > 0) & (worth[best] > 0),
            common.hint_action(rules, best // values, best % values),
        ),
        (seen.info == rules.max_info_tokens, common.reclaim_action(rules, seen)),
        otherwise=jnp.int32(0),
    )
