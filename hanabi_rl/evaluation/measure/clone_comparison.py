"""Comparison of a policy with a clone: the KL reference or initial policy of its training."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hanabi_rl.evaluation.measure.crossplay import CrossPlayResult, evaluate_pair
from hanabi_rl.evaluation.measure.prediction import Divergence, Prediction, kl_between, predict
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.selfplay import (
    SelfPlayResult,
    clone_selfplay,
    evaluate_selfplay,
)

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.game_records import GameRecords
    from hanabi_rl.data.games import Games

MIN_GAMES = 1000  # minimum for every `*_ci95` in a summary
KL_GAMES = 1000


@dataclasses.dataclass(frozen=True)
class CloneComparison:
    """HDR-IPPO policy and its KL reference, a clone, on decks never used for selection."""

    bc: SelfPlayResult
    policy: SelfPlayResult
    crossplay: CrossPlayResult  # one policy with clones in the other seats, over every seat
    kl: Divergence


def compare_with_clone(
    bc: Policy, policy: Policy, num_games: int = 5000, seed: int = 0
) -> CloneComparison:
    """Play self-play of both policies and their cross-play, and estimate KL(bc || policy).

    Greedy games on the same `num_games` decks; the KL on sampled games of `policy`. Raises
    ValueError for fewer than 1,000 games.
    """
    if num_games < MIN_GAMES:
        raise ValueError(
            f"expected at least {MIN_GAMES} games for a reported score, got {num_games}"
        )
    return CloneComparison(
        bc=clone_selfplay(bc, num_games, seed),
        policy=evaluate_selfplay(policy, num_games, seed),
        crossplay=evaluate_pair(policy, bc, num_games, seed),
        kl=kl_between(bc, policy, KL_GAMES, seed),
    )


@dataclasses.dataclass(frozen=True)
class PredictionComparison:
    """Predictions of the same games by a policy and its clone (AH2AC2's Tables 3, 5, 6 and 13)."""

    policy: Prediction
    clone: Prediction
    games: int
    """Number of games; predictions are sums per deck."""

    def accuracy_difference(self) -> Ratio:
        """Accuracy of the policy minus the clone's."""
        gained = self.policy.correct - self.clone.correct
        return Ratio(gained, self.policy.decisions, min_value=-1.0, max_value=1.0)

    def loss_difference(self) -> Ratio:
        """Cross-entropy of the policy minus the clone's, in nats per decision."""
        more = self.policy.nll - self.clone.nll
        return Ratio(more, self.policy.decisions, min_value=-float("inf"))

    def loss_difference_per_timestep(self) -> Ratio:
        """`loss_difference` per seat-timestep."""
        return dataclasses.replace(self.loss_difference(), denominator=self.policy.seat_timesteps)


def compare_predictions(
    policy: Policy, clone: Policy, games: Games | GameRecords
) -> PredictionComparison:
    """Predict `games` with both policies. Raises ValueError if the rules differ."""
    return PredictionComparison(predict(policy, games), predict(clone, games), len(games))
