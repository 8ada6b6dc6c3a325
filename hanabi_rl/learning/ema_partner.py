"""PPO with an exponential moving average of itself as noisy partner (E3T, Yan et al. 2023).

The partner acts at random with probability epsilon and otherwise as a copy of the learner's actor,
updated as copy <- (1 - a) copy + a learner after each update. Only the learner is trained. E3T's
partner-modelling network is omitted, as in ZSC-Eval's configuration of E3T.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import optax

from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState

PyTree = Any


class EMAPartnerState(LearnerState):
    """Learner state with the averaged copy."""

    ema_params: PyTree  # averaged parameters of the actor


@dataclasses.dataclass(frozen=True)
class EMAPartnerPPO(PPO):
    """PPO with its own average as partner; `sample_episode` assigns the seats of the copy."""

    epsilon: float = 0.5
    """Probability that the copy acts at random."""
    ema_rate: float = 0.1
    """Step a of the copy towards the learner per update."""

    def partner(self, params: PyTree) -> EpsilonNoise:
        """Noisy policy with these actor parameters, for the partner's seats."""
        return EpsilonNoise(self.policy_of(params), epsilon=self.epsilon)

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[EMAPartnerState, RunnerState]:
        """See `RolloutLearner.init`; the copy starts equal to the learner."""
        learner, actors = super().init(key, context.replace(partners=self.partner(None)), actor)
        return EMAPartnerState(**vars(learner), ema_params=learner.params["actor"]), actors

    def update(
        self, learner: LearnerState, actors: RunnerState, context: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`; the copy is updated afterwards."""
        assert isinstance(learner, EMAPartnerState), "init made it"
        with_copy = context.replace(partners=self.partner(learner.ema_params))
        updated, actors, metrics = super().update(learner, actors, with_copy)
        follower = optax.incremental_update(
            updated.params["actor"], learner.ema_params, self.ema_rate
        )
        return updated.replace(ema_params=follower), actors, metrics
