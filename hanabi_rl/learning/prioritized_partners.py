"""Rank-prioritised partner sampling: partners with low scores are sampled more often (MEP, Zhao et
al. 2023; ZSC-Eval, Wang et al., arXiv 2310.05208, C.2).

Every group of environments has its own partner (`partner_population.py`). Every few updates all
groups resample it: partner k with a probability proportional to (rank of 1 / J_k)^beta, J_k the
running mean of the score with it. A group whose partner changes starts fresh games.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp

from hanabi_rl.learning import parallel
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.partner_population import PartnerPopulation
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext

PyTree = Any

Unseen = Literal["lowest", "mean"]
EMA_DECAY = 0.95
"""Of a running mean, in an update in which a game with that partner ended."""
_DRAWS = 2**30  # folded into the run's key: apart from what updates fold in


class PrioritizedPartnerState(LearnerState):
    """A learner's state with what it knows of its K partners."""

    returns: jax.Array  # float32 [K], running mean score with each; nan before any game ended
    group_partner: jax.Array  # int32 [K], partner of each env group


def rank_priorities(returns: jax.Array, beta: float, unseen: Unseen = "lowest") -> jax.Array:
    """float32 [K]: proportional to rank^beta, the partner with the highest of `returns` [K] at rank
    1, equal ones at the same rank (dense); NaN, no return yet, is taken as `unseen` says."""
    missing = -jnp.inf if unseen == "lowest" else jnp.nanmean(returns)
    value = jnp.where(jnp.isnan(returns), missing, returns)
    earlier = jnp.tril(value[:, None] == value[None], -1).any(axis=1)  # the same value stood before
    rank = 1 + jnp.sum((value[None] > value[:, None]) & ~earlier[None], axis=1)
    weight = rank.astype(jnp.float32) ** beta
    return weight / weight.sum()


@dataclasses.dataclass(frozen=True)
class PrioritizedPartnerPPO(PPO):
    """`PPO` with a population of which it draws by priority; `partners` must be
    `PartnerPopulation`."""

    num_env_groups: int = 1
    """K, the partners."""
    beta: float = 0.5
    resample_every: int = 16
    """Updates between two draws."""
    unseen: Unseen = "lowest"
    """Return of a partner with which no game has ended: the lowest, or the mean of the others'."""

    def init(
        self, key: jax.Array, given: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[PrioritizedPartnerState, RunnerState]:
        """See `PPO.init`; each partner starts with one env group."""
        assert isinstance(given.partners, PartnerPopulation), "a population is stacked"
        learner, actors = super().init(key, given, actor)
        members = jnp.arange(given.partners.size, dtype=jnp.int32)
        returns = jnp.full(given.partners.size, jnp.nan)
        return PrioritizedPartnerState(
            **vars(learner), returns=returns, group_partner=members
        ), actors

    def update(
        self, learner: LearnerState, actors: RunnerState, given: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`, with this moment's partners; then, where it is time, a new draw."""
        assert isinstance(learner, PrioritizedPartnerState), "init made it"
        assert isinstance(given.partners, PartnerPopulation), "a population is stacked"
        members = learner.group_partner
        present = jax.tree.map(lambda x: x[members], given.partners)
        learnt, actors, metrics = super().update(learner, actors, given.replace(partners=present))
        scores, games = metrics.pop("env_group_scores"), metrics.pop("env_group_games")
        assert isinstance(learnt, PrioritizedPartnerState), "an update keeps the state's kind"
        learnt = learnt.replace(returns=moving_averages(learner.returns, members, scores, games))
        learnt, actors = self.resample_partners(learnt, actors)
        lowest = jnp.nanmin(learnt.returns)
        return learnt, actors, metrics | {"min_partner_score": lowest}

    def rollout_metrics(self, rollout: Rollout) -> Metrics:
        """See `PPO.rollout_metrics`; and `env_group_metrics`."""
        return super().rollout_metrics(rollout) | self.env_group_metrics(rollout)

    def env_group_metrics(self, rollout: Rollout) -> Metrics:
        """Per env group: summed scores and number of finished games with its partner."""
        learns = rollout.episode.is_learner
        assert learns is not None, "partners hold seats"
        done = (rollout.transition.done & jnp.any(~learns, axis=-1)).astype(jnp.float32)

        def by_env_group(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], -1, self.num_env_groups).sum(axis=(0, 1))

        return parallel.psum(
            {
                "env_group_scores": by_env_group(done * rollout.transition.score),
                "env_group_games": by_env_group(done),
            }
        )

    def resample_partners(
        self, learner: PrioritizedPartnerState, actors: RunnerState
    ) -> tuple[PrioritizedPartnerState, RunnerState]:
        """Every `resample_every` updates, resample the partner of each env group; groups whose
        partner changes start fresh games."""
        key = jax.random.fold_in(jax.random.fold_in(learner.key, _DRAWS), learner.update)
        drawn = jax.random.choice(
            key,
            learner.group_partner.shape[0],
            learner.group_partner.shape,
            p=rank_priorities(learner.returns, self.beta, self.unseen),
        ).astype(jnp.int32)
        now = learner.update % self.resample_every == 0
        members = jnp.where(now, drawn, learner.group_partner)
        # each device has all groups
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
    """Exponential moving averages after an update: of partner k old and new by `EMA_DECAY`, the
    first new mean as it is; `scores` and `games` float32 [K] are sums over the finished games
    of each env group."""
    empty = jnp.zeros_like(returns)
    total, count = empty.at[members].add(scores), empty.at[members].add(games)
    new = total / jnp.maximum(count, 1.0)
    mixed = jnp.where(jnp.isnan(returns), new, EMA_DECAY * returns + (1.0 - EMA_DECAY) * new)
    return jnp.where(count > 0, mixed, returns)
