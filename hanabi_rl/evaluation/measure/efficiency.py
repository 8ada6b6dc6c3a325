"""Efficiency as on hanab.live: cards gotten per clue.

For one game, at its end:

    efficiency = min(max_score, played + held) / (hints + strikes + lost)

`played`: cards on the fireworks, also after the last life is lost. `held`: hinted cards in hands,
without those known useless, that is, all cards possible by the hints are played or unreachable
because all copies of the card or of a lower one are discarded. `max_score`: given the
discards. `strikes`: lives lost. `lost`: fireworks completed with all information tokens available.
Uselessness inferred by counting other cards is ignored.

The site computes the same for a watched game. The mean is over games, without unfinished games.
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
from hanabi_rl.storage.program_cache import CachedJit

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis


def efficiency(record: GameAnalysis) -> Ratio:
    """Cards per clue, averaged over finished games with at least one clue given or lost."""
    gotten, clues = read_clues(record.games)
    counted = (clues > 0) & ~record.games.unfinished
    return Ratio(np.where(counted, gotten / np.maximum(clues, 1), 0.0), counted.astype(np.float64))


def required_efficiency(rules: Rules) -> float:
    """Cards per clue of a perfect game: maximum score / maximum number of clues.

    The site's minimum required efficiency. Clues: initial tokens, one per discard that leaves every
    card playable, and one per firework that can be completed before the final round: 0.862, 1.000,
    1.000 and 1.190 for 2, 3, 4 and 5 players.
    """
    score, last = rules.max_score, rules.num_players + 1  # plays in the final round
    drawn = rules.deck_size - rules.num_players * rules.hand_size
    discards = max(0, drawn + rules.num_players - max(score, last))
    plays_before = max(0, min(score, drawn + rules.num_players) - last)
    completed = min(plays_before // rules.num_ranks, rules.num_colors)
    return score / (rules.max_info_tokens + discards + completed)


def read_clues(games: Games) -> tuple[np.ndarray, np.ndarray]:
    """(cards gotten, clues given or lost), int64[N] each; all seats count, human or not."""
    chunks = in_chunks(chunk_size(len(games)), games.decks, games.actions, fill=True)
    read = [_read_chunk(*chunk, rules=games.rules) for chunk in chunks]
    gotten, lost = join_chunks(read, len(games))
    hints = np.asarray(decode(games.rules, games.actions).is_hint).sum(axis=1)
    return gotten.astype(np.int64), hints + lost


@functools.partial(CachedJit, static_argnames="rules")
def _read_chunk(
    decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> tuple[jax.Array, jax.Array]:
    """Cards gotten, and clues lost to strikes and completed fireworks, int32[n] each."""
    padded = jnp.pad(actions, ((0, 0), (0, 1)), constant_values=rules.noop)  # for one more state
    states = replay(rules, decks, padded).state  # [T + 1, n, ...]
    end = jax.tree.map(lambda leaf: leaf[-1], states)
    useful = rules.all_cards & ~core.useless_cards(rules, end)
    held = (end.hints != 0) & ((end.knowledge & useful[:, None, None]) != 0)
    gotten = core.points(rules, end) + held.sum(axis=(1, 2))
    max_score = count(useful | end.fireworks)
    completed = states.last_scored & (states.last_card % rules.num_ranks == rules.num_ranks - 1)
    moved = (actions != rules.noop).T  # after the end the state keeps the last move
    wasted = (completed & ~states.last_gained_token)[1:] & moved
    strikes = rules.max_life_tokens - end.life_tokens
    return jnp.minimum(gotten, max_score), strikes + wasted.sum(axis=0)
