"""Recurrent Q-learning in the style of R2D2 (Kapturowski et al. 2019), sharded over devices.

One update plays `num_steps` timesteps per environment, stores them as one *chunk* per environment
with the network's carry before its first timestep, and takes gradient steps on prioritised
sequences of consecutive chunks (`flashbax`). A chunk holds compact game states: observations are
encoded again for each batch.

Environments belong to fixed blocks, each with its own replay memory, from which every batch takes
equal parts; so the number of devices does not change the result.

Shapes: `N` environments, `S` timesteps of a chunk, `K` chunks and `T` = K * S timesteps of a
sequence, `B` sequences of a batch, `R` rows and `P` players of an environment, `A` actions, `V`
trained values per timestep (`q_targets.Mixing`).
"""

import dataclasses
import math
from typing import Annotated, Any

import flashbax
import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from hanabi_rl.learning import parallel, q_targets
from hanabi_rl.learning.config import LRSchedule, RolloutConfig, check_divides
from hanabi_rl.learning.finite import apply_if_finite, mean_or_first_nonfinite
from hanabi_rl.learning.losses import Metrics
from hanabi_rl.learning.observation_views import flatten_rows, unflatten_rows
from hanabi_rl.learning.rollout import (
    EMPTY_CONTEXT,
    Collector,
    Rollout,
    RunnerState,
    TrainContext,
)
from hanabi_rl.learning.rollout_learner import LearnerState, RolloutLearner
from hanabi_rl.storage.validation import (
    INT32_MAX,
    LearningRate,
    NonNegative,
    PositiveInt,
    Range,
    UnitInterval,
)

PyTree = Any


