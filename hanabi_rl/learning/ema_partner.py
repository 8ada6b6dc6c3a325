"""A learner beside a Polyak copy of itself that errs often (E3T, Yan et al. 2023).

The partner acts at random with probability epsilon and else as the copy, an exponential moving
average of the learner's actor: copy <- (1 - a) copy + a learner after each update. Only the
learner learns. (E3T's model of the partner is left out, as in ZSC-Eval's setting of it.)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import optax

from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, RunnerState, TrainContext

PyTree = Any


class EMAPartnerState(LearnerState):
    """A learner's state with its copy."""

    ema_params: PyTree  # of the actor's parameters


@dataclasses.dataclass(frozen=True)
class EMAPartnerPPO(PPO):
    """`draw_episode` says which seats are the copy's; no other partner is asked."""

    epsilon: float = 0.5
    """The chance of a random move of the copy."""
    ema_rate: float = 0.1
    """a, the copy's step towards the learner in an update."""

    def partner(self, params: PyTree) -> EpsilonNoise:
        """Who plays beside the learner: the actor with these parameters, erring."""
        policy = NetworkPolicy(
            params=params,
            rules=self.env.rules,
            network=self.network,
            precision=self.config.precision,
        )
        return EpsilonNoise(policy, epsilon=self.epsilon)

    def init(
        self, key: jax.Array, given: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[EMAPartnerState, RunnerState]:
        """See `PPO.init`; the copy begins as the learner."""
        learner, actors = super().init(key, given.replace(partners=self.partner(None)), actor)
        return EMAPartnerState(**vars(learner), ema_params=learner.params["actor"]), actors

    def update(
        self, learner: LearnerState, actors: RunnerState, given: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`; then the copy follows."""
        assert isinstance(learner, EMAPartnerState), "init made it"
        beside = given.replace(partners=self.partner(learner.ema_params))
        learnt, actors, metrics = super().update(learner, actors, beside)
        follower = optax.incremental_update(
            learnt.params["actor"], learner.ema_params, self.ema_rate
        )
        return learnt.replace(ema_params=follower), actors, metrics
