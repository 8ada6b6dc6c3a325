"""A game of one step with three conventions."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.games.game import Game, Outcome


class Nothing(struct.PyTreeNode):
    empty: jax.Array  # [N, 1]


@dataclasses.dataclass(frozen=True)
class Conventions(Game):
    """One step; the team scores 1 if both players choose the same of three actions."""

    name: Literal["conventions"] = "conventions"
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = 3

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return (1,)

    @property
    def max_steps(self) -> int:
        return 1

    def start(self, keys: jax.Array) -> Nothing:
        return Nothing(jnp.zeros((len(keys), 1)))

    def step(self, state: Nothing, action: jax.Array, keys: jax.Array) -> tuple[Nothing, Outcome]:
        reward = (action[:, 0] == action[:, 1]).astype(jnp.float32)
        return state, Outcome(reward=reward, done=jnp.ones(len(keys), bool))

    def observe(self, state: Nothing) -> jax.Array:
        return jnp.ones((len(state.empty), 2, 1))


class Last(struct.PyTreeNode):
    action: jax.Array  # int32 [N, 2], -1 before the first
    time: jax.Array  # int32 [N]


@dataclasses.dataclass(frozen=True)
class RepeatedConventions(Conventions):
    """Four steps, each with a quarter of the score; a player sees the other's last action."""

    name: Literal["repeated-conventions"] = "repeated-conventions"  # type: ignore[assignment]

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def max_steps(self) -> int:
        return 4

    def start(self, keys: jax.Array) -> Last:  # type: ignore[override]
        count = len(keys)
        return Last(jnp.full((count, 2), -1, jnp.int32), jnp.zeros(count, jnp.int32))

    def step(  # type: ignore[override]
        self, state: Last, action: jax.Array, keys: jax.Array
    ) -> tuple[Last, Outcome]:
        reward = 0.25 * (action[:, 0] == action[:, 1]).astype(jnp.float32)
        time = state.time + 1
        return Last(action.astype(jnp.int32), time), Outcome(reward=reward, done=time == 4)

    def observe(self, state: Last) -> jax.Array:  # type: ignore[override]
        return jax.nn.one_hot(state.action[:, ::-1], 3)
