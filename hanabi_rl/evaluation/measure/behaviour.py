"""Behaviour metrics of Canaan et al., as in AH2AC2's Table 10.

*Information per play*: fraction of {colour, rank} known to the holder of a played card, averaged
over plays. *Communicativeness*: hints per turn with an information token.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure.chunks import in_chunks, join_chunks
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask
from hanabi_rl.games.hanabi.actions import Moves, decode
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.program_cache import CachedJit

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

_CHUNK = 1024  # games read at once


class Turns(NamedTuple):
    """Knowledge and actions on each turn of N games, [N, T]; `plays`, `hints`: if counted."""

    counted: np.ndarray  # bool, turn of a counted seat before the end
    plays: np.ndarray  # bool
    hints: np.ndarray  # bool
    # float32, 0, 0.5 or 1: fraction of (colour, rank) of the played card named by hints
    named: np.ndarray
    # float32, the same, including the only possible colour or rank after all hints
    deduced: np.ndarray
    tokens: np.ndarray  # int32, information tokens before the move

    @property
    def could_hint(self) -> np.ndarray:
        """Counted turns with an information token, bool[N, T]."""
        return self.counted & (self.tokens > 0)


def information_per_play(record: GameAnalysis) -> Ratio:
    """Information per play: fraction of the card's colour and rank named by hints."""
    return Ratio.masked_mean(record.turns.named, record.turns.plays, is_proportion=True)


def deduced_information_per_play(record: GameAnalysis) -> Ratio:
    """As `information_per_play`, including a colour or rank implied by all hints."""
    return Ratio.masked_mean(record.turns.deduced, record.turns.plays, is_proportion=True)


def communicativeness(record: GameAnalysis) -> Ratio:
    """Hints per counted turn with an information token."""
    return Ratio.masked_mean(record.turns.hints, record.turns.could_hint, is_proportion=True)


def hint_rate(record: GameAnalysis) -> Ratio:
    """Hints per counted turn."""
    return Ratio.masked_mean(record.turns.hints, record.turns.counted, is_proportion=True)


def length(record: GameAnalysis) -> Ratio:
    """Turns per finished game."""
    games, finished = record.games, ~record.games.unfinished
    return Ratio(np.where(finished, games.num_actions, 0), finished.astype(np.int64))


def read_turns(games: Games, chunk_size: int = _CHUNK) -> Turns:
    """Read every turn of recorded games; counted: those of `human_seats` if available."""
    rules, num_games = games.rules, len(games)
    chunks = in_chunks(chunk_size, games.decks, games.actions)
    named, deduced, tokens = join_chunks(
        [_read_chunk(*chunk, rules=rules) for chunk in chunks], num_games
    )
    counted = counted_turn_mask(games)
    moves: Moves = decode(rules, games.actions)
    return Turns(
        counted=counted,
        plays=counted & moves.is_play,
        hints=counted & moves.is_hint,
        named=named,
        deduced=deduced,
        tokens=tokens,
    )


@functools.partial(CachedJit, static_argnames="rules")
def _read_chunk(decks: jax.Array, actions: jax.Array, *, rules: Rules) -> tuple[jax.Array, ...]:
    """Information on the card in each action's slot, named and deduced, float32[n, T] each;
    information tokens int32[n, T]."""
    states = replay(rules, decks, actions).state  # [T, n, ...]
    slot = decode(rules, actions).slot.T

    def read(state: State, slot: jax.Array) -> tuple[jax.Array, ...]:
        named: list[jax.Array] = []
        left: list[jax.Array] = []
        for words, groups in (
            (state.possible_colors, rules.num_colors),
            (state.possible_ranks, rules.num_ranks),
        ):
            own = jnp.take_along_axis(words, state.player[:, None], axis=1)[:, 0]
            bits = [(own >> (group * rules.hand_size + slot)) & 1 for group in range(groups + 1)]
            named.append(jnp.where(bits[groups] != 0, 0.5, 0.0))
            left.append(jnp.where(sum(bits[:groups]) == 1, 0.5, 0.0))
        return named[0] + named[1], left[0] + left[1], state.info_tokens

    return tuple(field.T for field in jax.vmap(read)(states, slot))
