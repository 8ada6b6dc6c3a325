"""PPO with Any-Play's intrinsic reward (Lucas and Allen 2022, arXiv 2201.12436).

In every game one player, the specializer, knows a style z. The others, accommodators, predict z
from their observations, and the team is paid for the predictions. So the specializer plays
recognisably in each style, and the accommodators learn to play with all of them.

One network plays both. The specializer's style enters its first embedding layer by the kernel
`style`. The head `prediction` reads the accommodator's features. The saved actor has neither: it is
the accommodator. Environment e always has style e mod K, and its specializer holds seat
floor(e / K) mod P.

Shapes: `K` styles, `P` players, `T` timesteps, `N` environments, `B` rows, `A` actions.
"""

import dataclasses
import math
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.learning import losses
from hanabi_rl.learning.population import BonusPPO
from hanabi_rl.learning.ppo import Objective
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState
from hanabi_rl.nn.networks import ActorCritic, MemoryNetwork, dense, require_embedding
from hanabi_rl.nn.precision import matmul, matmul_dtype

PyTree = Any


class Role(flax.struct.PyTreeNode):
    """Constant part of the carry of a row."""

    style: jax.Array  # float32 [..., K], one-hot, of the specializer in this environment
    specializer: jax.Array  # float32 [...], 1 for the specializer, 0 for accommodators


class AnyPlayActorCritic(ActorCritic):
    """`ActorCritic` with styles; its carry is (carry of the network, `Role`)."""

    styles: int = 2

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        super().setup()
        init, width = nn.initializers.lecun_normal(), self.config.embedding[0]
        self.style = self.param("style", init, (self.styles, width))
        self.prediction = dense(self.styles, self.precision)

    def __call__(  # type: ignore[override]
        self, carry: tuple[PyTree, Role], obs: jax.Array, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array, jax.Array, jax.Array]:
        """See `ActorCritic`; also the log-probability of the style that an accommodator predicts,
        float32 [T, B], 0 for the specializer."""
        carry, role = carry
        told = role.style * role.specializer[..., None]
        more = matmul(told, self.style, matmul_dtype(self.precision))
        carry, features = self.actor.encode(carry, self.config.read(obs, reset), reset, more)
        predicted = jnp.sum(role.style * jax.nn.log_softmax(self.prediction(features)), axis=-1)
        logits, value = self.actor.head(features, legal), self.critic(features)
        return (carry, role), logits, value, (1.0 - role.specializer) * predicted


def prediction_objective(weight: float, players: int) -> Objective:
    """PPO's loss, and `weight` times the accommodators' mean cross-entropy of the style."""

    def objective(
        ippo_loss: jax.Array, logits: jax.Array, batch: losses.PPOBatch, predicted: jax.Array
    ) -> tuple[jax.Array, losses.Metrics]:
        del logits
        # all but one of the players are accommodators
        loss = -jnp.sum(batch.value_weight * predicted) * players / (players - 1)
        return ippo_loss + weight * loss, {"style_loss": loss}

    return objective


@dataclasses.dataclass(frozen=True)
class AnyPlayPPO(BonusPPO):
    """PPO of a specializer with accommodators. Bonus of a timestep: log K plus the accommodators'
    mean log-probability of the style."""

    styles: int = 2
    """K."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_embedding(self.network, "the style")
        if self.view.semi_mdp or self.privileged is not None:
            raise ValueError(
                "Any-Play: expected the network computed for every player, and no "
                "--privileged-critic"
            )

    @property
    def module(self) -> nn.Module:
        """See `RolloutLearner`."""
        assert isinstance(self.network, MemoryNetwork), "checked above"
        actions = self.env.rules.num_actions
        return AnyPlayActorCritic(self.network, actions, self.config.precision, self.styles)

    def initial_carry(self, batch: int) -> PyTree:
        """See `RolloutLearner`; roles are assigned by `init`."""
        role = Role(jnp.zeros((batch, self.styles)), jnp.zeros(batch))
        return super().initial_carry(batch), role

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[LearnerState, RunnerState]:
        """See `PPO.init`; every row has its role."""
        learner, runner = super().init(key, context, actor)
        carry, role = runner.carry
        players = self.env.rules.num_players
        seat = runner.index // self.styles % players
        style = jax.nn.one_hot(runner.index % self.styles, self.styles)
        role = Role(
            jnp.broadcast_to(style[:, None], role.style.shape), jax.nn.one_hot(seat, players)
        )
        return learner, runner.replace(carry=(carry, role))

    def bonus_of(self, rollout: Rollout) -> jax.Array:
        """See `BonusPPO`."""
        accommodators = self.env.rules.num_players - 1
        assert rollout.extra is not None, "the module predicts styles"
        mean: jax.Array = rollout.extra.sum(axis=-1) / accommodators
        return math.log(self.styles) + mean
