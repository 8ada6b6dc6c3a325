"""COLE (Cooperative Open-ended Learning, Li et al. 2023): one run with its own snapshots as
partners.

A snapshot with a low mean score with the others, and with the learner, is sampled more often
(`learning/cole.py`).
"""

import dataclasses
from typing import Annotated

import jax.numpy as jnp

from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup, check_device_split
from hanabi_rl.algorithms.training_partners import (
    Lineup,
    learner_decision_fraction,
    sample_lineup,
)
from hanabi_rl.learning.cole import COLEPPO
from hanabi_rl.storage.validation import NonNegative, PositiveInt, Range, UnitInterval

LINEUP: Lineup = "all-or-none"
"""Snapshots in a game hold all seats but one."""


@dataclasses.dataclass(frozen=True)
class COLEConfig(IPPOConfig):
    """Train with own snapshots as partners (COLE)."""

    snapshots: Annotated[int, Range(2, 1024)] = 16
    """Maximum number of snapshots; divides `num_envs`. ZSC-Eval: 25, 50, 75."""
    generation_updates: PositiveInt = 20
    """Updates after which the learner can become a snapshot."""
    partner_prob: UnitInterval = 0.75
    """Probability that a snapshot plays in a game; otherwise the learner holds all seats."""
    priority_exponent: NonNegative = 1.0
    """Exponent of the rank of a snapshot's mean score in its sampling priority: 1.5, 1.0, 0.5 in
    ZSC-Eval for 25, 50, 75 snapshots."""


class COLE(SelfPlayAlgorithm):
    """Learner with its own snapshots as partners."""

    config = COLEConfig
    title = "COLE"

    def training(self, config: COLEConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        players, prob = config.game.num_players, config.partner_prob
        ppo = COLEPPO(
            config,
            config.network,
            sample_episode=sample_lineup(players, lambda timesteps: jnp.float32(prob), LINEUP),
            learner_fraction=learner_decision_fraction(config, prob, LINEUP),
            num_env_groups=config.snapshots,
            beta=config.priority_exponent,
            generation=config.generation_updates,
        )
        check_device_split(config, ppo.population(None))
        return TrainingSetup(ppo, f"{self.title} from scratch", progress_metric="partner_seats")


ALGORITHM = COLE()
