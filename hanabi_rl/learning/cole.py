"""COLE (Li et al. 2023): a learner that plays with its own snapshots, more often those
with which few others coordinate.

As in ZSC-Eval's code (Wang et al. 2024, C.2), ranks of mean utilities replace Shapley values. The
utility of a pair of snapshots is the moving average of the score that the later one had with the
earlier when it was added. Every generation the learner itself becomes a snapshot, if its mean
utility is among the highest, or after two refusals; if all K exist, it replaces the oldest.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.learning import parallel
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.partner_population import PartnerPopulation
from hanabi_rl.learning.prioritized_partners import (
    PrioritizedPartnerPPO,
    PrioritizedPartnerState,
    moving_averages,
    rank_priorities,
)
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState

PyTree = Any

MAX_REFUSALS = 2
_FIRST = 2**30 + 1  # folded into the run's key, distinct from other uses


class COLEState(PrioritizedPartnerState):
    """Learner state with its K snapshots; those from number `added` on do not exist yet."""

    snapshots: PyTree  # parameters of the actors, [K, ...]
    utilities: jax.Array  # float32 [K, K], symmetric; NaN: not measured
    selfplay: jax.Array  # float32 [], moving average of the learner's score with itself, or NaN
    added: jax.Array  # int32 [], snapshots added so far
    refusals: jax.Array  # int32 [], generations since the last


def mean_utilities(utilities: jax.Array, returns: jax.Array) -> jax.Array:
    """Mean utility of each snapshot with all others and with the learner, float32 [K].

    Args:
        utilities: float32 [K, K], NaN where unknown.
        returns: float32 [K], scores of the learner with each.
    """
    return jnp.nanmean(jnp.concatenate([utilities, returns[None]]), axis=0)


def is_added(
    learner: jax.Array, others: jax.Array, exists: jax.Array, fraction: jax.Array | float
) -> jax.Array:
    """True if the learner's mean utility, float32 [], has at least rank ceil(fraction * n) from
    below among those of the n snapshots in `exists`, bool [K]."""
    lower = jnp.sum(exists & ((others < learner) | jnp.isnan(others)))
    return 1 + lower >= jnp.ceil(fraction * jnp.sum(exists))


@dataclasses.dataclass(frozen=True)
class COLEPPO(PrioritizedPartnerPPO):
    """PPO with its own snapshots as partners; `num_env_groups` is K, `beta` the exponent of ranks,
    and `sample_episode` decides in which games they hold seats."""

    generation: int = 20
    """Updates per generation."""

    def population(self, snapshots: PyTree) -> PartnerPopulation:
        """Snapshots with these stacked parameters, as partners; None: for carries only."""
        policy = self.policy_of(snapshots)
        return PartnerPopulation(stacks=(policy,), stack_sizes=(self.num_env_groups,))

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[COLEState, RunnerState]:
        """See `PPO.init`; a fifth of the snapshots exist, with random parameters."""
        size = self.num_env_groups
        learner, actors = super().init(key, context.replace(partners=self.population(None)), actor)
        keys = jax.random.split(jax.random.fold_in(learner.key, _FIRST), size)
        first = max(1, size // 5)
        fields = vars(learner) | {"group_partner": learner.group_partner % first}
        return COLEState(
            **fields,
            snapshots=jax.vmap(self.init_params)(keys)["actor"],
            utilities=jnp.full((size, size), jnp.nan, jnp.float32),
            selfplay=jnp.full((), jnp.nan, jnp.float32),
            added=jnp.full((), first, jnp.int32),
            refusals=jnp.zeros((), jnp.int32),
        ), actors

    def update(
        self, learner: LearnerState, actors: RunnerState, context: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`; then the learner becomes a snapshot when due."""
        assert isinstance(learner, COLEState), "init made it"
        context = context.replace(partners=self.population(learner.snapshots))
        updated, actors, metrics = super().update(learner, actors, context)
        assert isinstance(updated, COLEState), "an update keeps the state's kind"
        sums = metrics.pop("selfplay_scores"), metrics.pop("selfplay_games")
        alone = moving_averages(learner.selfplay[None], jnp.zeros(1, jnp.int32), *sums)[0]
        updated = self.next_generation(updated.replace(selfplay=alone))
        return (
            updated,
            actors,
            metrics
            | {"snapshots": jnp.minimum(updated.added, self.num_env_groups).astype(jnp.float32)},
        )

    def env_group_metrics(self, rollout: Rollout) -> Metrics:
        """See `PrioritizedPartnerPPO`, with the sums of the games without partners, [1]."""
        learns = rollout.episode.is_learner
        assert learns is not None, "partners hold seats"
        done = (rollout.transition.done & jnp.all(learns, axis=-1)).astype(jnp.float32)
        sums = {
            "selfplay_scores": jnp.sum(done * rollout.transition.score)[None],
            "selfplay_games": jnp.sum(done)[None],
        }
        return super().env_group_metrics(rollout) | parallel.psum(sums)

    def exists(self, learner: COLEState) -> jax.Array:
        """Mask bool [K] of the snapshots that exist."""
        return jnp.arange(self.num_env_groups) < learner.added

    def priorities(self, learner: PrioritizedPartnerState) -> jax.Array:
        """See `PrioritizedPartnerPPO`: by rank of mean utility, the lowest first."""
        assert isinstance(learner, COLEState), "init made it"
        mean = mean_utilities(learner.utilities, learner.returns)
        return rank_priorities(mean, self.beta, exists=self.exists(learner))

    def next_generation(self, learner: COLEState) -> COLEState:
        """At the end of a generation, add the learner's actor to the snapshots or count a
        refusal."""
        size, exists = self.num_env_groups, self.exists(learner)
        own = jnp.nanmean(jnp.append(learner.returns, learner.selfplay))
        others = mean_utilities(learner.utilities, learner.returns)
        fraction = jnp.where(learner.added >= size, 0.8, 0.9)
        high = is_added(own, others, exists, fraction) | (learner.refusals >= MAX_REFUSALS)
        due = learner.update % self.generation == 0
        slot = learner.added % size
        returns = learner.returns.at[slot].set(learner.selfplay)
        utilities = learner.utilities.at[slot].set(returns).at[:, slot].set(returns)
        snapshots = jax.tree.map(
            lambda all_of, own: all_of.at[slot].set(own), learner.snapshots, learner.params["actor"]
        )
        grown = learner.replace(
            returns=returns,
            utilities=utilities,
            snapshots=snapshots,
            added=learner.added + 1,
            refusals=jnp.zeros((), jnp.int32),
        )
        refused = learner.replace(refusals=learner.refusals + due)
        return jax.lax.cond(due & high, lambda: grown, lambda: refused)
