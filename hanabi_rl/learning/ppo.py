"""The PPO core: collect, estimate returns, and epochs of minibatches, recurrent and sharded over
devices.

One core serves every learner: what differs is the `objective`, what is drawn for each game
    (`draw_episode`: who sits
where, which colour is called what), the `reference` policy, and the initial parameters.

Recurrent PPO splits actors (seats of environments) into minibatches, never time, and unrolls each
from the carry it was collected with. Minibatches are defined on the global batch: actors are
shuffled within fixed blocks of environments, so the number of devices does not change them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hanabi_rl.agents.policy import Policy
from hanabi_rl.env.hanabi import HanabiEnv
from hanabi_rl.env.rules import current_player
from hanabi_rl.env.streams import random_words
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.finite import apply_if_finite, mean_or_first_not_finite
from hanabi_rl.learning.returns import gae
from hanabi_rl.learning.rollout import (
    ActorState,
    DrawEpisode,
    Rollout,
    collect,
    encode,
    initial_actors,
    self_play,
)
from hanabi_rl.nn.networks import ActorCritic, NetworkConfig, init_params, initial_carry

PyTree = Any
Objective = Callable[[jax.Array, jax.Array, losses.PPOBatch], tuple[jax.Array, losses.Metrics]]


def ippo_objective(
    ippo_loss: jax.Array, logits: jax.Array, batch: losses.PPOBatch
) -> tuple[jax.Array, losses.Metrics]:
    """IPPO: nothing is added to the PPO loss."""
    del logits, batch
    return ippo_loss, {}


class LearnerState(flax.struct.PyTreeNode):
    """The replicated half of the training state."""

    params: PyTree
    opt_state: PyTree
    update: jax.Array  # int32 [], updates done
    key: jax.Array  # of the run; never consumed, only folded into


class Experience(flax.struct.PyTreeNode):
    """A rollout with its returns, and the carries it began from."""

    rollout: Rollout
    advantage: jax.Array  # float32 [T, N, P]
    target: jax.Array  # float32 [T, N, P]
    carry: PyTree  # [N, P, ...], before the first timestep


@dataclasses.dataclass(frozen=True)
class PPO:
    """A learner. `update` is written against the device axis; `compile_update` runs it on all
    devices."""

    config: PPOConfig
    network: NetworkConfig
    objective: Objective = ippo_objective
    draw_episode: DrawEpisode = self_play

    @property
    def env(self) -> HanabiEnv:
        """The environment that the learner plays in."""
        return HanabiEnv(**dataclasses.asdict(self.config.game))

    @property
    def module(self) -> nn.Module:
        """The actor-critic."""
        return ActorCritic(self.network, self.env.rules.num_moves, self.config.precision)

    def apply(self, params: PyTree, *inputs: Any) -> Any:
        """The network: (carry, obs, legal, reset) -> (carry, logits, value), time first."""
        return self.module.apply({"params": params}, *inputs)

    def init(
        self, key: jax.Array, reference: Policy | None = None
    ) -> tuple[LearnerState, ActorState]:
        """A learner with fresh parameters, and actors at the start of fresh games (not yet
        sharded)."""
        param_key, env_key, run_key = jax.random.split(key, 3)
        rules = self.env.rules
        params = init_params(self.module, param_key, self.network, rules.obs_size, rules.num_moves)
        learner = LearnerState(
            params=params,
            opt_state=self.optimizer().init(params),
            update=jnp.zeros((), jnp.int32),
            key=run_key,
        )
        actors = initial_actors(
            self.env,
            env_key,
            self.config.num_envs,
            lambda rows: initial_carry(self.network, rows),
            reference,
            self.draw_episode,
        )
        return learner, actors

    def optimizer(self) -> optax.GradientTransformation:
        """Adam (eps 1e-5) after clipping by global norm; the linear rate falls to 0, constant
        within an update."""
        config = self.config
        steps_per_update = config.epochs * config.num_minibatches

        def linear(count: jax.Array) -> jax.Array:
            return config.lr * (1.0 - (count // steps_per_update) / config.num_updates)

        rate = linear if config.lr_schedule == "linear" else config.lr
        # Flat: on one vector of all parameters, instead of several small loops for each of them.
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))
        )

    def compile_update(self) -> Callable[..., tuple[LearnerState, ActorState, losses.Metrics]]:
        """`update` on all devices: (learner, sharded actors, reference) -> (learner, sharded
        actors, metrics)."""
        if self.config.num_blocks % parallel.num_devices():
            raise ValueError(
                f"num_blocks={self.config.num_blocks} must be divisible by the "
                f"{parallel.num_devices()} devices"
            )
        return parallel.data_parallel(
            self.update, in_axes=(None, 0, None), out_axes=(None, 0, None), donate_argnums=(0, 1)
        )

    def update(
        self, learner: LearnerState, actors: ActorState, reference: Policy | None
    ) -> tuple[LearnerState, ActorState, losses.Metrics]:
        """One PPO update: collect, returns, epochs. All shapes are one device's share."""
        collect_key, epoch_key = jax.vmap(lambda i: jax.random.fold_in(learner.key, i))(
            2 * learner.update + jnp.arange(2)
        )
        timesteps = learner.update.astype(jnp.float32) * (
            self.config.num_envs * self.config.num_steps
        )
        next_actors, rollout, last_value = collect(
            self.env,
            self.apply,
            learner.params,
            reference,
            actors,
            collect_key,
            self.config.num_steps,
            lambda key: self.draw_episode(key, timesteps),
        )
        experience = self.returns(rollout, last_value, actors.carry)
        learner, metrics = self.learn(learner, experience, actors.index, epoch_key)
        return learner, next_actors, metrics | game_metrics(rollout)

    def returns(self, rollout: Rollout, last_value: jax.Array, carry: PyTree) -> Experience:
        """Advantages and targets: every seat receives the team's reward."""
        estimate = jax.vmap(gae, in_axes=(1, 1, 1, 0, None, None), out_axes=1)  # environments
        estimate = jax.vmap(estimate, in_axes=(None, 2, None, 1, None, None), out_axes=2)  # seats
        reward, done = rollout.transition.reward, rollout.transition.done
        advantage, target = estimate(
            reward, rollout.value, done, last_value, self.config.gamma, self.config.gae_lambda
        )
        return Experience(rollout=rollout, advantage=advantage, target=target, carry=carry)

    def learn(
        self, learner: LearnerState, experience: Experience, index: jax.Array, key: jax.Array
    ) -> tuple[LearnerState, losses.Metrics]:
        """Epochs of minibatches over one stored rollout. index: int32 [N], the environments' global
        numbers.

        Where a return, loss or gradient is not finite, the learner comes back as it was and the
        metrics say why.
        """
        config = self.config
        actors = self.minibatches(key, index)
        warming_up = learner.update < config.critic_warmup_updates

        def step(
            carry: tuple[PyTree, PyTree], actor: tuple[jax.Array, jax.Array]
        ) -> tuple[Any, losses.Metrics]:
            params, opt_state = carry
            gradient, metrics = self.gradient(params, experience, *actor)
            gradient["actor"] = jax.tree.map(
                lambda g: jnp.where(warming_up, 0.0, g), gradient["actor"]
            )
            metrics["gradient_norm"] = jnp.linalg.norm(ravel_pytree(gradient)[0])
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            return (optax.apply_updates(params, changes), opt_state), metrics

        (params, opt_state), metrics = jax.lax.scan(
            step, (learner.params, learner.opt_state), actors
        )
        first_log_ratio = metrics.pop("max_log_ratio")[0]
        metrics = mean_or_first_not_finite(metrics) | {
            "return_mean": parallel.pmean(jnp.mean(experience.target)),
            "parameter_norm": jnp.linalg.norm(ravel_pytree(params)[0]),
        }
        learnt = learner.replace(params=params, opt_state=opt_state, update=learner.update + 1)
        return apply_if_finite(learnt, learner, metrics), metrics | {
            "first_max_log_ratio": first_log_ratio
        }

    def minibatches(self, key: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The actors of every minibatch of every epoch: (environment, seat), each int32 [epochs *
        M, B], environments numbered locally. index: int32 [N], their global numbers."""
        config, players = self.config, self.env.rules.num_players
        envs_per_block = config.num_envs // config.num_blocks
        first_env = jnp.arange(0, index.shape[0], envs_per_block, dtype=jnp.int32)
        words = random_words(key, index, config.epochs * players).reshape(
            -1, config.epochs, players
        )
        # The actors of a block in a random order for each epoch: by a random word each.
        order = jnp.argsort(words.swapaxes(0, 1).reshape(config.epochs, first_env.shape[0], -1))
        env, seat = first_env[:, None] + order // players, order % players

        def split(x: jax.Array) -> jax.Array:
            """Every minibatch takes its share of every block."""
            shares = x.reshape(*x.shape[:2], config.num_minibatches, -1)
            return shares.swapaxes(1, 2).reshape(config.epochs * config.num_minibatches, -1)

        return split(env), split(seat)

    def gradient(
        self, params: PyTree, experience: Experience, env: jax.Array, seat: jax.Array
    ) -> tuple[PyTree, losses.Metrics]:
        """The global gradient of the objective on one minibatch of actors: env, seat int32 [B]."""
        config, rules, rollout = self.config, self.env.rules, experience.rollout
        state = jax.tree.map(lambda x: x[:, env], rollout.state)
        colors = rollout.episode.colors
        obs, legal = encode(rules, state, seat, None if colors is None else colors[:, env, seat])
        carry = jax.tree.map(lambda x: x[env, seat], experience.carry)
        decision = current_player(state) == seat
        batch = self.batch(experience, decision, env, seat)

        def loss(params: PyTree) -> tuple[jax.Array, losses.Metrics]:
            _, logits, value = self.apply(params, carry, obs, legal, rollout.reset[:, env])
            ippo, metrics = losses.ppo_loss(
                logits,
                value,
                batch,
                clip_eps=config.clip_eps,
                value_coef=config.value_coef,
                entropy_coef=config.entropy_coef,
            )
            total, more = self.objective(ippo, logits, batch)
            return total, metrics | more | {"loss": total}

        gradient, metrics = jax.grad(loss, has_aux=True)(params)
        largest = metrics.pop("max_log_ratio")
        gradient, metrics = parallel.psum((gradient, metrics))
        return gradient, metrics | {"max_log_ratio": parallel.pmax(largest)}

    def batch(
        self, experience: Experience, decision: jax.Array, env: jax.Array, seat: jax.Array
    ) -> losses.PPOBatch:
        """One minibatch with weights that sum to one, and normalised advantages, over the learner's
        seats of the global minibatch."""
        rollout = experience.rollout

        def pick(x: jax.Array) -> jax.Array:
            return x[:, env, seat]

        learns = rollout.episode.learns
        held = jnp.ones(decision.shape) if learns is None else pick(learns).astype(jnp.float32)
        decided = held * decision
        counted = held if self.config.loss_average == "timesteps" else decided
        counted_weight = global_share(counted)
        return losses.PPOBatch(
            action=pick(rollout.action),
            log_prob=pick(rollout.log_prob),
            value=pick(rollout.value),
            advantage=normalised(pick(experience.advantage), counted_weight),
            target=pick(experience.target),
            actor_weight=decided * counted_weight,
            value_weight=global_share(held),
            reference_logits=None
            if rollout.reference_logits is None
            else pick(rollout.reference_logits),
        )


def global_share(mask: jax.Array) -> jax.Array:
    """A mask of zeros and ones as weights that sum to one over the devices (all 0 where it is
    empty)."""
    return mask / jnp.maximum(parallel.psum(jnp.sum(mask)), 1.0)


def normalised(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x shifted and scaled to mean 0 and standard deviation 1 under weights that sum to one over
    the devices."""
    mean = parallel.psum(jnp.sum(weight * x))
    variance = parallel.psum(jnp.sum(weight * (x - mean) ** 2))
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)


def game_metrics(rollout: Rollout) -> losses.Metrics:
    """Means over the games that ended in a rollout (nan where none did): sampled play, as training
    sees it."""
    done = rollout.transition.done.astype(jnp.float32)
    games = parallel.psum(jnp.sum(done))
    sums = {
        "train_score": jnp.sum(done * rollout.transition.score),
        "train_points": jnp.sum(done * rollout.transition.points),
    }
    if (learns := rollout.episode.learns) is not None:
        sums["partner_seats"] = jnp.sum(done * jnp.sum(~learns, axis=-1))
    return {name: total / games for name, total in parallel.psum(sums).items()} | {
        "train_games": games
    }
