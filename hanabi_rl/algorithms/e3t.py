"""E3T: from nothing, with a slow copy of itself that acts at random half of the time (Yan et al.
2023). One run, no population.

As in ZSC-Eval (Wang et al. 2024) there is no model of the partner. ZSC-Eval's script runs an
epsilon of 0.25; the default here is the paper's 0.5.
"""

import dataclasses

import jax.numpy as jnp

from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.algorithms.training_partners import sample_lineup
from hanabi_rl.learning.ema_partner import EMAPartnerPPO
from hanabi_rl.storage.validation import UnitInterval


@dataclasses.dataclass(frozen=True)
class E3TConfig(IPPOConfig):
    """Train beside a slow copy of oneself that often acts at random (E3T)."""

    epsilon: UnitInterval = 0.5
    """Probability that a move of the partner is a random one: 0.5 in the paper, 0.25 in ZSC-Eval's
    script."""
    ema_rate: UnitInterval = 0.1
    """a: each update the partner's copy becomes (1 - a) copy + a learner."""


class E3T(SelfPlayAlgorithm):
    """One random seat is the learner's, the others are its copy's."""

    config = E3TConfig
    title = "E3T"

    def training(self, config: E3TConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        ppo = EMAPartnerPPO(
            config,
            config.network,
            sample_episode=sample_lineup(
                config.game.num_players, lambda timesteps: jnp.float32(1.0)
            ),
            learner_fraction=1.0 / config.game.num_players,
            epsilon=config.epsilon,
            ema_rate=config.ema_rate,
        )
        return TrainingSetup(ppo, f"{self.title} from scratch", progress_metric="partner_seats")


ALGORITHM = E3T()
