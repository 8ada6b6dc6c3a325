"""Base class of learners that collect rollouts: network, view, collection, training reward,
optimiser."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import optax

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.games.game import Environment
from hanabi_rl.games.registry import make_env
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.biased_rewards import BiasedReward
from hanabi_rl.learning.config import RolloutConfig, check_divides
from hanabi_rl.learning.network_inputs import observation_view
from hanabi_rl.learning.observation_views import ObservationView
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
from hanabi_rl.learning.schedules import falling
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.storage.trees import check_leaves, leaf_paths

PyTree = Any


class LearnerState(flax.struct.PyTreeNode):
    """Replicated part of the training state."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array  # int32 [], completed updates
    key: jax.Array  # key of the run; never consumed, only folded into


@dataclasses.dataclass(frozen=True)
class RolloutLearner:
    """Learner from rollouts. `update` runs on one device's data; `compile_update` runs it on all
    devices."""

    config: RolloutConfig
    network: NetworkKind
    sample_episode: SampleEpisode = self_play
    make_view: Callable[[Any], ObservationView] | None = None
    """Observation view, from the game; `CurrentPlayerView` needs a network without a carry. None:
    the network's default."""
    schedule_updates: int | None = None
    """Updates over which the learning rate, coefficients and shaping change; afterwards they stay.
    None: the whole run."""
    compiles_quickly: ClassVar[bool] = False
    """True if updates of structured networks compile with `QUICKLY` on one CPU device."""

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
        return None

    @property
    def module(self) -> nn.Module:
        """Actor-critic module."""
        return self.network.actor_critic(self.env.rules.num_actions, self.config.precision)

    def initial_carry(self, batch: int) -> PyTree:
        """Carry of `module` before the first timestep of a game, leaves [batch, ...]."""
        return self.network.initial_carry(batch)

    def apply(self, params: PyTree, *inputs: Any) -> Any:
        """The network as (carry, inputs, legal, reset) -> (carry, logits, value), time first."""
        return self.module.apply({"params": self.view.read_params(params)}, *inputs)

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
        the start of fresh games, not yet sharded. Raises IncompatibleError as `with_actor`."""
        param_key, env_key, run_key = jax.random.split(key, 3)
        params = with_actor(self.init_params(param_key), actor)
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
            reads = [view.observations(seen), seen.legal, jnp.ones((1, view.rows), bool)]
            if self.privileged is not None:
                seat = jnp.broadcast_to(view.seats(game), (1, view.rows))
                reads.append(self.privileged(rules, game, seat, None))
            return reads

        shapes = jax.eval_shape(looked, key)  # parameters depend only on shapes
        reads = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        carry = self.initial_carry(view.rows)
        return self.module.init(key, carry, *reads)["params"]

    def optimizer(self) -> optax.GradientTransformation:
        """Adam (eps 1e-5) after clipping by global norm; constant rate within an update."""
        config = self.config
        updates = self.schedule_updates or config.num_updates
        lr: Any = config.lr
        if config.lr_schedule != "constant":
            course = falling(config.lr_schedule, config.lr, config.final_lr, updates)
            steps, skipped = config.gradient_steps_per_update, config.updates_without_steps
            lr = lambda count: course(jnp.minimum(skipped + count // steps, updates - 1))  # noqa: E731
        # flat: one vector of all parameters instead of a small loop per leaf
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(lr, eps=1e-5))
        )

    def policy_of(self, actor: PyTree) -> NetworkPolicy:
        """Policy with these actor parameters, in the run's precision; None: for carries only."""
        return NetworkPolicy(
            params=actor,
            rules=self.env.rules,
            network=self.network,
            precision=self.config.precision,
        )

    def compile_update(self) -> Callable[..., tuple[LearnerState, RunnerState, losses.Metrics]]:
        """`update` on all devices: (learner, sharded actors, context) -> the two, and metrics."""
        check_divides(
            "num_shuffle_blocks", self.config.num_shuffle_blocks, "devices", parallel.num_devices()
        )
        return parallel.data_parallel(
            self.update,
            in_axes=(None, 0, None),
            out_axes=(None, 0, None),
            donate_argnums=(0, 1),
            quickly=self.compiles_quickly and self.network.inputs == "structured",
        )

    def update(
        self, learner: Any, actors: Any, context: TrainContext
    ) -> tuple[Any, Any, losses.Metrics]:
        """One update of the learner (replicated) and its actors (sharded)."""
        raise NotImplementedError

    def env_steps(self, learner: LearnerState) -> jax.Array:
        """Environment timesteps before this update, float32 []; the paper's numbers overflow
        int32."""
        return learner.update.astype(jnp.float32) * (self.config.num_envs * self.config.num_steps)

    def reward(
        self, rollout: Rollout, timesteps: jax.Array, preference: BiasedReward | None = None
    ) -> jax.Array:
        """Training reward, float32 [T, N] or [T, N, R], after `timesteps` environment timesteps."""
        actions, progress = self.joint_actions(rollout), self.progress(timesteps)
        return self.config.shaping.reward(rollout, actions, progress, preference)

    def progress(self, timesteps: jax.Array) -> jax.Array:
        """Fraction of training completed after `timesteps` environment timesteps, float32 []."""
        config = self.config
        updates = self.schedule_updates or config.num_updates  # all steps may exceed 32 bits
        return jnp.minimum(timesteps / float(updates * config.num_envs * config.num_steps), 1.0)

    def joint_actions(self, rollout: Rollout) -> jax.Array:
        """Actions that the environment took: int32 [T, N] of the current player, or [T, N, P]."""
        return jax.vmap(self.view.joint_action)(rollout.action, rollout.state)

    def rollout_metrics(self, rollout: Rollout) -> losses.Metrics:
        """Metrics of the games in a rollout."""
        actions = self.joint_actions(rollout)
        return game_metrics(rollout) | self.config.shaping.metrics(rollout, actions)


def with_actor(params: PyTree, actor: PyTree) -> PyTree:
    """Parameters of a learner with those of an actor, if any. Raises IncompatibleError, a
    ValueError, for an actor of another network."""
    if actor is None:
        return params
    check_leaves(leaf_paths(actor), params["actor"], where="the initial actor")
    return {**params, "actor": jax.tree.map(jnp.copy, actor)}  # the learner's buffers are donated


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
