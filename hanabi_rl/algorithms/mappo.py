"""MAPPO (Yu et al. 2022, arXiv 2103.01955): IPPO with a central critic on the whole state.

The critic is a network of its own, with its own memory if the actor has one, and exists only in
training. Value normalisation and the Huber loss of the paper are omitted.
"""

import dataclasses
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.games.hanabi.dynamics import Rules, current_player
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.learning.encoding import own_hand_one_hot
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import PrivilegedInputFn
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.networks import Actor, Critic, MemoryNetwork
from hanabi_rl.nn.precision import Precision

PyTree = Any


@dataclasses.dataclass(frozen=True)
class MAPPOConfig(IPPOConfig):
    """Train agents in self-play from scratch with a central critic (MAPPO, Yu et al. 2022)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.privileged_critic:
            raise ValueError(
                "--privileged-critic: expected none in MAPPO, whose critic reads the whole state"
            )


def whole_state(
    rules: Any, game: PyTree, seat: jax.Array, colors: jax.Array | None = None
) -> jax.Array:
    """Input of the central critic: the state, equal for all seats, and the seat.

    In Hanabi the state is the current player's observation, its true hand and the number of moves
    in the last round, and seats count from the current player: the order of the deck is the only
    hidden part. In other games it is the observations of all players.

    Args:
        game: games [...].
        seat: int32 [..., R].
        colors: ignored; the state has the game's own colours.

    Returns:
        float32 [..., R, X]; the last P numbers are the seat, one-hot.
    """
    del colors
    lead, players = seat.shape[:-1], rules.num_players
    size = math.prod(lead)  # leaves of a state without its deck have size 0
    flat = jax.tree.map(lambda x: x.reshape(size, *x.shape[len(lead) :]), game)
    if isinstance(rules, Rules):
        player = current_player(flat)
        parts = [
            observe_seat(rules, flat, player),
            own_hand_one_hot(rules, flat, player[:, None]),
            jax.nn.one_hot(flat.last_round, players + 1),
        ]
        seat = (seat - player.reshape(*lead, 1)) % players
    else:
        parts = [rules.observe(flat)]
    state = jnp.concatenate([x.reshape(*lead, 1, -1).astype(jnp.float32) for x in parts], axis=-1)
    state = jnp.broadcast_to(state, (*seat.shape, state.shape[-1]))
    return jnp.concatenate([state, jax.nn.one_hot(seat, players)], axis=-1)


class CentralCritic(nn.Module):
    """Critic with its own layers as in an `Actor` up to the decoder, then `Critic`; for networks
    other than `MemoryNetwork`, `Critic` alone."""

    network: NetworkKind
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create the layers; attribute names are parameter names."""
        if isinstance(self.network, MemoryNetwork):
            self.trunk = Actor(self.network, 1, self.precision)
        self.head = Critic(self.network.critic, self.precision)

    def __call__(
        self, carry: PyTree, state: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """state: float32 [T, B, X]; reset: bool [T, B] -> (carry, value [T, B])."""
        features = state
        if isinstance(self.network, MemoryNetwork):
            carry, features = self.trunk.encode(carry, state, reset)
        return carry, self.head(features)


class CentralActorCritic(nn.Module):
    """Actor and `CentralCritic`, which share nothing; interface of `ActorCritic`."""

    network: NetworkKind
    num_actions: int
    precision: Precision = "float32"

    def setup(self) -> None:
        """Create both halves; attribute names are parameter names."""
        self.actor = self.network.actor(self.num_actions, self.precision)
        self.critic = CentralCritic(self.network, self.precision)

    def __call__(
        self,
        carry: tuple[PyTree, PyTree],
        inputs: PyTree,
        legal: jax.Array,
        reset: jax.Array,
        state: jax.Array,
    ) -> tuple[tuple[PyTree, PyTree], jax.Array, jax.Array]:
        """See `NetworkKind.actor_critic`; carry: of the actor and of the critic; state: float32 [T,
        B, X], input of the critic only."""
        of_actor, of_critic = carry
        if self.network.inputs == "observations":
            of_actor, logits = self.actor(of_actor, inputs, legal, reset)
        else:
            logits = self.actor(inputs, legal)
        of_critic, value = self.critic(of_critic, state, reset)
        return (of_actor, of_critic), logits, value


@dataclasses.dataclass(frozen=True)
class CentralPPO(PPO):
    """PPO with a critic of its own that reads the whole state."""

    @property
    def privileged(self) -> PrivilegedInputFn:
        """See `PPO`."""
        return whole_state

    @property
    def module(self) -> nn.Module:
        """See `PPO`."""
        actions = self.env.rules.num_actions
        return CentralActorCritic(self.network, actions, self.config.precision)

    def initial_carry(self, batch: int) -> PyTree:
        """See `PPO`: the carries of actor and critic."""
        return self.network.initial_carry(batch), self.network.initial_carry(batch)


class MAPPO(SelfPlayAlgorithm):
    """IPPO with a central critic."""

    config = MAPPOConfig
    title = "MAPPO"

    def training(self, config: MAPPOConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        return TrainingSetup(CentralPPO(config, config.network), f"{self.title} from scratch")


ALGORITHM = MAPPO()
