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
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hanabi_rl.games.game import Environment
from hanabi_rl.games.registry import make_env
from hanabi_rl.learning import losses, minibatches, parallel
from hanabi_rl.learning.biased_rewards import BiasedReward
from hanabi_rl.learning.config import PPOConfig, check_divides
from hanabi_rl.learning.finite import apply_if_finite, mean_or_first_nonfinite
from hanabi_rl.learning.network_inputs import LEARNING_INPUTS, observation_view
from hanabi_rl.learning.observation_views import Index, ObservationView
from hanabi_rl.learning.returns import TD_ERRORS, gae, semi_mdp_values
from hanabi_rl.learning.rollout import (
    EMPTY_CONTEXT,
    Collector,
    PrivilegedInputFn,
    Rollout,
    RunnerState,
    SampleEpisode,
    TrainContext,
    self_play,
)
from hanabi_rl.nn.config import NetworkKind

PyTree = Any
Objective = Callable[[jax.Array, jax.Array, losses.PPOBatch], tuple[jax.Array, losses.Metrics]]
"""(L_IPPO of `losses.ppo_loss`, float32 []; logits float32 [..., A]; batch) -> (loss float32 [],
metrics, each float32 []); both are sums over the local part of a minibatch.

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


class LearnerState(flax.struct.PyTreeNode):
    """Replicated part of the training state."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array  # int32 [], completed updates
    key: jax.Array  # key of the run; never consumed, only folded into


class Experience(flax.struct.PyTreeNode):
    """A rollout with its returns and initial carries."""

    rollout: Rollout
    advantage: jax.Array  # float32 [T, N, R]
    target: jax.Array  # float32 [T, N, R]
    carry: PyTree  # [N, R, ...], before the first timestep


