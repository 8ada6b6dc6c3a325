"""Agents that play Overcooked with people: `load_overcooked_agent`."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY


class OvercookedAgent(Protocol):
    """Interface of an agent for a batch of seats; a pytree argument of jitted functions."""

    def init_carry(self, batch: int) -> Any:
        """Carry before the first step of a game; every leaf is `[batch, ...]`."""

    def identity(self) -> str:
        """SHA-256 that two agents share only if they play alike."""

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: jax.Array
    ) -> tuple[Any, jax.Array]:
        """Read uint8 `[B, H, W, 26]`; return the new carry and logits float32 `[B, 6]`."""


class _Constant(struct.PyTreeNode):
    """Agent with the same logits in every step."""

    name: str = struct.field(pytree_node=False)
    logits: tuple[float, ...] = struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        return ()

    def identity(self) -> str:
        return agent_hash({"game": "overcooked", "bot": self.name, "version": 1})

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: jax.Array
    ) -> tuple[Any, jax.Array]:
        return carry, jnp.broadcast_to(jnp.array(self.logits), legal.shape)


_AGENTS: dict[str, OvercookedAgent] = {
    "random": _Constant("random", (0.0,) * NUM_ACTIONS),
    "stay": _Constant("stay", tuple(0.0 if a == STAY else -1e10 for a in range(NUM_ACTIONS))),
}


def load_overcooked_agent(name: str) -> OvercookedAgent:
    """Return an agent by name.

    Raises:
        ValueError: an unknown name.
    """
    if name not in _AGENTS:
        raise ValueError(f"agent: expected one of {', '.join(_AGENTS)}, got {name!r}")
    return _AGENTS[name]