@dataclasses.dataclass(frozen=True)
class QLearningConfig(RolloutConfig):
    """Settings of recurrent Q-learning. Defaults: the code of SAD (Hu and Foerster 2020), and R2D2
    for sequences."""

    num_envs: PositiveInt = 512
    """Environments that run in parallel."""
    num_steps: PositiveInt = 40
    """Timesteps per environment in one update, the length of a chunk."""
    lr: LearningRate = 6.25e-5
    """Learning rate of Adam."""
    lr_schedule: LRSchedule = "constant"
    gamma: UnitInterval = 0.999
    """Discount per environment timestep."""
    max_grad_norm: Annotated[float, Range(0.0, exclusive_low=True)] = 5.0
    """Maximum global norm of the gradient."""
    num_shuffle_blocks: PositiveInt = 8
    """Environments are replayed within this many fixed blocks; must be divisible by the number of
    devices."""
    n_step: PositiveInt = 3
    """Timesteps until the estimate of a target; for independent values of current players a
    multiple of their number."""
    double_q: bool = True
    """Value the target's actions by the target network, selected by the trained one; otherwise by
    the target network."""
    value_rescaling: bool = False
    """Learn values rescaled by R2D2's h(x)."""
    sequence_chunks: PositiveInt = 2
    """Chunks of a sequence; consecutive sequences overlap in all but one."""
    burn_in: Annotated[int, Range(0, INT32_MAX)] = 20
    """Timesteps at the start of a sequence that only renew the carry; 0 for a network without
    memory."""
    batch_size: PositiveInt = 128
    """Sequences per gradient step."""
    gradient_steps: PositiveInt = 8
    """Gradient steps per update."""
    target_every: PositiveInt = 300
    """Updates between copies of the network to the target network."""
    replay_size: PositiveInt = 2_000_000
    """Environment timesteps in the replay memory."""
    warmup_steps: PositiveInt = 100_000
    """Environment timesteps before the first gradient step."""
    priority_exponent: UnitInterval = 0.9
    """Exponent of a sequence's priority; 0: uniform replay."""
    priority_max: UnitInterval = 0.9
    """Weight of the maximum of the absolute TD errors in a sequence's priority; the mean has the
    rest."""
    importance_exponent: UnitInterval = 0.6
    """Exponent of the importance weights; 1 corrects the whole bias of prioritised replay."""
    epsilon: UnitInterval = 0.1
    """Probability of a random action in the most exploring environment of a block."""
    epsilon_power: NonNegative = 7.0
    """Environment i of n in a block explores with epsilon ** (1 + epsilon_power * i / (n - 1))."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides("batch_size", self.batch_size, "num_shuffle_blocks", self.num_shuffle_blocks)
        steps = self.sequence_chunks * self.num_steps
        if self.burn_in + self.n_step >= steps:
            raise ValueError(
                f"burn_in + n_step: expected fewer than the {steps} timesteps of a sequence "
                f"(sequence_chunks * num_steps), got {self.burn_in + self.n_step}"
            )
        if self.chunks_per_env < self.sequence_chunks:
            raise ValueError(
                f"replay_size: expected at least {self.sequence_chunks} updates of "
                f"{self.num_envs} x {self.num_steps} timesteps, got {self.replay_size:,}"
            )

    @property
    def gradient_steps_per_update(self) -> int:
        """See `RolloutConfig`."""
        return self.gradient_steps

    @property
    def updates_without_steps(self) -> int:
        """See `RolloutConfig`: the warm-up."""
        needed = math.ceil(self.warmup_steps / (self.num_envs * self.num_steps))
        return max(self.sequence_chunks, needed) - 1

    @property
    def chunks_per_env(self) -> int:
        """Chunks of each environment in the replay memory."""
        return self.replay_size // (self.num_envs * self.num_steps)


class QLearnerState(LearnerState):
    """Replicated part of the training state."""

    target_params: PyTree = None


class QActors(flax.struct.PyTreeNode):
    """Sharded part of the training state."""

    runner: RunnerState
    replay: Any  # flashbax state of each block, leaves [blocks, ...]


class Chunk(flax.struct.PyTreeNode):
    """Consecutive timesteps, leaves [..., S, ...], or a whole sequence, time first: [T, B, ...];
    `memory` and `carry` are those before the first timestep."""

    state: PyTree  # games without what observations do not need
    reset: jax.Array  # bool, True at the first timestep of a game
    action: jax.Array  # int16 [..., R], the no-op on idle turns
    reward: jax.Array  # float32 [..., V or 1]
    done: jax.Array  # bool, the action ended the game
    memory: PyTree = None  # of the observation view
    carry: PyTree = None  # [..., R, ...], of the network
    exploration: jax.Array | None = None  # int8 [..., A], see `sad.py`


@dataclasses.dataclass(frozen=True)
class QLearner(RolloutLearner):
    """Q-learning with dueling values V + A; the policy's logits are the advantages A.

    `mixing` selects the algorithm: IQL or VDN.
    """

    config: QLearningConfig
    mixing: q_targets.Mixing = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        players = self.env.rules.num_players
        if self.mixing == "independent" and self.view.semi_mdp and self.config.n_step % players:
            raise ValueError(
                f"--n-step: expected a multiple of the {players} players, whose values are learned "
                f"on their own turns, got {self.config.n_step}"
            )
        if self.config.burn_in and not self.network.has_carry:
            raise ValueError(
                f"--burn-in: expected 0 for a network without memory, got {self.config.burn_in}"
            )

    @property
    def buffer(self) -> Any:
        """Replay memory of one block, from `flashbax`: items start at each chunk."""
        config = self.config
        blocks = config.num_shuffle_blocks
        return flashbax.make_prioritised_trajectory_buffer(
            add_batch_size=config.num_envs // blocks,
            sample_batch_size=config.batch_size // blocks,
            sample_sequence_length=config.sequence_chunks,
            period=1,
            min_length_time_axis=config.sequence_chunks,
            max_length_time_axis=config.chunks_per_env,
            priority_exponent=config.priority_exponent,
            device=jax.default_backend(),
        )

    @property
    def collector(self) -> Collector:
        """Collector of epsilon-greedy play; its carry is that of the network and each row's
        epsilon."""

        def act(params: PyTree, carry: Any, inputs: PyTree, legal: Any, reset: Any) -> Any:
            carry, epsilon = carry
            carry, q = self.q_values(params, carry, inputs, legal, reset)
            logits = q_targets.epsilon_greedy_logits(q, legal, epsilon[None])
            return (carry, epsilon), logits, q.max(axis=-1)

        def first_carry(batch: int) -> Any:
            return self.initial_carry(batch), jnp.zeros(batch)

        return Collector(self.env, self.view, act, first_carry, self.sample_episode)

    def q_values(
        self, params: PyTree, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """Action values of rows: the new carry, and float32 [T, B, A], -1e10 where illegal."""
        carry, logits, value = self.apply(params, carry, inputs, legal, reset)
        return carry, q_targets.dueling_values(logits, value, legal)

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[Any, Any]:
        """See `RolloutLearner`; the replay memory is empty."""
        config = self.config
        learner, runner = super().init(key, context, actor)
        target = jax.tree.map(jnp.copy, learner.params)
        learner = QLearnerState(**vars(learner), target_params=target)
        of_block = config.num_envs // config.num_shuffle_blocks
        place = (runner.index % of_block) / max(of_block - 1, 1)
        epsilon = config.epsilon ** (1.0 + config.epsilon_power * place)
        carry, rows, *more = runner.carry
        rows = jnp.broadcast_to(epsilon[:, None], rows.shape)
        runner = runner.replace(carry=(carry, rows, *more))
        shapes = jax.eval_shape(lambda: self.play(learner, runner, context, key)[1])
        one = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), shapes)
        replay = jax.vmap(lambda _: self.buffer.init(one))(jnp.arange(config.num_shuffle_blocks))
        # flashbax's largest priority begins as a Python number: a weak type would compile twice
        replay = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), replay)
        return learner, QActors(runner, replay)

    def play(
        self, learner: QLearnerState, runner: RunnerState, context: TrainContext, key: jax.Array
    ) -> tuple[RunnerState, Chunk, Rollout]:
        """Play one chunk: the runner state afterwards, the chunk [N, S, ...], and the rollout."""
        timesteps = self.env_steps(learner)
        following, rollout, _ = self.collector.collect(
            learner.params, runner, context, key, self.config.num_steps, timesteps
        )
        reward = self.reward(rollout, timesteps)
        if reward.ndim == 2:
            reward = reward[..., None]
        elif self.mixing == "sum":
            reward = reward.mean(axis=-1, keepdims=True)  # of the team
        chunk = Chunk(
            state=rollout.state,
            reset=rollout.reset,
            action=rollout.action.astype(jnp.int16),
            reward=reward,
            done=rollout.transition.done,
        )
        chunk = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), chunk)
        chunk = chunk.replace(memory=runner.memory, carry=runner.carry[0])
        return following, chunk, rollout

    def update(
        self, learner: QLearnerState, actors: QActors, context: TrainContext
    ) -> tuple[QLearnerState, QActors, Metrics]:
        """One update: play, store, gradient steps. All shapes are one device's part."""
        config = self.config
        play_key, sample_key = jax.vmap(lambda i: jax.random.fold_in(learner.key, i))(
            2 * learner.update + jnp.arange(2)
        )
        runner, chunk, rollout = self.play(learner, actors.runner, context, play_key)
        of_block = config.num_envs // config.num_shuffle_blocks
        added = jax.tree.map(
            lambda x: x.reshape(len(x) // of_block, of_block, 1, *x.shape[1:]), chunk
        )
        replay = jax.vmap(self.buffer.add)(actors.replay, added)
        played = learner.update + 1
        ready = played > config.updates_without_steps
        blocks = runner.index[::of_block] // of_block

        def step(state: Any, i: jax.Array) -> Any:
            params, opt_state, tree = state
            whole = replay.replace(sum_tree_state=tree)
            key = jax.random.fold_in(sample_key, i)
            keys = jax.vmap(lambda block: jax.random.fold_in(key, block))(blocks)
            sample = jax.vmap(self.buffer.sample)(whole, keys)
            probability = jnp.where(ready, sample.probabilities, 0.0)
            gradient, priority, metrics = self.gradient(
                params, learner.target_params, sample.experience, probability.reshape(-1)
            )
            priority = jnp.where(probability > 0, priority.reshape(probability.shape), 0.0)
            whole = jax.vmap(self.buffer.set_priorities)(whole, sample.indices, priority)
            metrics["gradient_norm"] = jnp.linalg.norm(ravel_pytree(gradient)[0])
            changes, opt_state = self.optimizer().update(gradient, opt_state, params)
            state = optax.apply_updates(params, changes), opt_state, whole.sum_tree_state
            return state, metrics

        first = learner.params, learner.opt_state, replay.sum_tree_state
        (params, opt_state, tree), metrics = jax.lax.scan(
            step, first, jnp.arange(config.gradient_steps)
        )
        metrics = mean_or_first_nonfinite(metrics) | {
            "parameter_norm": jnp.linalg.norm(ravel_pytree(params)[0])
        }
        # gradients are 0 before, but Adam's bias correction would be used up
        opt_state, tree = jax.tree.map(
            lambda new, old: jnp.where(ready, new, old),
            (opt_state, tree),
            (learner.opt_state, replay.sum_tree_state),
        )
        copies = played % config.target_every == 0
        updated = learner.replace(
            params=params,
            opt_state=opt_state,
            update=played,
            target_params=jax.tree.map(
                lambda new, old: jnp.where(copies, new, old), params, learner.target_params
            ),
        )
        learner = apply_if_finite(updated, learner, metrics)
        actors = QActors(runner, replay.replace(sum_tree_state=tree))
        return learner, actors, metrics | self.rollout_metrics(rollout)

    def gradient(
        self, params: PyTree, target_params: PyTree, sampled: Chunk, probability: jax.Array
    ) -> tuple[PyTree, jax.Array, Metrics]:
        """Global gradient of the weighted Huber loss, priorities float32 [B], and metrics.

        Args:
            sampled: chunks, leaves [blocks, B / blocks, K, ...].
            probability: float32 [B], of sampling the sequence in its block; 0: ignore it.
        """
        config = self.config
        sequence = as_sequences(sampled)
        inputs, legal = self.encode(sequence)
        weight = q_targets.importance_weights(probability, config.importance_exponent)
        largest = parallel.pmax(jnp.max(weight))
        weight = weight / (jnp.where(largest > 0, largest, 1.0) * config.batch_size)
        target_q = self.unroll(target_params, sequence, inputs, legal)
        reward, done = (x[config.burn_in :] for x in (sequence.reward, sequence.done))

        def loss(params: PyTree) -> tuple[jax.Array, Any]:
            q = self.unroll(params, sequence, inputs, legal)
            action = sequence.action[config.burn_in :].astype(jnp.int32)
            taken = jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]
            value = q_targets.mixed(taken, self.mixing)[: -config.n_step]
            best = q_targets.double_q_values(q if config.double_q else target_q, target_q)
            target = self.targets(reward, done, best)
            error = value - jax.lax.stop_gradient(target)
            total = jnp.sum(weight * optax.huber_loss(error).mean(axis=(0, 2)))
            metrics = {
                "loss": total,
                "td_error": jnp.abs(error).mean() / parallel.num_devices(),
                "return_mean": target.mean() / parallel.num_devices(),
            }
            return total, (error, metrics)

        gradient, (error, metrics) = jax.grad(loss, has_aux=True)(params)
        gradient, metrics = parallel.psum((gradient, metrics))
        return gradient, q_targets.sequence_priorities(error, config.priority_max), metrics

    def targets(self, reward: jax.Array, done: jax.Array, best: jax.Array) -> jax.Array:
        """Targets float32 [T - n_step, B, V]; best: float32 [T, B, R], values of best actions."""
        config = self.config
        following = q_targets.mixed(best, self.mixing)
        if config.value_rescaling:
            following = q_targets.undo_rescale(following)
        target = q_targets.n_step_targets(reward, done, following, config.gamma, config.n_step)
        return q_targets.rescale(target) if config.value_rescaling else target

    def encode(self, sequence: Chunk) -> tuple[PyTree, jax.Array]:
        """Inputs [T, B, R, ...] and legal actions bool [T, B, R, A] of all rows of sequences."""
        view = self.view
        if any(leaf.size for leaf in jax.tree.leaves(sequence.memory)):

            def read(memory: PyTree, at: tuple[PyTree, jax.Array]) -> Any:
                memory, seen = view.encode_step(memory, *at, None)
                return memory, (seen.inputs, seen.legal)

            return jax.lax.scan(read, sequence.memory, (sequence.state, sequence.reset))[1]
        lead = sequence.reset.shape
        state, reset = jax.tree.map(
            lambda x: x.reshape(lead[0] * lead[1], *x.shape[2:]), (sequence.state, sequence.reset)
        )
        _, seen = view.encode_step(view.memory(len(reset)), state, reset, None)
        return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), (seen.inputs, seen.legal))

    def unroll(
        self, params: PyTree, sequence: Chunk, inputs: PyTree, legal: jax.Array
    ) -> jax.Array:
        """Action values float32 [T - burn_in, B, R, A] after the burn-in, which has no gradient."""
        rows, burn_in = legal.shape[2], self.config.burn_in
        reads = jax.tree.map(
            lambda x: x.reshape(x.shape[0], x.shape[1] * rows, *x.shape[3:]),
            (inputs, legal, jnp.repeat(sequence.reset[..., None], rows, axis=2)),
        )
        carry = flatten_rows(sequence.carry)
        if burn_in:
            first = jax.tree.map(lambda x: x[:burn_in], reads)
            carry = jax.lax.stop_gradient(self.q_values(params, carry, *first)[0])
        _, q = self.q_values(params, carry, *jax.tree.map(lambda x: x[burn_in:], reads))
        return jax.vmap(lambda x: unflatten_rows(x, legal.shape[1]))(q)


def as_sequences(sampled: Chunk) -> Chunk:
    """Chunks [blocks, B / blocks, K, S, ...] as sequences, time first, with the memory and the
    carry of the first chunk."""

    def joined(x: jax.Array) -> jax.Array:
        batch, steps = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
        return x.reshape(batch, steps, *x.shape[4:]).swapaxes(0, 1)

    def first(x: jax.Array) -> jax.Array:
        return x[:, :, 0].reshape(x.shape[0] * x.shape[1], *x.shape[3:])

    held = {name: jax.tree.map(first, getattr(sampled, name)) for name in ("memory", "carry")}
    return jax.tree.map(joined, sampled.replace(memory=None, carry=None)).replace(**held)
