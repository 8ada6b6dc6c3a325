"""What every agent is: a policy with a carry, one step at a time.

carry = policy.init_carry(batch)
carry, action = act(policy, carry, obs, legal, reset)          # greedy; with a key, sampled
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, runtime_checkable

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.env.rules import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig, initial_carry
from hanabi_rl.nn.precision import Precision

PyTree = Any


@runtime_checkable
class Policy(Protocol):
    """An agent for one seat (or many: the batch axis is free), as a pytree that jitted functions
    take as an argument.

    A policy is stepped on every timestep of a game for every seat it holds, idle ones too: it
        remembers what it saw.
    """

    @property
    def rules(self) -> Rules:
        """The game this policy plays; static under jit."""

    def init_carry(self, batch: int) -> PyTree:
        """The memory before the first timestep of a game; every leaf is `[batch, ...]`."""

    def step(
        self, carry: PyTree, obs: jax.Array, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """Reads one observation and answers with logits.

        Args:
            carry: memory, every leaf `[B, ...]`.
            obs: float32 `[B, O]`, the observation of the seat that this policy holds.
            legal: bool `[B, A]`; on an idle timestep only the no-op is legal.
            reset: bool `[B]`, true on the first timestep of a game: the carry is cleared before
                `obs` is read.

        Returns:
            The new carry, and float32 logits `[B, A]`, -1e10 where the action is illegal.
        """


@jax.jit
def act(
    policy: Policy,
    carry: PyTree,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    key: jax.Array | None = None,
) -> tuple[PyTree, jax.Array]:
    """One step of `policy`: the most likely action, or with a `key` one drawn from its
    distribution.

    Args:
        policy, carry, obs, legal, reset: as in `Policy.step`.
        key: one PRNG key for the whole batch, or None for greedy play (ties go to the lowest action
            id).

    Returns:
        The new carry and the action, int32 `[B]`.
    """
    carry, logits = policy.step(carry, obs, legal, reset)
    action = (
        jnp.argmax(logits, axis=-1) if key is None else jax.random.categorical(key, logits, axis=-1)
    )
    return carry, action.astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class PolicyInfo:
    """Where a trained policy comes from. All infos compare equal, so that policies of one shape
    share one compiled function."""

    algorithm: str = dataclasses.field(default="", compare=False)
    step: int = dataclasses.field(default=0, compare=False)  # environment steps of RL, epochs of BC
    score: float | None = dataclasses.field(
        default=None, compare=False
    )  # of the evaluation that selected it
    greedy: bool = dataclasses.field(
        default=True, compare=False
    )  # whether that evaluation was greedy


class NetworkPolicy(flax.struct.PyTreeNode):
    """A trained `Actor` as a `Policy`; `agents/loading.py` says what its folder on disk is."""

    params: PyTree  # of the actor alone, float32 leaves
    rules: Rules = flax.struct.field(pytree_node=False)
    network: NetworkConfig = flax.struct.field(pytree_node=False)
    info: PolicyInfo = flax.struct.field(pytree_node=False, default=PolicyInfo())
    precision: Precision = flax.struct.field(
        pytree_node=False, default="float32"
    )  # not saved: a choice of the trainer

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`: for each LSTM layer (cell, hidden), each float32 `[batch,
        H]`."""
        return initial_carry(self.network, batch)

    def step(
        self, carry: PyTree, obs: jax.Array, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`: the network reads a sequence of one timestep."""
        actor = Actor(self.network, self.rules.num_moves, self.precision)
        out: Any = actor.apply({"params": self.params}, carry, obs[None], legal[None], reset[None])
        carry, logits = out
        return carry, logits[0]
