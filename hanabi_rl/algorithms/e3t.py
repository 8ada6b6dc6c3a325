"""E3T: from nothing, beside a slow copy of itself that acts at random half of the time (Yan et al.
2023, as ZSC-Eval, Wang et al. 2024, runs it). One run, no population."""

import dataclasses

import jax.numpy as jnp

from hanabi_rl.algorithms.ippo import FromScratch, IPPOConfig
from hanabi_rl.algorithms.lineups import draw_lineup
from hanabi_rl.algorithms.loop import Training
from hanabi_rl.learning.follower import FollowedPPO
from hanabi_rl.storage.ranges import Share


@dataclasses.dataclass(frozen=True)
class E3TConfig(IPPOConfig):
    """Train beside a slow copy of oneself that often acts at random (E3T)."""

    epsilon: Share = 0.5
    """The chance that a move of the partner is a random one."""
    follow: Share = 0.1
    """a: each update the partner's copy becomes (1 - a) copy + a learner."""


class E3T(FromScratch):
    """One random seat is the learner's, the others are its copy's."""

    config = E3TConfig
    title = "E3T"

    def training(self, config: E3TConfig, clone: None) -> Training:
        """See `PPOAlgorithm`."""
        ppo = FollowedPPO(
            config,
            config.network,
            draw_episode=draw_lineup(config.game.num_players, lambda timesteps: jnp.float32(1.0)),
            own_share=1.0 / config.game.num_players,
            epsilon=config.epsilon,
            rate=config.follow,
        )
        return Training(ppo, f"{self.title} from scratch", shown="partner_seats")


ALGORITHM = E3T()
