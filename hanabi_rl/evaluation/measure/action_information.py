"""How varied an agent's actions are, and how much they follow its partner's: the information
metrics of Siu et al. 2025 (arXiv 2503.15516, appendix C.2).

Actions are the ids of `games/hanabi/actions.py` (20 of two players), logarithms natural,
probabilities the shares of what was counted over all games together. What the paper leaves open is
decided thus:

- The agent measured is the one that *responds*: of the pair (previous mover's action, own action)
  it made the second. The first move of a game has no predecessor and is in no pair.
- An estimate from counts is biased: an entropy of K outcomes seen in n events by about -(K - 1)/2n
  (Miller and Madow), so mutual information by (K_joint - K_row - K_column + 1)/2n. The corrected
  figures take that off.

An entropy is the mean of -ln p over its events, so each figure is a `Ratio` of sums over games. Its
interval resamples games at the shares found, the linear part of what they change.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.turn_masks import counted_turn_mask

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis


class MovePairs(NamedTuple):
    """Two moves in a row, [N, T - 1] each."""

    before: np.ndarray  # int: the action at t - 1
    after: np.ndarray  # int: the action at t
    counted: np.ndarray  # bool


def action_entropy(record: GameAnalysis) -> Ratio:
    """AD-entropy (Eq. 4), nats: of the agent's actions."""
    games = record.games
    return _entropy(games.actions, counted_turn_mask(games), games.rules.num_moves)


def action_entropy_corrected(record: GameAnalysis) -> Ratio:
    """AD-entropy with the correction of Miller and Madow, nats."""
    actions, counted = record.games.actions, counted_turn_mask(record.games)
    return _shifted(action_entropy(record), _num_distinct(actions, counted) - 1)


def response_entropy(record: GameAnalysis) -> Ratio:
    """ARD-entropy (appendix C.2), nats: of the pairs (previous mover's action, the agent's)."""
    pairs = responses(record.games)
    return _entropy(_joint(pairs), pairs.counted, record.games.rules.num_moves**2)


def instantaneous_coordination(record: GameAnalysis) -> Ratio:
    """Instantaneous coordination (Eq. 5), nats, corrected: mutual information of the previous
    mover's action and the agent's."""
    return _mutual_information(
        responses(record.games), record.games.rules.num_moves, corrected=True
    )


def coordination_plugin(record: GameAnalysis) -> Ratio:
    """Instantaneous coordination without the correction, nats."""
    return _mutual_information(
        responses(record.games), record.games.rules.num_moves, corrected=False
    )


def coordination_of_partner(record: GameAnalysis) -> Ratio:
    """Mutual information, corrected, of the agent's action and the next mover's, nats: the other
    reading of Eq. 5."""
    return _mutual_information(
        responses(record.games, own_first=True), record.games.rules.num_moves, corrected=True
    )


def responses(games: Games, own_first: bool = False) -> MovePairs:
    """Every two moves in a row of which the agent made the second (`own_first`: the first)."""
    before, after = games.actions[:, :-1], games.actions[:, 1:]
    own = counted_turn_mask(games)
    counted = (own[:, :-1] if own_first else own[:, 1:]) & (after != games.rules.noop)
    return MovePairs(before, after, counted)


def _mutual_information(pairs: MovePairs, kinds: int, corrected: bool) -> Ratio:
    """H(before) + H(after) - H(both), of the same pairs of `kinds` different actions."""
    outcomes = (pairs.before, pairs.after, _joint(pairs))
    row, column, both = (_entropy(outcome, pairs.counted, kinds) for outcome in outcomes)
    information = row.numerator + column.numerator - both.numerator
    plugin = Ratio(information, both.denominator, max_value=row.max_value)
    if not corrected:
        return plugin
    rows, columns, cells = (_num_distinct(outcome, pairs.counted) for outcome in outcomes)
    return _shifted(plugin, rows + columns - cells - 1)


def _joint(pairs: MovePairs) -> np.ndarray:
    """int[N, T - 1]: one number for each pair of actions."""
    return pairs.before * (pairs.after.max(initial=0) + 1) + pairs.after


def _entropy(outcomes: np.ndarray, counted: np.ndarray, kinds: int) -> Ratio:
    """The mean of -ln p over the counted `outcomes` int[N, T], p their shares; at most ln `kinds`,
    the number of different outcomes that there can be."""
    counts = np.bincount(outcomes[counted], minlength=int(outcomes.max(initial=0)) + 1)
    shares = np.maximum(counts, 1) / max(counted.sum(), 1)  # those of none are not looked up
    surprise = Ratio.masked_mean(-np.log(shares)[outcomes], counted)
    return dataclasses.replace(surprise, max_value=float(np.log(kinds)))


def _num_distinct(outcomes: np.ndarray, counted: np.ndarray) -> int:
    """How many different outcomes were seen."""
    return len(np.unique(outcomes[counted]))


def _shifted(ratio: Ratio, degrees: int) -> Ratio:
    """The ratio plus degrees / 2n, of n events."""
    shift = degrees / (2 * max(ratio.denominator.sum(), 1))
    return dataclasses.replace(ratio, numerator=ratio.numerator + shift * ratio.denominator)
