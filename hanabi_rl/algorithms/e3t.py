"""E3T: self-play with a noisy moving average of itself as partner (Yan et al. 2023); one run, no
population.

As in ZSC-Eval (Wang et al. 2024) the partner-modelling network is omitted. The default epsilon is
the paper's 0.5; ZSC-Eval's script uses 0.25.
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
    """Train with a noisy moving average of the learner as partner (E3T, Yan et al. 2023)."""

    epsilon: UnitInterval = 0.5
    """Probability of a random partner move: 0.5 in the paper, 0.25 in ZSC-Eval's script."""
    ema_rate: UnitInterval = 0.1
    """Averaging rate a of the partner: per update, copy <- (1 - a) copy + a learner."""


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
