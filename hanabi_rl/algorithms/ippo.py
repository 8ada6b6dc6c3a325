"""IPPO: self-play from scratch, feed-forward (AH2AC2's baseline) or recurrent."""

import dataclasses
from typing import Any, ClassVar

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.ppo_runner import PPOAlgorithm, PPORunConfig, TrainingSetup
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.evaluation.reporting.training_report import link_lines, score_dict, score_table
from hanabi_rl.learning.config import LRSchedule
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.networks import FEED_FORWARD
from hanabi_rl.storage.validation import NonNegative


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPORunConfig):
    """Train agents in self-play from scratch (IPPO, de Witt et al. 2020)."""

    lr_schedule: LRSchedule = "constant"
    entropy_coef: NonNegative = 0.01
    network: NetworkField = FEED_FORWARD
    """Network of the policy and the critic; `kind` selects its class."""


class SelfPlayAlgorithm(PPOAlgorithm):
    """Base of algorithms trained from scratch and reported by self-play without colour
    permutation."""

    summary_columns: ClassVar = {"selfplay_mean": "self-play"}

    def report(self, config: IPPOConfig, policy: NetworkPolicy, clone: None) -> dict[str, Any]:
        """See `PPOAlgorithm`."""
        played = evaluate_selfplay(policy, config.report_games, config.seed)
        table = score_table([(f"{self.title} self-play", played.summary)])
        print("\n".join(["", table, *link_lines(played)]))
        return {**score_dict({"selfplay": played.summary}), "links": played.links()}


class IPPO(SelfPlayAlgorithm):
    """Self-play PPO without additions."""

    config = IPPOConfig
    title = "IPPO"

    def training(self, config: IPPOConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        return TrainingSetup(PPO(config, config.network), f"{self.title} from scratch")


ALGORITHM = IPPO()
