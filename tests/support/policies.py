"""Small recurrent policies for tests that need play but no training."""

import functools
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
from support.compiled import init_params

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import NetworkConfig


@flax.struct.dataclass
class RecurrentPolicy:
    """Random weights and a hidden state that depends on all observations of the game."""

    weights: dict[str, jax.Array]
    rules: Rules = flax.struct.field(pytree_node=False)
    traces: ClassVar[list[str]] = []  # one entry per trace of `step`

    def identity(self) -> str:
        return agent_hash("recurrent", self.weights)

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.zeros((batch, 16))

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: Any = None
    ) -> tuple[Any, jax.Array]:
        self.traces.append("step")
        carry = jnp.where(reset[:, None], 0, carry)
        carry = jnp.tanh(carry @ self.weights["hidden"] + obs @ self.weights["obs"])
        return carry, jnp.where(legal, carry @ self.weights["logits"], -1e10)


@flax.struct.dataclass
class ClockPolicy:
    """Plays slot `t % period` at timestep t by its own clock, which idle turns must advance."""

    period: jax.Array
    rules: Rules = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.full((batch,), 99)

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: Any = None
    ) -> tuple[Any, jax.Array]:
        clock = jnp.where(reset, 0, carry)
        play = self.rules.hand_size + clock % self.period
        return clock + 1, jnp.where(
            legal, 5.0 * jax.nn.one_hot(play, self.rules.num_actions), -1e10
        )


def recurrent_policy(rules: Rules, seed: int, scale: float = 2.0) -> RecurrentPolicy:
    return RecurrentPolicy(
        weights=_recurrent_weights(rules, jax.random.key(seed), scale), rules=rules
    )


@functools.partial(jax.jit, static_argnums=0)
def _recurrent_weights(rules: Rules, key: jax.Array, scale: float) -> dict[str, jax.Array]:
    hidden_key, obs_key, logits_key = jax.random.split(key, 3)
    return {
        "hidden": jax.random.normal(hidden_key, (16, 16)) / 4,
        "obs": jax.random.normal(obs_key, (rules.obs_size, 16)) / 4,
        "logits": scale * jax.random.normal(logits_key, (16, rules.num_actions)),
    }


def clock_policy(rules: Rules, period: int) -> ClockPolicy:
    return ClockPolicy(period=jnp.int32(period), rules=rules)


NETWORK = NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,))


def network_policy(rules: Rules, seed: int, algorithm: str = "bc") -> NetworkPolicy:
    """A network policy with an identity."""
    return NetworkPolicy(
        params=_network_params(rules, seed),
        rules=rules,
        network=NETWORK,
        info=PolicyInfo(algorithm),
    )


@functools.cache
def _network_params(rules: Rules, seed: int) -> Any:
    params = init_params(rules, NETWORK, jax.random.key(seed))
    return jax.device_put(jax.tree.map(lambda leaf: 3 * leaf, params))  # larger, so that moves vary


@flax.struct.dataclass
class CountingPolicy:
    """Plays the slot of its number of games with the same partners; remembers only that number."""

    rules: Rules = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.zeros(batch, jnp.int32)

    def next_game(self, carry: Any, agents_played: jax.Array) -> Any:
        return carry + agents_played

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: Any = None
    ) -> tuple[Any, jax.Array]:
        games = jnp.where(reset, 0, carry)
        play = self.rules.hand_size + games % self.rules.hand_size
        return games, jnp.where(legal, 5.0 * jax.nn.one_hot(play, self.rules.num_actions), -1e10)
