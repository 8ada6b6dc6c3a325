"""Entropy of an agent's actions, and mutual information with its partner's actions.

Action-information metrics of Siu et al. 2025 (arXiv 2503.15516, appendix C.2). Actions are the ids
of `games/hanabi/actions.py` (20 for two players), logarithms are natural, probabilities are
relative frequencies over all games. Choices that the paper leaves open:

- The measured agent is the one that *responds*: it made the second action of each pair (previous
  player's action, own action). The first move of a game is in no pair.
- Estimates from counts are biased: an entropy of K observed outcomes in n events by about -(K -
  1)/2n (Miller and Madow), so mutual information by (K_joint - K_row - K_column + 1)/2n. Corrected
  versions subtract this.

An entropy is the mean of -ln p over its events, so each measure is a `Ratio` of sums over games.
Its interval resamples games with the estimated probabilities fixed: a linearisation.
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
    """Consecutive moves, [N, T - 1] each."""

    before: np.ndarray  # int: the action at t - 1
    after: np.ndarray  # int: the action at t
    counted: np.ndarray  # bool


def action_entropy(record: GameAnalysis) -> Ratio:
    """AD-entropy (Eq. 4): entropy of the agent's actions, in nats."""
    games = record.games
    return _entropy(games.actions, counted_turn_mask(games), games.rules.num_actions)


def action_entropy_corrected(record: GameAnalysis) -> Ratio:
    """AD-entropy with the Miller-Madow correction, in nats."""
    actions, counted = record.games.actions, counted_turn_mask(record.games)
    return _shifted(action_entropy(record), _num_distinct(actions, counted) - 1)


def response_entropy(record: GameAnalysis) -> Ratio:
    """ARD-entropy (appendix C.2): entropy of (previous action, agent's action), in nats."""
    pairs = responses(record.games)
    return _entropy(_joint(pairs), pairs.counted, record.games.rules.num_actions**2)


def instantaneous_coordination(record: GameAnalysis) -> Ratio:
    """Instantaneous coordination (Eq. 5), corrected, in nats.

    Mutual information of the previous player's action and the agent's.
    """
    return _mutual_information(
        responses(record.games), record.games.rules.num_actions, corrected=True
    )


def coordination_plugin(record: GameAnalysis) -> Ratio:
    """Instantaneous coordination without the correction, in nats."""
    return _mutual_information(
        responses(record.games), record.games.rules.num_actions, corrected=False
    )


def coordination_of_partner(record: GameAnalysis) -> Ratio:
    """Corrected mutual information of the agent's action and the next player's, in nats.

    The other reading of Eq. 5.
    """
    return _mutual_information(
        responses(record.games, own_first=True), record.games.rules.num_actions, corrected=True
    )


def responses(games: Games, own_first: bool = False) -> MovePairs:
    """Pairs of consecutive moves, the second (with `own_first`: the first) by the agent."""
    before, after = games.actions[:, :-1], games.actions[:, 1:]
    own = counted_turn_mask(games)
    counted = (own[:, :-1] if own_first else own[:, 1:]) & (after != games.rules.noop)
    return MovePairs(before, after, counted)


def _mutual_information(pairs: MovePairs, kinds: int, corrected: bool) -> Ratio:
    """H(before) + H(after) - H(before, after), with `kinds` possible actions."""
    outcomes = (pairs.before, pairs.after, _joint(pairs))
    row, column, both = (_entropy(outcome, pairs.counted, kinds) for outcome in outcomes)
    information = row.numerator + column.numerator - both.numerator
    plugin = Ratio(information, both.denominator, max_value=row.max_value)
    if not corrected:
        return plugin
    rows, columns, cells = (_num_distinct(outcome, pairs.counted) for outcome in outcomes)
    return _shifted(plugin, rows + columns - cells - 1)


def _joint(pairs: MovePairs) -> np.ndarray:
    """One number per pair of actions, int[N, T - 1]."""
    return pairs.before * (pairs.after.max(initial=0) + 1) + pairs.after


def _entropy(outcomes: np.ndarray, counted: np.ndarray, kinds: int) -> Ratio:
    """Mean of -ln p over the counted `outcomes` int[N, T]; at most ln `kinds`."""
    counts = np.bincount(outcomes[counted], minlength=int(outcomes.max(initial=0)) + 1)
    # outcomes that never occur are not looked up
    probabilities = np.maximum(counts, 1) / max(counted.sum(), 1)
    surprise = Ratio.masked_mean(-np.log(probabilities)[outcomes], counted)
    return dataclasses.replace(surprise, max_value=float(np.log(kinds)))


def _num_distinct(outcomes: np.ndarray, counted: np.ndarray) -> int:
    return len(np.unique(outcomes[counted]))


def _shifted(ratio: Ratio, degrees: int) -> Ratio:
    shift = degrees / (2 * max(ratio.denominator.sum(), 1))
    return dataclasses.replace(ratio, numerator=ratio.numerator + shift * ratio.denominator)
