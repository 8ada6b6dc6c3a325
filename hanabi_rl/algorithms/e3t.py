"""E3T: from nothing, beside a slow copy of itself that acts at random half of the time (Yan et al.
2023, as ZSC-Eval, Wang et al. 2024, runs it). One run, no population."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.ippo import IPPOConfig, report_selfplay
from hanabi_rl.algorithms.lineups import draw_lineup
from hanabi_rl.algorithms.loop import Training, run_ppo
from hanabi_rl.learning.follower import FollowedPPO
from hanabi_rl.storage.ranges import Share


@dataclasses.dataclass(frozen=True)
class E3TConfig(IPPOConfig):
    """train/e3t.py"""

    epsilon: Share = 0.5
    """The chance that a move of the partner is a random one."""
    follow: Share = 0.1
    """a: each update the partner's copy becomes (1 - a) copy + a learner."""


def training(config: E3TConfig, clone: None) -> Training:
    """One random seat is the learner's, the others are its copy's."""
    del clone
    ppo = FollowedPPO(
        config,
        config.network,
        draw_episode=draw_lineup(config.game.num_players, lambda timesteps: jnp.float32(1.0)),
        own_share=1.0 / config.game.num_players,
        epsilon=config.epsilon,
        rate=config.follow,
    )
    return Training(
        "e3t",
        "E3T",
        "E3T from scratch",
        ppo,
        shown="partner_seats",
    )


def run_e3t(config: E3TConfig) -> dict[str, Any]:
    """See `run_ppo`."""
    return run_ppo(
        "e3t", config, training, lambda config, policy, _: report_selfplay(config, policy, "E3T")
    )


ALGORITHM = Algorithm(
    "e3t",
    E3TConfig,
    run_e3t,
    shown={"selfplay_mean": "self-play"},
    in_sweeps={"report_policy": "final"},
)
