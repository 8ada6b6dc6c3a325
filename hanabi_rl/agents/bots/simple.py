"""`bot:simple`: SimpleBot of O'Dwyer (Quuxplusone/Hanabi, 2019), from a description of its rules.

A hint says that the cards it touches can be played now. Play the lowest, else give the hint that
makes most cards known to be playable, else discard the oldest.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import scene
from hanabi_rl.agents.bots.obs_view import ObsView
from hanabi_rl.env.game import Rules


class Notes(NamedTuple):
    """What the owner of each card is taken to know."""

    color: jax.Array
    """int32[P, H]: -1 where unknown."""
    rank: jax.Array
    """int32[P, H]: from 0; -1 where unknown."""
    playable: jax.Array
    """bool[P, H]."""


def nothing_known(rules: Rules) -> Notes:
    """The notes at the deal."""
    shape = (rules.num_players, rules.hand_size)
    unknown = jnp.full(shape, -1, jnp.int32)
    return Notes(color=unknown, rank=unknown, playable=jnp.zeros(shape, jnp.bool_))


def observe(rules: Rules, notes: Notes, seen: ObsView) -> Notes:
    """The notes after the last move."""
    hint = scene.last_hint(rules, seen)
    color = scene.color_of(rules, seen.last.hinted & -seen.last.hinted)
    rank = scene.rank_of(rules, seen.last.hinted & -seen.last.hinted)
    by_color, by_rank = (hint.touched & which for which in (hint.is_color, hint.is_rank))
    by_rank &= ~hint.reclaim
    shown = jnp.minimum(scene.piles(rules, scene.board_now(seen))[color], rules.num_ranks - 1)
    told = Notes(
        color=jnp.where(by_color, color, notes.color),
        rank=jnp.where(by_color, shown, jnp.where(by_rank, rank, notes.rank)),
        playable=notes.playable | by_color | by_rank,
    )
    moved = Notes(
        color=scene.move_down(seen, told.color, -1),
        rank=scene.move_down(seen, told.rank, -1),
        playable=scene.move_down(seen, told.playable, False),
    )
    stays = still_playable(rules, moved.color, moved.rank, seen.last.card)
    return moved._replace(playable=moved.playable & (stays | ~seen.last.is_play))


def still_playable(rules: Rules, color: jax.Array, rank: jax.Array, card: jax.Array) -> jax.Array:
    """Whether a card taken to be playable still is once `card` was played, right or wrong:
    bool[P, H]."""
    other_color = (color >= 0) & (color != scene.color_of(rules, card))
    other_rank = (rank >= 0) & (rank != scene.rank_of(rules, card))
    return (rank == rules.num_ranks - 1) | other_color | other_rank


def lowest_playable(playable: jax.Array, rank: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first flagged slot ``int32[]`` of lowest rank, unknown ranks lowest, and whether one
    is flagged."""
    return jnp.argmin(jnp.where(playable, rank, 99)), jnp.any(playable)


def newly_playable(rules: Rules, playable: jax.Array, seen: ObsView) -> jax.Array:
    """How many cards each hint would touch that are playable and not flagged: int32[P-1, V]."""
    new = ((seen.hands & scene.playable_cards(rules, scene.board_now(seen))) != 0) & ~playable
    return jnp.sum(scene.touches(rules, seen) & new[1:, None], axis=-1)


def choose(rules: Rules, notes: Notes, seen: ObsView) -> jax.Array:
    """The observer's move, int32[]."""
    playable = scene.playable_cards(rules, scene.board_now(seen))
    wrong = (seen.hands != 0) & ((seen.hands & playable) == 0)
    misleads = jnp.any(scene.touches(rules, seen) & wrong[1:, None], axis=-1)
    worth = jnp.where(misleads, 0, newly_playable(rules, notes.playable, seen)).reshape(-1)
    best = jnp.argmax(worth)
    values = rules.num_colors + rules.num_ranks
    slot, plays = lowest_playable(notes.playable[0], notes.rank[0])
    return scene.pick(
        (plays, scene.play_action(rules, slot)),
        (
            (seen.info > 0) & (worth[best] > 0),
            scene.hint_action(rules, best // values, best % values),
        ),
        (seen.info == rules.max_info_tokens, scene.reclaim_action(rules, seen)),
        otherwise=jnp.int32(0),
    )
