"""Two learners as each other's partners: one with a biased reward, and its best response.

The pair approximates an equilibrium of the game in which some seats receive `u r + w . phi` and the
others r (ZSC-Eval, Wang et al., arXiv 2310.05208, Algorithm 1 lines 1 to 3). Each learner has its
own network, optimiser and environments, in which the other plays with fixed parameters: independent
PPO with two plain updates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.biased_rewards import BiasedReward
from hanabi_rl.learning.config import check_divides
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState


class PerLearner(NamedTuple):
    """One value per learner."""

    biased: Any
    response: Any


@dataclasses.dataclass(frozen=True)
class LearnerPair:
    """Two PPO learners; their `sample_episode` assigns the seats."""

    biased: PPO
    response: PPO

    def init(self, key: jax.Array) -> PerLearner:
        """Fresh parameters and games: `LearnerState` and `RunnerState` of both, not yet sharded."""
        keys = jax.random.split(key)
        context = TrainContext(partners=self.biased.policy_of(None))  # for its carry only
        return PerLearner(self.biased.init(keys[0], context), self.response.init(keys[1], context))

    def compile_update(self) -> Callable[..., tuple[PerLearner, PerLearner, PerLearner]]:
        """`update` on all devices: (learners, sharded actors, biased reward) -> (learners, sharded
        actors, metrics)."""
        blocks = self.biased.config.num_shuffle_blocks
        check_divides("num_shuffle_blocks", blocks, "devices", parallel.num_devices())
        return parallel.data_parallel(
            self.update, in_axes=(None, 0, None), out_axes=(None, 0, None), donate_argnums=(0, 1)
        )

    def update(
        self, learners: PerLearner, actors: PerLearner, preference: BiasedReward
    ) -> tuple[PerLearner, PerLearner, PerLearner]:
        """Update both learners once, each with the other's previous parameters as partner."""
        partners = PerLearner(self.policy(learners.response), self.policy(learners.biased))
        biased = self.biased.update(
            learners.biased,
            actors.biased,
            TrainContext(partners=partners.biased, biased_reward=preference),
        )
        response = self.response.update(
            learners.response, actors.response, TrainContext(partners=partners.response)
        )
        found: list[tuple[LearnerState | RunnerState | Metrics, ...]] = [biased, response]
        states, games, metrics = (PerLearner(*both) for both in zip(*found, strict=True))
        return states, games, metrics

    def policy(self, learner: LearnerState) -> NetworkPolicy:
        """A learner's policy, as the other's partner."""
        return self.biased.policy_of(learner.params["actor"])
