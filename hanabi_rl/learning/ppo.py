"""PPO: collect a rollout, estimate returns, train for epochs of minibatches, sharded over devices.

All PPO learners use this class. They differ in the `objective`, in what is sampled per game
(`sample_episode`: seats, colour permutations), in the `TrainContext` (KL reference, partners, start
states), in the observation view and in the initial parameters.

Recurrent networks split actors (seats of environments) into minibatches, never time, and are
unrolled from the carry at collection. The current-player view splits time too. Minibatches are
defined on the global batch (`minibatches.py`), so the number of devices does not change them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hanabi_rl.learning import losses, minibatches, parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.finite import apply_if_finite, mean_or_first_nonfinite
from hanabi_rl.learning.network_inputs import LEARNING_INPUTS
from hanabi_rl.learning.observation_views import Index
from hanabi_rl.learning.returns import TD_ERRORS, gae, semi_mdp_values
from hanabi_rl.learning.rollout import (
    PrivilegedInputFn,
    Rollout,
    RunnerState,
    TrainContext,
)
from hanabi_rl.learning.rollout_learner import LearnerState, RolloutLearner

PyTree = Any
Objective = Callable[..., tuple[jax.Array, losses.Metrics]]
"""(L_IPPO of `losses.ppo_loss`, float32 []; logits float32 [..., A]; batch, a `losses.PPOBatch`;
further outputs of the module) -> (loss float32 [], metrics, each float32 []); both are sums over
the local part of a minibatch. `batch.progress` is the fraction of training completed before this
update, for terms that change over training.