@dataclasses.dataclass(frozen=True)
class PPO:
    """PPO learner. `update` runs on one device's data; `compile_update` runs it on all devices."""

    config: PPOConfig
    network: NetworkKind
    objective: Objective = ippo_objective
    sample_episode: SampleEpisode = self_play
    make_view: Callable[[Any], ObservationView] | None = None
    """Observation view, from the game; `CurrentPlayerView` needs a network without a carry. None:
    the network's default."""
    learner_fraction: float = 1.0
    """Mean fraction of decisions made by the learner; minibatches of single timesteps then omit
    partners' decisions, which carry no gradient."""
    schedule_updates: int | None = None
    """Updates over which a linear learning rate falls to 0 and shaping fades; afterwards both stay.
    None: the whole run."""

    def __post_init__(self) -> None:
        if self.network.has_carry and self.view.flattens_time:
            raise ValueError(
                "network: expected a feed-forward one, which needs no row of its own for every "
                f"seat, got {self.network}"
            )

    @property
    def env(self) -> Environment:
        """Training environment."""
        return make_env(self.config.game)

    @property
    def view(self) -> ObservationView:
        """Observation view of the networks."""
        rules = self.config.game
        if self.make_view is not None:
            return self.make_view(rules)
        return observation_view(rules, self.network, self.config.current_player_only)

    @property
    def privileged(self) -> PrivilegedInputFn | None:
        """Function that computes the privileged input of the critic; None without one."""
        if not self.config.privileged_critic:
            return None
        return LEARNING_INPUTS[self.network.inputs].privileged

    @property
    def module(self) -> nn.Module:
        """Actor-critic module."""
        return self.network.actor_critic(self.env.rules.num_actions, self.config.precision)

    def initial_carry(self, batch: int) -> PyTree:
        """Carry of `module` before the first timestep of a game, leaves [batch, ...]."""
        return self.network.initial_carry(batch)

    def apply(self, params: PyTree, *inputs: Any) -> Any:
        """The network as (carry, inputs, legal, reset) -> (carry, logits, value), time first."""
        return self.module.apply({"params": params}, *inputs)

    @property
    def collector(self) -> Collector:
        """Collector of rollouts with the network."""
        return Collector(
            self.env,
            self.view,
            self.apply,
            self.initial_carry,
            self.sample_episode,
            self.privileged,
        )

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[LearnerState, RunnerState]:
        """Learner with fresh parameters (of the actor: the given ones, if any), and runner state at
        the start of fresh games, not yet sharded."""
        param_key, env_key, run_key = jax.random.split(key, 3)
        params = self.init_params(param_key)
        if actor is not None:  # copied, because the learner's buffers are donated
            params = {**params, "actor": jax.tree.map(jnp.copy, actor)}
        learner = LearnerState(
            params=params,
            opt_state=self.optimizer().init(params),
            update=jnp.zeros((), jnp.int32),
            key=run_key,
        )
        return learner, self.collector.init(env_key, self.config.num_envs, context)

    def init_params(self, key: jax.Array) -> PyTree:
        """Fresh parameters of the network, with shapes from its view."""
        rules, view = self.env.rules, self.view

        def looked(key: jax.Array) -> list[Any]:
            """Inputs of the network at the start of one game."""
            game = self.env.reset(key, 1).game
            _, seen = view.encode_step(view.memory(1), game, jnp.ones(1, bool), None)
            reads = [seen.inputs, seen.legal, jnp.ones((1, view.rows), bool)]
            if self.privileged is not None:
                seat = jnp.broadcast_to(view.seats(game), (1, view.rows))
                reads.append(self.privileged(rules, game, seat, None))
            return reads

        shapes = jax.eval_shape(looked, key)  # parameters depend only on shapes
        reads = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        carry = self.initial_carry(view.rows)
        return self.module.init(key, carry, *reads)["params"]

    def optimizer(self) -> optax.GradientTransformation:
        """Adam (eps 1e-5) after clipping by global norm; the learning rate is constant within an
        update."""
        config = self.config
        steps_per_update = config.epochs * config.num_minibatches
        updates = self.schedule_updates or config.num_updates

        falling = optax.linear_schedule(config.lr, 0.0, updates)

        def linear(count: jax.Array) -> jax.Array:
            return falling(jnp.minimum(count // steps_per_update, updates - 1))

        rate = linear if config.lr_schedule == "linear" else config.lr
        # flat: one vector of all parameters instead of a small loop per leaf
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))
        )

    def compile_update(self) -> Callable[..., tuple[LearnerState, RunnerState, losses.Metrics]]:
        """`update` on all devices: (learner, sharded actors, context) -> (learner, sharded actors,
        metrics)."""
        check_divides(
            "num_shuffle_blocks", self.config.num_shuffle_blocks, "devices", parallel.num_devices()
        )
        return parallel.data_parallel(
            self.update,
            in_axes=(None, 0, None),
            out_axes=(None, 0, None),
            donate_argnums=(0, 1),
        )

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

    def env_steps(self, learner: LearnerState) -> jax.Array:
        """Environment timesteps before this update, float32 []; the paper's numbers overflow
        int32."""
        return learner.update.astype(jnp.float32) * (self.config.num_envs * self.config.num_steps)

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

    def reward(
        self, rollout: Rollout, timesteps: jax.Array, preference: BiasedReward | None = None
    ) -> jax.Array:
        """Training reward, float32 [T, N] or [T, N, R], after `timesteps` environment timesteps."""
        actions, progress = self.joint_actions(rollout), self.progress(timesteps)
        return self.config.shaping.reward(rollout, actions, progress, preference)

    def progress(self, timesteps: jax.Array) -> jax.Array:
        """Fraction of training completed after `timesteps` environment timesteps, float32 []."""
        config = self.config
        updates = self.schedule_updates or config.num_updates
        return timesteps / float(updates * config.num_envs * config.num_steps)  # exceeds 32 bits

    def joint_actions(self, rollout: Rollout) -> jax.Array:
        """Actions that the environment took: int32 [T, N] of the current player, or [T, N, P]."""
        return jax.vmap(self.view.joint_action)(rollout.action, rollout.state)

    def rollout_metrics(self, rollout: Rollout) -> losses.Metrics:
        """Metrics of the games in a rollout."""
        actions = self.joint_actions(rollout)
        return game_metrics(rollout) | self.config.shaping.metrics(rollout, actions)

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
            _, logits, value = self.apply(params, carry, *reads)
            ippo, metrics = losses.ppo_loss(logits, value, batch, self.config)
            total, more = self.objective(ippo, logits, batch)
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


def game_metrics(rollout: Rollout) -> losses.Metrics:
    """Means over the games that ended in a rollout of sampled play; NaN if none ended."""
    done = rollout.transition.done.astype(jnp.float32)
    games = parallel.psum(jnp.sum(done))
    sums = {
        f"train_{name}": jnp.sum(done * getattr(rollout.transition, name))
        for name in ("score", "points")
        if hasattr(rollout.transition, name)
    }
    if (learns := rollout.episode.is_learner) is not None:
        sums["partner_seats"] = jnp.sum(done * jnp.sum(~learns, axis=-1))
    return {name: total / games for name, total in parallel.psum(sums).items()} | {
        "train_games": games
    }
