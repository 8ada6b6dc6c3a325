"""A learner that meets the partners it does worst with most often: rank-prioritised sampling of a
population (MEP, Zhao et al. 2023; ZSC-Eval, Wang et al., arXiv 2310.05208, C.2).

Every lane of environments has a partner of its own (`partners.py`). Every few updates all lanes
draw theirs anew, partner k with a probability proportional to (rank of 1 / J_k)^beta, J_k the
running mean of the score with it; a lane whose partner changes begins fresh games.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp

from hanabi_rl.learning import parallel
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.partners import Population
from hanabi_rl.learning.ppo import PPO, LearnerState
from hanabi_rl.learning.rollout import NOTHING, ActorState, Given, Rollout

PyTree = Any

Unseen = Literal["lowest", "mean"]
KEPT = 0.95
"""Of a running mean, in an update in which a game with that partner ended."""
_DRAWS = 2**30  # folded into the run's key: apart from what updates fold in


class PopulationLearner(LearnerState):
    """A learner's state with what it knows of its K partners."""

    returns: jax.Array  # float32 [K], running mean score with each; nan before any game ended
    members: jax.Array  # int32 [K], the partner of each lane


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
class PopulationPPO(PPO):
    """`PPO` with a population of which it draws by priority; `partners` must be `Population`."""

    lanes: int = 1
    """K, the partners."""
    beta: float = 0.5
    redraw_every: int = 16
    """Updates between two draws."""
    unseen: Unseen = "lowest"
    """Return of a partner with which no game has ended: the lowest, or the mean of the others'."""

    def init(
        self, key: jax.Array, given: Given = NOTHING, actor: PyTree = None
    ) -> tuple[PopulationLearner, ActorState]:
        """See `PPO.init`; each partner begins with one lane."""
        assert isinstance(given.partners, Population), "a population is stacked"
        learner, actors = super().init(key, given, actor)
        members = jnp.arange(given.partners.count, dtype=jnp.int32)
        returns = jnp.full(given.partners.count, jnp.nan)
        return PopulationLearner(**vars(learner), returns=returns, members=members), actors

    def update(
        self, learner: LearnerState, actors: ActorState, given: Given
    ) -> tuple[LearnerState, ActorState, Metrics]:
        """See `PPO.update`, with this moment's partners; then, where it is time, a new draw."""
        assert isinstance(learner, PopulationLearner), "init made it"
        assert isinstance(given.partners, Population), "a population is stacked"
        members = learner.members
        present = jax.tree.map(lambda x: x[members], given.partners)
        learnt, actors, metrics = super().update(learner, actors, given.replace(partners=present))
        scores, games = metrics.pop("lane_scores"), metrics.pop("lane_games")
        assert isinstance(learnt, PopulationLearner), "an update keeps the state's kind"
        learnt = learnt.replace(returns=moving_averages(learner.returns, members, scores, games))
        learnt, actors = self.redraw(learnt, actors)
        lowest = jnp.nanmin(learnt.returns)
        return learnt, actors, metrics | {"lowest_partner_score": lowest}

    def rollout_metrics(self, rollout: Rollout) -> Metrics:
        """See `PPO.rollout_metrics`; and `lane_metrics`."""
        return super().rollout_metrics(rollout) | self.lane_metrics(rollout)

    def lane_metrics(self, rollout: Rollout) -> Metrics:
        """Of each lane the sum of scores and the games that ended in which its partner held a
        seat."""
        learns = rollout.episode.learns
        assert learns is not None, "partners hold seats"
        beside = rollout.transition.done & jnp.any(~learns, axis=-1)
        done = beside.astype(jnp.float32)

        def by_lane(x: jax.Array) -> jax.Array:
            return x.reshape(x.shape[0], -1, self.lanes).sum(axis=(0, 1))

        return parallel.psum(
            {
                "lane_scores": by_lane(done * rollout.transition.score),
                "lane_games": by_lane(done),
            }
        )

    def redraw(
        self, learner: PopulationLearner, actors: ActorState
    ) -> tuple[PopulationLearner, ActorState]:
        """Every `redraw_every` updates another partner for each lane, and fresh games where it
        is another."""
        key = jax.random.fold_in(jax.random.fold_in(learner.key, _DRAWS), learner.update)
        drawn = jax.random.choice(
            key,
            learner.members.shape[0],
            learner.members.shape,
            p=rank_priorities(learner.returns, self.beta, self.unseen),
        ).astype(jnp.int32)
        now = learner.update % self.redraw_every == 0
        members = jnp.where(now, drawn, learner.members)
        local = jnp.arange(actors.reset.shape[0]) % self.lanes  # each device has all lanes
        changed = (members != learner.members)[local]
        actors = actors.replace(
            env=self.env.restart(actors.env, changed),
            reset=actors.reset | changed,
            rematch=None if actors.rematch is None else actors.rematch & ~changed,
        )
        return learner.replace(members=members), actors


def moving_averages(
    returns: jax.Array, members: jax.Array, scores: jax.Array, games: jax.Array
) -> jax.Array:
    """Exponential moving averages after an update: of partner k old and new by `KEPT`, the first
    new mean as it is; `scores` and `games` float32 [K] are sums over the lanes' finished games."""
    empty = jnp.zeros_like(returns)
    total, count = empty.at[members].add(scores), empty.at[members].add(games)
    new = total / jnp.maximum(count, 1.0)
    mixed = jnp.where(jnp.isnan(returns), new, KEPT * returns + (1.0 - KEPT) * new)
    return jnp.where(count > 0, mixed, returns)
