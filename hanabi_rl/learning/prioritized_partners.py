"""PPO that plays more often with partners of low score: rank-prioritised sampling of a population
(MEP, Zhao et al. 2023; ZSC-Eval, Wang et al., arXiv 2310.05208, C.2).

Every env group has one partner (`partner_population.py`). Every few updates each env group
resamples its partner: partner k with probability proportional to (rank of 1 / J_k)^beta, where J_k
is the moving average of the score with it. Env groups with a new partner start fresh games.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp

from hanabi_rl.learning import parallel
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.partner_population import PartnerPopulation
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState

PyTree = Any

Unseen = Literal["lowest", "mean"]
EMA_DECAY = 0.95
"""Decay of the moving average, per update in which a game with that partner ended."""
_DRAWS = 2**30  # folded into the run's key, distinct from the updates' numbers


class PrioritizedPartnerState(LearnerState):
    """Learner state with the statistics of its K partners."""

    # float32 [K], moving average of the score with each; NaN before a game ended
    returns: jax.Array
    group_partner: jax.Array  # int32 [K], partner of each env group


def rank_priorities(
    returns: jax.Array, beta: float, unseen: Unseen = "lowest", exists: jax.Array | None = None
) -> jax.Array:
    """Sampling priorities float32 [K], proportional to rank^beta.

    The partner with the highest of `returns` [K] has rank 1; equal returns share a rank (dense).
    NaN, no return yet, is replaced as `unseen` specifies. Partners not in `exists`, bool [K], have
    no rank and priority 0; None: all exist.
    """
    missing = -jnp.inf if unseen == "lowest" else jnp.nanmean(returns)
    value = jnp.where(jnp.isnan(returns), missing, returns)
    counted = jnp.ones(value.shape, bool) if exists is None else exists
    equal = (value[:, None] == value[None]) & counted[None]
    first = counted & ~jnp.tril(equal, -1).any(axis=1)  # no equal value came earlier
    rank = 1 + jnp.sum((value[None] > value[:, None]) & first[None], axis=1)
    weight = jnp.where(counted, rank.astype(jnp.float32) ** beta, 0.0)
    return weight / weight.sum()


@dataclasses.dataclass(frozen=True)
class PrioritizedPartnerPPO(PPO):
    """PPO with prioritised sampling of partners; `partners` must be a `PartnerPopulation`."""

    num_env_groups: int = 1
    """K, the number of partners."""
    beta: float = 0.5
    resample_every: int = 16
    """Updates between samplings."""
    unseen: Unseen = "lowest"
    """Return assumed for a partner without finished games: the lowest, or the mean of the others.
    """

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[PrioritizedPartnerState, RunnerState]:
        """See `RolloutLearner.init`; each partner starts with one env group."""
        assert isinstance(context.partners, PartnerPopulation), "a population is stacked"
        learner, actors = super().init(key, context, actor)
        members = jnp.arange(context.partners.size, dtype=jnp.int32)
        returns = jnp.full(context.partners.size, jnp.nan)
        return PrioritizedPartnerState(
            **vars(learner), returns=returns, group_partner=members
        ), actors

    def update(
        self, learner: LearnerState, actors: RunnerState, context: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`, with the current partners; then resample when due."""
        assert isinstance(learner, PrioritizedPartnerState), "init made it"
        assert isinstance(context.partners, PartnerPopulation), "a population is stacked"
        members = learner.group_partner
        present = jax.tree.map(lambda x: x[members], context.partners)
        updated, actors, metrics = super().update(
            learner, actors, context.replace(partners=present)
        )
        scores, games = metrics.pop("env_group_scores"), metrics.pop("env_group_games")
        assert isinstance(updated, PrioritizedPartnerState), "an update keeps the state's kind"
        updated = updated.replace(returns=moving_averages(learner.returns, members, scores, games))
        updated, actors = self.resample_partners(updated, actors)
        lowest = jnp.nanmin(updated.returns)
        return updated, actors, metrics | {"min_partner_score": lowest}

    def rollout_metrics(self, rollout: Rollout) -> Metrics:
        """See `RolloutLearner.rollout_metrics` and `env_group_metrics`."""
        return super().rollout_metrics(rollout) | self.env_group_metrics(rollout)

    def env_group_metrics(self, rollout: Rollout) -> Metrics:
        """Sum of scores and number of finished games in which the partner held a seat, by env
        group."""
        learns = rollout.episode.is_learner
        assert learns is not None, "partners hold seats"
        with_partner = rollout.transition.done & jnp.any(~learns, axis=-1)
        done = with_partner.astype(jnp.float32)

        def by_group(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], -1, self.num_env_groups).sum(axis=(0, 1))

        return parallel.psum(
            {
                "env_group_scores": by_group(done * rollout.transition.score),
                "env_group_games": by_group(done),
            }
        )

    def priorities(self, learner: PrioritizedPartnerState) -> jax.Array:
        """Sampling priorities float32 [K] of the partners."""
        return rank_priorities(learner.returns, self.beta, self.unseen)

    def resample_partners(
        self, learner: PrioritizedPartnerState, actors: RunnerState
    ) -> tuple[PrioritizedPartnerState, RunnerState]:
        """Every `resample_every` updates, resample each env group's partner; new partners start
        fresh games. While no return is known, each partner keeps its env group: with equal
        probabilities, resampling would only drop partners and cut their games."""
        key = jax.random.fold_in(jax.random.fold_in(learner.key, _DRAWS), learner.update)
        sampled = jax.random.choice(
            key,
            learner.group_partner.shape[0],
            learner.group_partner.shape,
            p=self.priorities(learner),
        ).astype(jnp.int32)
        is_known = ~jnp.isnan(learner.returns).all()
        now = (learner.update % self.resample_every == 0) & is_known
        members = jnp.where(now, sampled, learner.group_partner)
        # each device has all env groups
        local = jnp.arange(actors.reset.shape[0]) % self.num_env_groups
        changed = (members != learner.group_partner)[local]
        actors = actors.replace(
            env=self.env.skip_to_next_game(actors.env, changed),
            reset=actors.reset | changed,
            rematch=None if actors.rematch is None else actors.rematch & ~changed,
        )
        return learner.replace(group_partner=members), actors


def moving_averages(
    returns: jax.Array, members: jax.Array, scores: jax.Array, games: jax.Array
) -> jax.Array:
    """Moving averages after an update.

    Decay `EMA_DECAY` per partner; a partner's first mean is taken as it is. `scores` and `games`,
    float32 [K], are sums over the env groups' finished games.
    """
    empty = jnp.zeros_like(returns)
    total, count = empty.at[members].add(scores), empty.at[members].add(games)
    new = total / jnp.maximum(count, 1.0)
    mixed = jnp.where(jnp.isnan(returns), new, EMA_DECAY * returns + (1.0 - EMA_DECAY) * new)
    return jnp.where(count > 0, mixed, returns)
