"""How players play: the behaviour metrics of Canaan et al. that AH2AC2 reports in its Table 10.

*Information per play*: for each card played, the share of {its colour, its rank} that its holder
knew, averaged.
*Communicativeness*: the share of a player's turns on which it gives a hint, of those on which it
could.
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

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

_CHUNK = 1024  # games read at once


class Turns(NamedTuple):
    """What was known and done on each turn of N games, [N, T]; `plays` and `hints` are of the
    counted turns."""

    counted: np.ndarray  # bool: a turn of a counted seat, before the end
    plays: np.ndarray  # bool
    hints: np.ndarray  # bool
    named: np.ndarray  # float32: of the card played, 0, 0.5 or 1 by what hints named
    deduced: np.ndarray  # float32: the same by what hints left as the only colour or rank possible
    tokens: np.ndarray  # int32: information tokens before the move

    @property
    def could_hint(self) -> np.ndarray:
        """bool[N, T]: a counted turn on which there was a token to spend."""
        return self.counted & (self.tokens > 0)


def information_per_play(record: GameAnalysis) -> Ratio:
    """By the hints that named a card's colour or rank."""
    return Ratio.masked_mean(record.turns.named, record.turns.plays, is_proportion=True)


def deduced_information_per_play(record: GameAnalysis) -> Ratio:
    """The same, counting also what hints about other cards left as the only colour or rank
    possible."""
    return Ratio.masked_mean(record.turns.deduced, record.turns.plays, is_proportion=True)


def communicativeness(record: GameAnalysis) -> Ratio:
    """Hints given per turn on which there was an information token."""
    return Ratio.masked_mean(record.turns.hints, record.turns.could_hint, is_proportion=True)


def hint_rate(record: GameAnalysis) -> Ratio:
    """Hints given per turn."""
    return Ratio.masked_mean(record.turns.hints, record.turns.counted, is_proportion=True)


def length(record: GameAnalysis) -> Ratio:
    """Turns a game, of those that were not left before their end."""
    games, finished = record.games, ~record.games.unfinished
    return Ratio(np.where(finished, games.num_actions, 0), finished.astype(np.int64))


def read_turns(games: Games, chunk_size: int = _CHUNK) -> Turns:
    """Every turn of recorded games; only those of the `human_seats` count where the games name
    them."""
    rules, num_games = games.rules, len(games)
    chunks = in_chunks(chunk_size, games.decks, games.actions)
    named, deduced, tokens = join_chunks(
        [_read_chunk(rules, *chunk) for chunk in chunks], num_games
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


@functools.partial(jax.jit, static_argnums=0)
def _read_chunk(rules: Rules, decks: jax.Array, actions: jax.Array) -> tuple[jax.Array, ...]:
    """For each turn of n games: what is known of the card that its action would play, by what hints
    named and by what they left possible, float32[n, T] each; and the information tokens int32[n,
    T]."""
    states = replay(rules, decks, actions).state  # [T, n, ...]
    slot = decode(rules, actions).slot.T

    def read(state: State, slot: jax.Array) -> tuple[jax.Array, ...]:
        named: list[jax.Array] = []
        left: list[jax.Array] = []
        for words, groups in (
            (state.possible_colors, rules.num_colors),
            (state.possible_ranks, rules.num_ranks),
        ):
            mover = jnp.take_along_axis(words, state.player[:, None], axis=1)[:, 0]
            bits = [(mover >> (group * rules.hand_size + slot)) & 1 for group in range(groups + 1)]
            named.append(jnp.where(bits[groups] != 0, 0.5, 0.0))
            left.append(jnp.where(sum(bits[:groups]) == 1, 0.5, 0.0))
        return named[0] + named[1], left[0] + left[1], state.info_tokens

    return tuple(field.T for field in jax.vmap(read)(states, slot))
