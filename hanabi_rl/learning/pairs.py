"""Two learners that are each other's partner: one that prefers behaviours, and its response.

The pair approximates an equilibrium of the game in which some seats receive `u r + w . phi` and the
others r (ZSC-Eval, Wang et al., arXiv 2310.05208, Algorithm 1 lines 1 to 3). Each has a network, an
optimiser and environments of its own, in which the other plays as it stands: independent PPO,
twice the plain update and nothing beside it.
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
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import RunnerState, TrainContext


class PerLearner(NamedTuple):
    """Something of both learners."""

    biased: Any
    response: Any


@dataclasses.dataclass(frozen=True)
class LearnerPair:
    """The learners; their `draw_episode` says which seats are whose."""

    biased: PPO
    response: PPO

    def init(self, key: jax.Array) -> PerLearner:
        """Fresh parameters and games: (`LearnerState`, `RunnerState`) of both, not yet sharded."""
        keys = jax.random.split(key)
        beside = NetworkPolicy(  # its carry alone is asked for, which depends on no parameter
            params=None, rules=self.biased.env.rules, network=self.biased.network
        )
        given = TrainContext(partners=beside)
        return PerLearner(self.biased.init(keys[0], given), self.response.init(keys[1], given))

    def compile_update(self) -> Callable[..., tuple[PerLearner, PerLearner, PerLearner]]:
        """`update` on all devices: (learners, sharded actors, preference) -> (learners, sharded
        actors, metrics)."""
        blocks = self.biased.config.num_shuffle_blocks
        check_divides("num_shuffle_blocks", blocks, "devices", parallel.num_devices())
        return parallel.data_parallel(
            self.update, in_axes=(None, 0, None), out_axes=(None, 0, None), donate_argnums=(0, 1)
        )

    def update(
        self, learners: PerLearner, actors: PerLearner, preference: BiasedReward
    ) -> tuple[PerLearner, PerLearner, PerLearner]:
        """One update of both, each beside the other as it was before."""
        beside = PerLearner(self.policy(learners.response), self.policy(learners.biased))
        biased = self.biased.update(
            learners.biased,
            actors.biased,
            TrainContext(partners=beside.biased, biased_reward=preference),
        )
        response = self.response.update(
            learners.response, actors.response, TrainContext(partners=beside.response)
        )
        found: list[tuple[LearnerState | RunnerState | Metrics, ...]] = [biased, response]
        states, games, metrics = (PerLearner(*both) for both in zip(*found, strict=True))
        return states, games, metrics

    def policy(self, learner: LearnerState) -> NetworkPolicy:
        """A learner as the other's partner."""
        return NetworkPolicy(
            params=learner.params["actor"],
            rules=self.biased.env.rules,
            network=self.biased.network,
            precision=self.biased.config.precision,
        )
