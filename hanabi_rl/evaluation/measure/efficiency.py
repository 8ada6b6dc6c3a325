"""Efficiency: the figure that players of hanab.live read off their games, cards per clue.

For one game, at its end:

    efficiency = min(most, played + held) / (hints + strikes + lost)

`played`: cards on the fireworks, also where the last life was lost. `held`: cards in the hands that
a hint has touched, without those known useless: every card that the hints given on it leave
possible is played, or out of reach because all copies of it or of a lower one are discarded.
`most`: the highest score that the discards leave possible. `strikes`: lives lost. `lost`: fireworks
completed while all information tokens were there. A card known useless by counting other cards is
not recognised.

The site computes the same for a watched game. The mean is over games, as players compare them,
those left before their end excepted.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure.chunks import chunk_size, in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.hanabi import dynamics as core
from hanabi_rl.games.hanabi.actions import decode
from hanabi_rl.games.hanabi.bits import count
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis


def efficiency(record: GameAnalysis) -> Ratio:
    """Cards per clue, the mean over games; without the games that were left before their end, and
    those without a clue given or lost."""
    gotten, clues = read_clues(record.games)
    counted = (clues > 0) & ~record.games.unfinished
    return Ratio(np.where(counted, gotten / np.maximum(clues, 1), 0.0), counted.astype(np.float64))


def required_efficiency(rules: Rules) -> float:
    """Cards per clue that a perfect game needs: the highest score over the clues there can be.

    The site's minimum required efficiency. The clues are the tokens at the start, one for each
    discard that still leaves every card playable, and one for each firework that can be completed
    before the final round: 0.862, 1.000, 1.000 and 1.190 with 2, 3, 4 and 5 players.
    """
    score, last = rules.max_score, rules.num_players + 1  # plays in the final round
    drawn = rules.deck_size - rules.num_players * rules.hand_size
    discards = max(0, drawn + rules.num_players - max(score, last))
    plays_before = max(0, min(score, drawn + rules.num_players) - last)
    completed = min(plays_before // rules.num_ranks, rules.num_colors)
    return score / (rules.max_info_tokens + discards + completed)


def read_clues(games: Games) -> tuple[np.ndarray, np.ndarray]:
    """(cards gotten, clues given or lost) int64[N] each; all seats count, human or not."""
    chunks = in_chunks(chunk_size(len(games)), games.decks, games.actions, fill=True)
    read = [_read_chunk(games.rules, *chunk) for chunk in chunks]
    gotten, lost = join_chunks(read, len(games))
    hints = np.asarray(decode(games.rules, games.actions).is_hint).sum(axis=1)
    return gotten.astype(np.int64), hints + lost


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """int32[n] each: cards gotten, and clues lost by strikes and by completed fireworks."""
    padded = jnp.pad(actions, ((0, 0), (0, 1)), constant_values=rules.noop)  # one state more
    states = replay(rules, decks, padded).state  # [T + 1, n, ...]
    end = jax.tree.map(lambda leaf: leaf[-1], states)
    useful = rules.all_cards & ~core.useless_cards(rules, end)
    held = (end.hints != 0) & ((end.knowledge & useful[:, None, None]) != 0)
    gotten = core.points(rules, end) + held.sum(axis=(1, 2))
    most = count(useful | end.fireworks)
    completed = states.last_scored & (states.last_card % rules.num_ranks == rules.num_ranks - 1)
    moved = (actions != rules.noop).T  # after the end the state keeps the last move
    wasted = (completed & ~states.last_gained_token)[1:] & moved
    strikes = rules.max_life_tokens - end.life_tokens
    return jnp.minimum(gotten, most), strikes + wasted.sum(axis=0)
