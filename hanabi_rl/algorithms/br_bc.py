"""BR-BC (Carroll et al. 2019; AH2AC2 section 5): a best response to the clone, trained with it.

Training starts in self-play, and the clone takes a growing part of the other seats. Its seats
sample; only the learner's seats are trained on.
"""

import dataclasses
from typing import Any, ClassVar, Literal

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.clone import CloneConfig, clone_rules, same_validation, shared_clone
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.ppo_runner import (
    PPOAlgorithm,
    RLRunConfig,
    TrainingSetup,
    selfplay_metrics,
)
from hanabi_rl.algorithms.training_partners import (
    PARTNER_SCORE_KEY,
    AnnealedPartnerConfig,
    Lineup,
    annealing,
    check_partners,
    load_partners,
    note_pure_selfplay,
    sample_lineup,
    score_with_partners,
)
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.selfplay import clone_selfplay, evaluate_selfplay
from hanabi_rl.evaluation.reporting.training_report import link_lines, score_dict, score_table
from hanabi_rl.learning.config import NonNegativeSteps
from hanabi_rl.learning.partner_population import stack_policies
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import SampleEpisode

_WITH_BC = "crossplay_with_bc_mean"


@dataclasses.dataclass(frozen=True)
class BRBCConfig(CloneConfig, AnnealedPartnerConfig, IPPOConfig):
    """Train a best response to a clone of recorded games, with the clone as partner (BR-BC)."""

    anneal_start: NonNegativeSteps = 1_000_000_000
    """Environment timesteps of pure self-play."""
    anneal_end: NonNegativeSteps = 6_000_000_000
    """Environment timesteps after which no game is self-play: the clone holds every other seat, or
    as `lineup` specifies."""
    report_policy: Literal["best", "final"] = "final"
    """Policy to report: the best with the clone (`policy/`) or the last (`policy-latest/`)."""


def mixed_lineups(
    players: int, start: int, end: int, lineup: Lineup = "independent"
) -> SampleEpisode:
    """Sampler of seats: the clone takes other seats as `lineup` specifies, with probability a of
    `annealing`; with two players, one random seat."""
    return sample_lineup(players, lambda timesteps: annealing(timesteps, start, end), lineup)


class BRBC(PPOAlgorithm):
    """See the module's docstring."""

    config = BRBCConfig
    title = "BR-BC"
    summary_columns: ClassVar = {
        "bc_selfplay_mean": "BC self-play",
        "selfplay_mean": "BR-BC self-play",
        "crossplay_with_bc_mean": "with BC",
        "val_accuracy": "val accuracy",
        "val_loss": "val loss",
        "val_loss_difference": "to BC",
    }
    unsweepable_fields = ("bc", "game")
    infer_rules = staticmethod(clone_rules)
    seeds_share_validation = staticmethod(same_validation)
    shared_run = staticmethod(shared_clone)
    check_inputs = staticmethod(check_partners)

    def training(self, config: BRBCConfig, clone: NetworkPolicy) -> TrainingSetup:
        """The clone, or one of it and `partners`, takes a growing part of the seats; the policy
        with the best score with them is saved."""
        note_pure_selfplay(config)
        everyone = [clone, *load_partners(config.partners, config.game)]

        def evaluate(policy: NetworkPolicy, config: RLRunConfig) -> dict[str, float]:
            means = score_with_partners(policy, everyone, config)
            figures = {_WITH_BC: means[0]}
            if len(means) > 1:
                figures[PARTNER_SCORE_KEY] = sum(means) / len(means)
            return selfplay_metrics(policy, config) | figures

        lineups = mixed_lineups(
            config.game.num_players, config.anneal_start, config.anneal_end, config.lineup
        )
        return TrainingSetup(
            PPO(config, config.network, sample_episode=lineups),
            self.title,
            partners=clone if len(everyone) == 1 else stack_policies(everyone),
            evaluate=evaluate,
            selection_metric=_WITH_BC if len(everyone) == 1 else PARTNER_SCORE_KEY,
            progress_metric="partner_seats",
        )

    def report(
        self, config: BRBCConfig, policy: NetworkPolicy, clone: NetworkPolicy
    ) -> dict[str, Any]:
        """Evaluate the clone and the best response to it."""
        games, seed = config.report_games, config.seed
        played = evaluate_selfplay(policy, games, seed)
        scores = {
            "bc_selfplay": ("BC self-play", clone_selfplay(clone, games, seed).summary),
            "selfplay": ("BR-BC self-play", played.summary),
            "crossplay_with_bc": (
                "BR-BC with BC",
                evaluate_pair(policy, clone, games, seed).summary,
            ),
        }
        print("\n".join(["", score_table(list(scores.values())), *link_lines(played)]))
        figures = score_dict({key: score for key, (_, score) in scores.items()})
        return {**figures, "links": played.links()}


ALGORITHM = BRBC()
