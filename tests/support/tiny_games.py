"""Small games of simultaneous actions for tests of the `Game` protocol."""

import dataclasses
from typing import Any, ClassVar, Literal

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.games.game import Game, Outcome


class DiceState(flax.struct.PyTreeNode):
    values: jax.Array  # int32 [N, 3]
    time: jax.Array  # int32 [N]
    luck: Any  # uint32 [N]; no observation depends on it


@dataclasses.dataclass(frozen=True)
class Dice(Game):
    """Everything depends on the seat and on chance: observations, legal and acting players, shaping
    rewards, ends of games."""

    name: Literal["dice"] = "dice"
    horizon: int = 9
    num_players: ClassVar[int] = 3
    num_actions: ClassVar[int] = 4
    obs_shape: ClassVar[tuple[int, ...]] = (3,)  # type: ignore[misc]

    @property
    def max_steps(self) -> int:
        return self.horizon

    def start(self, keys: jax.Array) -> DiceState:
        values = (keys[:, :1] >> jnp.arange(3, dtype=jnp.uint32) * 8).astype(jnp.int32) & 7
        return DiceState(values, jnp.zeros(len(keys), jnp.int32), keys[:, 1])

    def step(self, state: Any, action: jax.Array, keys: jax.Array) -> tuple[Any, Outcome]:
        rolled = (keys[:, :1] >> jnp.arange(3, dtype=jnp.uint32) * 8).astype(jnp.int32) & 7
        time = state.time + 1
        after = DiceState((state.values + action + rolled) % 8, time, keys[:, 1])
        return after, Outcome(
            reward=jnp.float32(action.sum(axis=1) % 3),
            done=(keys[:, 1] % 8 == 0) | (time >= self.horizon),
            shaped=0.1 * jnp.float32(action * jnp.arange(1, 4) + state.values),
        )

    def observe(self, state: Any) -> jax.Array:
        own, next_one = state.values, jnp.roll(state.values, -1, axis=1)
        time = jnp.broadcast_to(state.time[:, None], own.shape)
        return jnp.stack([own, next_one, time], axis=-1) / jnp.float32(8)

    def legal(self, state: Any) -> jax.Array:
        others = (state.values[..., None] + jnp.arange(4)) % 3 != 0
        return others.at[..., 0].set(True)

    def acting(self, state: Any) -> jax.Array:
        return state.values % 4 != 0

    def stored(self, state: Any) -> Any:
        return state.replace(luck=None)


@dataclasses.dataclass(frozen=True)
class ManyActions(Dice):
    """More actions than a byte can number, of which five are legal: 59, 119, ... 299."""

    name: Literal["many-actions"] = "many-actions"  # type: ignore[assignment]
    num_actions: ClassVar[int] = 300

    def legal(self, state: Any) -> jax.Array:
        return jnp.broadcast_to(jnp.arange(300) % 60 == 59, (*state.values.shape, 300))


class SignalState(flax.struct.PyTreeNode):
    symbol: jax.Array  # int32 [N, 2]
    signal: jax.Array  # int32 [N, 2]
    time: jax.Array  # int32 [N]


@dataclasses.dataclass(frozen=True)
class Signals(Game):
    """Each player sees a symbol, its first action is a signal to the other, and in the last step
    each names a symbol: its partner's, or with `delay` its own, seen only at the start."""

    name: Literal["signals"] = "signals"
    delay: int = 0
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = 2
    max_score: ClassVar[float] = 1.0
    is_greedy: ClassVar[bool] = True
    obs_shape: ClassVar[tuple[int, ...]] = (5,)  # type: ignore[misc]

    @property
    def max_steps(self) -> int:
        return 2 + self.delay

    def start(self, keys: jax.Array) -> SignalState:
        zero = jnp.zeros(len(keys), jnp.int32)
        return SignalState((keys & 1).astype(jnp.int32), jnp.stack([zero, zero], 1), zero)

    def step(self, state: Any, action: jax.Array, keys: jax.Array) -> tuple[Any, Outcome]:
        first, time = state.time == 0, state.time + 1
        signal = jnp.where(first[:, None], action, state.signal)
        done = time == self.max_steps
        target = state.symbol if self.delay else state.symbol[:, ::-1]
        reward = jnp.where(done, jnp.mean(action == target, axis=1), 0.0)
        return SignalState(state.symbol, signal, time), Outcome(jnp.float32(reward), done)

    def observe(self, state: Any) -> jax.Array:
        first = (state.time == 0)[:, None, None]
        symbol = jnp.where(first, jax.nn.one_hot(state.symbol, 2), 0)
        signal = jnp.where(first, 0, jax.nn.one_hot(state.signal[:, ::-1], 2))
        last = jnp.broadcast_to(
            state.time[:, None, None] + 1 == self.max_steps, (*symbol.shape[:2], 1)
        )
        return jnp.concatenate([symbol, signal, last], axis=-1).astype(jnp.float32)