A policy term `sum(batch.actor_weight * x)` is d * the mean of x over decisions, weighted like the
clipped surrogate. A metric `sum(batch.decision_weight * x)` is logged as the mean of x over
decisions. Metrics in `PER_DECISION` are sums with `actor_weight`: they are divided by d.
"""


def ippo_objective(
    ippo_loss: jax.Array, logits: jax.Array, batch: losses.PPOBatch
) -> tuple[jax.Array, losses.Metrics]:
    """Plain IPPO: the PPO loss without additional terms."""
    del logits, batch
    return ippo_loss, {}


class Experience(flax.struct.PyTreeNode):
    """A rollout with its returns and initial carries."""

    rollout: Rollout
    advantage: jax.Array  # float32 [T, N, R]
    target: jax.Array  # float32 [T, N, R]
    carry: PyTree  # [N, R, ...], before the first timestep
    progress: jax.Array | None = None  # float32 [], fraction of training completed


@dataclasses.dataclass(frozen=True)
class PPO(RolloutLearner):
    """PPO learner. `update` runs on one device's data; `compile_update` runs it on all devices."""

    config: PPOConfig
    objective: Objective = ippo_objective
    learner_fraction: float = 1.0
    """Mean fraction of decisions made by the learner; minibatches of single timesteps then omit
    partners' decisions, which carry no gradient."""
    compiles_quickly: ClassVar[bool] = True

    @property
    def privileged(self) -> PrivilegedInputFn | None:
        """Function that computes the privileged input of the critic; None without one."""
        if not self.config.privileged_critic:
            return None
        return LEARNING_INPUTS[self.network.inputs].privileged

    def update(
        self, learner: LearnerState, actors: RunnerState, context: TrainContext
    ) -> tuple[LearnerState, RunnerState, losses.Metrics]:
        """One PPO update: collect, returns, epochs. All shapes are one device's part."""
        collect_key, epoch_key = jax.vmap(lambda i: jax.random.fold_in(learner.key, i))(
            2 * learner.update + jnp.arange(2)
        )
        timesteps = self.env_steps(learner)
        following, rollout, last_value = self.collector.collect(
            learner.params, actors, context, collect_key, self.config.num_steps, timesteps
        )
        experience = self.make_experience(
            learner, actors, context, collect_key, rollout, last_value
        )
        learner, metrics = self.update_epochs(learner, experience, actors.index, epoch_key)
        return learner, following, metrics | self.rollout_metrics(rollout)

    def make_experience(
        self,
        learner: LearnerState,
        before: RunnerState,
        context: TrainContext,
        key: jax.Array,
        rollout: Rollout,
        last_value: jax.Array,
    ) -> Experience:
        """Training data from a rollout that was collected from the actors `before` with `key`."""
        del key
        reward = self.reward(rollout, self.env_steps(learner), context.biased_reward)
        return self.returns(rollout, last_value, before.carry, reward)

    def returns(
        self, rollout: Rollout, last_value: jax.Array, carry: PyTree, reward: jax.Array
    ) -> Experience:
        """Advantages and targets; reward: float32 [T, N] of the team, or [T, N, R] of each row."""
        difference = TD_ERRORS[self.config.td_error]
        of_one = functools.partial(gae, difference=difference)
        # over environments
        estimate = jax.vmap(of_one, in_axes=(1, 1, 1, 0, None, None), out_axes=1)
        # over rows
        axis = 2 if reward.ndim == 3 else None
        estimate = jax.vmap(estimate, in_axes=(axis, 2, None, 1, None, None), out_axes=2)
        gamma, done, value = self.config.gamma, rollout.transition.done, rollout.value
        if self.view.semi_mdp and (learns := rollout.episode.is_learner) is not None:
            own = self.view.select_rows(learns, rollout.state)
            value = semi_mdp_values(
                reward[..., None], value, done[..., None], last_value, own, gamma, difference
            )
        advantage, target = estimate(reward, value, done, last_value, gamma, self.config.gae_lambda)
        return Experience(rollout=rollout, advantage=advantage, target=target, carry=carry)

    def update_epochs(
        self, learner: LearnerState, experience: Experience, index: jax.Array, key: jax.Array
    ) -> tuple[LearnerState, losses.Metrics]:
        """Train for epochs of minibatches on one rollout. index: int32 [N], global environment
        numbers. If a return, loss or gradient is not finite, the learner is unchanged and the
        metrics name the cause."""
        examples = self.minibatches(key, index, experience.rollout)
        experience = experience.replace(progress=self.progress(self.env_steps(learner)))

        def step(
            carry: tuple[PyTree, PyTree], example: tuple[jax.Array, jax.Array]
        ) -> tuple[Any, losses.Metrics]:
            params, opt_state = carry
            gradient, metrics = self.gradient(params, experience, *example)
            metrics["gradient_norm"] = jnp.linalg.norm(ravel_pytree(gradient)[0])
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            return (optax.apply_updates(params, changes), opt_state), metrics

        (params, opt_state), metrics = jax.lax.scan(
            step, (learner.params, learner.opt_state), examples
        )
        first_log_ratio = metrics.pop("max_log_ratio")[0]
        metrics = per_decision(mean_or_first_nonfinite(metrics)) | {
            "return_mean": parallel.pmean(jnp.mean(experience.target)),
            "parameter_norm": jnp.linalg.norm(ravel_pytree(params)[0]),
        }
        updated = learner.replace(params=params, opt_state=opt_state, update=learner.update + 1)
        return apply_if_finite(updated, learner, metrics), metrics | {
            "first_max_log_ratio": first_log_ratio
        }

    def minibatches(
        self, key: jax.Array, index: jax.Array, rollout: Rollout | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Indices (environment, item), each int32 [epochs * M, B], of the examples in every
        minibatch of every epoch; environments have local numbers (index: int32 [N], their global
        ones). An item is a seat, or a timestep if the view splits time; of such a `rollout` the
        learner's own come first."""
        config, view = self.config, self.view
        omits = view.flattens_time and self.learner_fraction < 1.0
        items = config.num_steps * view.rows if view.flattens_time else view.rows
        envs_per_block = config.num_envs // config.num_shuffle_blocks
        return minibatches.minibatch_indices(
            key,
            index,
            items=items,
            envs_per_block=envs_per_block,
            num_minibatches=config.num_minibatches,
            epochs=config.epochs,
            first=None if rollout is None or not omits else self.learner_examples(rollout),
            keep=self.examples_per_block(envs_per_block * items) if view.flattens_time else None,
        )

    def learner_examples(self, rollout: Rollout) -> jax.Array:
        """Mask bool [N, items] of the learner's examples, where epochs omit partners' decisions."""
        assert rollout.episode.is_learner is not None, "learner_fraction < 1 needs is_learner"
        own = self.view.select_rows(rollout.episode.is_learner, rollout.state)
        return own.swapaxes(0, 1).reshape(own.shape[1], -1)

    def examples_per_block(self, of_block: int) -> int:
        """Timesteps per block and epoch: the learner's expected number, or all but the remainder of
        the division. A block with more of the learner's omits others each epoch; a block with fewer
        is filled with partners' at weight 0."""
        count = self.config.num_minibatches
        return min(of_block // count, math.ceil(of_block * self.learner_fraction / count)) * count

    def gradient(
        self, params: PyTree, experience: Experience, env: jax.Array, item: jax.Array
    ) -> tuple[PyTree, losses.Metrics]:
        """Global gradient of the objective on one minibatch: env, item int32 [B] (see
        `minibatches`)."""
        rules, rollout, view = self.env.rules, experience.rollout, self.view
        at = view.minibatch_index(env, item)
        state = jax.tree.map(lambda x: x[at[:2]], rollout.state)
        colors = rollout.episode.colors
        if colors is not None:
            colors = view.select_rows(colors, rollout.state)[at]
        inputs, legal = view.minibatch_inputs(rollout.inputs, state, colors, at)
        reads = [inputs, legal, rollout.reset[at[:2]]]
        seat = view.seat_at(at, state)
        if self.privileged is not None:
            one = jnp.broadcast_to(seat, legal.shape[:2])[..., None]
            named = None if colors is None else colors[..., None, :]
            reads.append(self.privileged(rules, state, one, named)[..., 0, :])
        carry = jax.tree.map(lambda x: x[at[1:]], experience.carry)
        batch = self.batch(experience, at, view.decides(state, seat))

        def loss(params: PyTree) -> tuple[jax.Array, losses.Metrics]:
            _, logits, value, *extra = self.apply(params, carry, *reads)
            ippo, metrics = losses.ppo_loss(logits, value, batch, self.config)
            total, more = self.objective(ippo, logits, batch, *extra)
            return total, metrics | more | {"loss": total}

        gradient, metrics = jax.grad(loss, has_aux=True)(params)
        largest = metrics.pop("max_log_ratio")
        metrics["decision_fraction"] = jnp.sum(batch.actor_weight)
        gradient, metrics = parallel.psum((gradient, metrics))
        return gradient, metrics | {"max_log_ratio": parallel.pmax(largest)}

    def batch(self, experience: Experience, at: Index, decision: jax.Array) -> losses.PPOBatch:
        """Minibatch at an index: weights (see `losses`) and advantages over all rows of the
        learner. decision: bool, True where the row decides."""
        rollout, held = experience.rollout, jnp.ones(decision.shape)
        if (learns := rollout.episode.is_learner) is not None:
            held = self.view.select_rows(learns, rollout.state)[at].astype(jnp.float32)
        weight, reference = global_weights(held), rollout.reference_logits
        decides = held * decision
        return losses.PPOBatch(
            action=rollout.action[at],
            log_prob=rollout.log_prob[at],
            value=rollout.value[at],
            advantage=normalize(experience.advantage[at], weight),
            target=experience.target[at],
            actor_weight=decides * weight,
            value_weight=weight,
            reference_logits=None if reference is None else reference[at],
            decision_weight=global_weights(decides),
            progress=experience.progress,
        )


PER_DECISION = ("entropy", "clip_fraction", "approx_kl", "kl_to_bc")


def per_decision(metrics: losses.Metrics) -> losses.Metrics:
    """Convert losses averaged over all examples to means over decisions, as evaluations report
    them."""
    fraction = metrics["decision_fraction"]
    decisions = jnp.where(fraction > 0, fraction, 1.0)
    return metrics | {name: metrics[name] / decisions for name in PER_DECISION if name in metrics}


def global_weights(mask: jax.Array) -> jax.Array:
    """Weights from a 0/1 mask that sum to one over devices; all 0 if the mask is empty."""
    return mask / jnp.maximum(parallel.psum(jnp.sum(mask)), 1.0)


def normalize(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Shift and scale x to mean 0 and standard deviation 1, under weights that sum to one over
    devices."""
    mean = parallel.psum(jnp.sum(weight * x))
    variance = parallel.psum(jnp.sum(weight * (x - mean) ** 2))
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)
