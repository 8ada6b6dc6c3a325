"""PPO of a population whose members are rewarded for behaving unlike each other.

All members have one network and are trained in one program, vmapped over their parameters. During
collection every member evaluates the states of every other member's games, so that a bonus can
compare the probabilities of each action. The parameters of the others are constants of an update.

Shapes: `K` members; `T` timesteps, `N` environments of a member, `R` rows, `A` actions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Protocol

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.learning import parallel
from hanabi_rl.learning.biased_rewards import BiasedReward
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState

PyTree = Any

MIN_MEAN_PROBABILITY = 1e-5
"""Lower bound of the mean policy's probability in MEP (ZSC-Eval's code)."""


class DiversityBonus(Protocol):
    """Reward float32 [T, N] of a member, from the log-probabilities of its moves under all members
    (float32 [T, N, R, K], 0 on idle turns), under itself [T, N, R], and the starts of games, bool
    [T, N]."""

    def __call__(self, members: jax.Array, own: jax.Array, reset: jax.Array) -> jax.Array:
        """Compute the bonus."""


def mep_bonus(members: jax.Array, own: jax.Array, reset: jax.Array) -> jax.Array:
    """Maximum Entropy Population (Zhao et al. 2023): minus the log-probability of each move under
    the mean policy of the population, summed over the seats; a `DiversityBonus`."""
    del own, reset
    mean = jax.nn.logsumexp(members, axis=-1) - math.log(members.shape[-1])
    return -jnp.maximum(mean, math.log(MIN_MEAN_PROBABILITY)).sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class TrajeDiBonus:
    """Trajectory diversity (Lupu et al. 2021), a `DiversityBonus`.

    With d(i, t) the product over t' of pi_i(a_t')^(discount^|t - t'|), a game's bonuses sum to the
    mean over its timesteps t of log d(i, t) - log mean_j d(j, t). The mean of this sum over games
    and members is their Jensen-Shannon divergence, between 0 and log K. Each move is paid the
    change that it makes to the mean over the timesteps so far. A game that the end of a rollout
    cuts counts as two.

    The policy gradient is exact at discount 1. Below 1, derivatives of log d for given games, which
    then do not cancel in expectation, are omitted.
    """

    discount: float = 0.5

    def __call__(self, members: jax.Array, own: jax.Array, reset: jax.Array) -> jax.Array:
        """See `DiversityBonus`."""
        # the last column is the member's own
        logs = jnp.concatenate([members, own[..., None]], axis=-1).sum(axis=2)  # [T, N, K + 1]
        steps, (_, envs, columns) = jnp.arange(logs.shape[0]), logs.shape

        def step(carry: tuple[jax.Array, ...], now: tuple[jax.Array, ...]) -> Any:
            """Carry: log d of the game so far at each timestep s [T, N, K + 1], its first timestep
            [N], log d at the last timestep [N, K + 1], and the sum of bonuses [N]."""
            products, first, last, total = carry
            t, log_prob, starts = now
            first = jnp.where(starts, t, first)
            last = log_prob + self.discount * jnp.where(starts[:, None], 0.0, last)
            share = jnp.where(steps < t, self.discount ** jnp.maximum(t - steps, 0), 0.0)
            products = products + share[:, None, None] * log_prob
            products = jnp.where((steps == t)[:, None, None], last, products)
            mean = jax.nn.logsumexp(products[..., :-1], axis=-1) - math.log(columns - 1)
            counted = (steps[:, None] >= first) & (steps <= t)[:, None]
            ratio = jnp.where(counted, products[..., -1] - mean, 0.0)
            after = ratio.sum(axis=0) / (t - first + 1)
            bonus = after - jnp.where(starts, 0.0, total)
            return (products, first, last, after), bonus

        start = (
            jnp.zeros(logs.shape),
            jnp.zeros(envs, jnp.int32),
            jnp.zeros((envs, columns)),
            jnp.zeros(envs),
        )
        return jax.lax.scan(step, start, (steps, logs, reset))[1]


class MemberLogits(flax.struct.PyTreeNode):
    """Members of a population as one policy, whose logits are those of all members, [B, K, A]."""

    policy: NetworkPolicy
    """Stacked: parameters have a leading axis of members, and carries a second one."""
    size: int = flax.struct.field(pytree_node=False)

    @property
    def rules(self) -> Any:
        """Game."""
        return self.policy.rules

    @property
    def feature_spec(self) -> str | None:
        """See `FeaturePolicy`."""
        return self.policy.feature_spec

    def init_carry(self, batch: int) -> PyTree:
        """Carries of the members, [B, K, ...]."""
        carry = functools.partial(_init_carry, batch=batch)
        return jax.vmap(carry, axis_size=self.size, out_axes=1)(self.policy)

    def init_features_carry(self, batch: int) -> PyTree:
        """See `FeaturePolicy`."""
        return self.policy.init_features_carry(batch)

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`; logits float32 [B, K, A]."""
        del key
        return jax.vmap(lambda policy, carry: policy.step(carry, obs, legal, reset), (0, 1), 1)(
            self.policy, carry
        )

    def step_features(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """See `FeaturePolicy`; logits float32 [B, K, A]."""
        logits = jax.vmap(
            lambda policy: policy.step_features(carry, inputs, legal, reset)[1], out_axes=1
        )(self.policy)
        return carry, logits


def _init_carry(policy: NetworkPolicy, batch: int) -> PyTree:
    return policy.init_carry(batch)


@dataclasses.dataclass(frozen=True)
class BonusPPO(PPO):
    """PPO whose training reward has a bonus for diversity."""

    alpha: float = 0.01
    """Weight of the bonus in the training reward."""

    def bonus_of(self, rollout: Rollout) -> jax.Array:
        """Bonus float32 [T, N] of a rollout."""
        raise NotImplementedError

    def reward(
        self, rollout: Rollout, timesteps: jax.Array, preference: BiasedReward | None = None
    ) -> jax.Array:
        """See `PPO.reward`; with the weighted bonus, in the reward of every row."""
        reward = super().reward(rollout, timesteps, preference)
        bonus = self.alpha * self.bonus_of(rollout)
        return reward + (bonus[..., None] if reward.ndim == 3 else bonus)

    def rollout_metrics(self, rollout: Rollout) -> Metrics:
        """See `PPO.rollout_metrics`, with the mean bonus per timestep."""
        bonus = parallel.pmean(jnp.mean(self.bonus_of(rollout)))
        return super().rollout_metrics(rollout) | {"diversity_bonus": bonus}


@dataclasses.dataclass(frozen=True)
class PopulationPPO(BonusPPO):
    """PPO of K members: `LearnerState` and metrics have a leading axis of members, `RunnerState`
    has one after that of the environments."""

    size: int = 2
    """K."""
    bonus: DiversityBonus = mep_bonus

    def members(self, params: PyTree) -> MemberLogits:
        """Policies with these stacked actor parameters; None: for carries only."""
        return MemberLogits(self.policy_of(params), self.size)

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[LearnerState, RunnerState]:
        """See `PPO.init`; each member has its own key."""
        context = context.replace(reference=self.members(None))
        member = functools.partial(super().init, context=context, actor=actor)
        return jax.vmap(member, out_axes=(0, 1))(jax.random.split(key, self.size))

    def update(
        self, learner: LearnerState, actors: RunnerState, context: TrainContext
    ) -> tuple[LearnerState, RunnerState, Metrics]:
        """See `PPO.update`: every member once, with the previous parameters of the others."""
        context = context.replace(reference=self.members(learner.params["actor"]))
        member = functools.partial(super().update, context=context)
        return jax.vmap(member, (0, 1), (0, 1, 0))(learner, actors)

    def bonus_of(self, rollout: Rollout) -> jax.Array:
        """Bonus float32 [T, N] of the member that played the rollout."""
        assert rollout.reference_logits is not None, "members are the reference"
        view, state = self.view, rollout.state
        decides = jax.vmap(lambda seat: view.decides(state, seat), -1, -1)(view.seats(state))
        action = rollout.action[..., None, None]
        members = jax.nn.log_softmax(rollout.reference_logits)
        members = jnp.take_along_axis(members, action, axis=-1)[..., 0]
        members = jnp.where(decides[..., None], members, 0.0)
        own = jnp.where(decides, rollout.log_prob, 0.0)
        return self.bonus(members, own, rollout.reset)
