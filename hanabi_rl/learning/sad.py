"""SAD (Hu and Foerster 2020): in training all players also see the greedy action behind the last
move, so that exploration does not blur what a move tells.

The additional input is the greedy action minus the action taken, one-hot, which with the observed
move is equivalent to the greedy action. It is zero in greedy play. Its kernel is the parameter
`greedy`, which a saved policy does not need.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import q_targets
from hanabi_rl.learning.q_learning import Chunk, QLearner, QLearnerState
from hanabi_rl.learning.rollout import Collector, Rollout, RunnerState, TrainContext
from hanabi_rl.nn.networks import ActorCritic, MemoryNetwork, require_embedding
from hanabi_rl.nn.precision import matmul, matmul_dtype

PyTree = Any


class SADActorCritic(ActorCritic):
    """`ActorCritic` whose first embedding layer has an additional input."""

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        super().setup()
        init = nn.initializers.lecun_normal()
        shape = self.num_actions, self.config.embedding[0]
        self.greedy = self.param("greedy", init, shape)

    def __call__(  # type: ignore[override]
        self,
        carry: PyTree,
        inputs: tuple[jax.Array, jax.Array],
        legal: jax.Array,
        reset: jax.Array,
    ) -> tuple[PyTree, jax.Array, jax.Array]:
        """See `ActorCritic`; inputs: observations [T, B, O] and exploration float32 [T, B, A]."""
        obs, exploration = inputs
        more = matmul(exploration, self.greedy, matmul_dtype(self.precision))
        x = self.config.read(obs, reset)
        carry, features = self.actor.encode(carry, x, reset, more)
        return carry, self.actor.head(features, legal), self.critic(features)


@dataclasses.dataclass(frozen=True)
class SADLearner(QLearner):
    """Q-learning with the additional input; the learner's carry is that of the network, each row's
    epsilon, and the input of the next timestep, float32 [N, R, A]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_embedding(self.network, "the greedy action")
        if not isinstance(self.config.game, Rules) or self.view.semi_mdp:
            raise ValueError("SAD: expected Hanabi, and the network computed for every player")

    @property
    def module(self) -> nn.Module:
        """See `RolloutLearner`."""
        assert isinstance(self.network, MemoryNetwork), "checked above"
        actions = self.env.rules.num_actions
        return SADActorCritic(self.network, actions, self.config.precision)

    def init_params(self, key: jax.Array) -> PyTree:
        """See `RolloutLearner`."""
        rules, rows = self.env.rules, self.view.rows
        shape = 1, rows
        obs = jnp.zeros((*shape, *rules.obs_shape))
        legal = jnp.ones((*shape, rules.num_actions), bool)
        carry = self.initial_carry(rows)
        inputs = obs, jnp.zeros(legal.shape)
        return self.module.init(key, carry, inputs, legal, legal[..., 0])["params"]

    @property
    def collector(self) -> Collector:
        """See `QLearner`; a rollout's values are the additional inputs."""
        actions = self.env.rules.num_actions

        def act(params: PyTree, carry: Any, inputs: PyTree, legal: Any, reset: Any) -> Any:
            carry, epsilon, exploration = carry
            exploration = jnp.where(reset[..., None], 0.0, exploration[None])
            carry, q = self.q_values(params, carry, (inputs, exploration), legal, reset)
            logits = q_targets.epsilon_greedy_logits(q, legal, epsilon[None])
            greedy = jax.nn.one_hot(jnp.argmax(q[0], axis=-1), actions)
            return (carry, epsilon, greedy), logits, exploration

        def acted(carry: Any, action: jax.Array) -> Any:
            carry, epsilon, greedy = carry
            # idle players' actions are their greedy ones
            moved = jnp.sum(greedy - jax.nn.one_hot(action, actions), axis=1, keepdims=True)
            return carry, epsilon, jnp.broadcast_to(moved, greedy.shape)

        def first_carry(batch: int) -> Any:
            return self.initial_carry(batch), jnp.zeros(batch), jnp.zeros((batch, actions))

        return Collector(self.env, self.view, act, first_carry, self.sample_episode, acted=acted)

    def play(
        self, learner: QLearnerState, runner: RunnerState, context: TrainContext, key: jax.Array
    ) -> tuple[RunnerState, Chunk, Rollout]:
        """See `QLearner`."""
        following, chunk, rollout = super().play(learner, runner, context, key)
        exploration = jnp.swapaxes(rollout.value[:, :, 0], 0, 1).astype(jnp.int8)
        return following, chunk.replace(exploration=exploration), rollout

    def encode(self, sequence: Chunk) -> tuple[PyTree, jax.Array]:
        """See `QLearner`: observations and the additional inputs."""
        assert sequence.exploration is not None, "stored by `play`"
        obs, legal = super().encode(sequence)
        exploration = sequence.exploration.astype(jnp.float32)[:, :, None]
        return (obs, jnp.broadcast_to(exploration, legal.shape)), legal
