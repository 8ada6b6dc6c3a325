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

from hanabi_rl.agents.noisy import Noisy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import NOTHING, ActorState, Given

PyTree = Any


class FollowedLearner(LearnerState):
    """A learner's state with its copy."""

    follower: PyTree  # of the actor's parameters


@dataclasses.dataclass(frozen=True)
class FollowedPPO(PPO):
    """`draw_episode` says which seats are the copy's; no other partner is asked."""

    epsilon: float = 0.5
    """The chance of a random move of the copy."""
    rate: float = 0.1
    """a, the copy's step towards the learner in an update."""

    def partner(self, params: PyTree) -> Noisy:
        """Who plays beside the learner: the actor with these parameters, erring."""
        policy = NetworkPolicy(
            params=params,
            rules=self.env.rules,
            network=self.network,
            precision=self.config.precision,
        )
        return Noisy(policy, epsilon=self.epsilon)

    def init(
        self, key: jax.Array, given: Given = NOTHING, actor: PyTree = None
    ) -> tuple[FollowedLearner, ActorState]:
        """See `PPO.init`; the copy begins as the learner."""
        learner, actors = super().init(key, given.replace(partners=self.partner(None)), actor)
        return FollowedLearner(**vars(learner), follower=learner.params["actor"]), actors

    def update(
        self, learner: LearnerState, actors: ActorState, given: Given
    ) -> tuple[LearnerState, ActorState, Metrics]:
        """See `PPO.update`; then the copy follows."""
        assert isinstance(learner, FollowedLearner), "init made it"
        beside = given.replace(partners=self.partner(learner.follower))
        learnt, actors, metrics = super().update(learner, actors, beside)
        follower = optax.incremental_update(learnt.params["actor"], learner.follower, self.rate)
        return learnt.replace(follower=follower), actors, metrics
