"""Agents that play Overcooked with people: `load_overcooked_agent`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY
from hanabi_rl.games.registry import game_to_dict


class ConstantPolicy(struct.PyTreeNode):
    """Policy with the same logits in every step."""

    name: str = struct.field(pytree_node=False)
    rules: Overcooked = struct.field(pytree_node=False)
    logits: tuple[float, ...] = struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        """See `Policy`; no memory."""
        return ()

    def identity(self) -> str:
        """See `Policy`."""
        return agent_hash({"game": game_to_dict(self.rules), "bot": self.name, "version": 1})

    def step(
        self,
        carry: Any,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[Any, jax.Array]:
        """See `Policy`."""
        return carry, jnp.broadcast_to(jnp.array(self.logits), legal.shape)


_LOGITS = {
    "random": (0.0,) * NUM_ACTIONS,
    "stay": tuple(0.0 if action == STAY else -1e10 for action in range(NUM_ACTIONS)),
}


def load_overcooked_agent(name: str, rules: Overcooked) -> Policy:
    """Return `random`, `stay`, or the agent of that name (`agents/loading.py`), which must have
    been trained in the kitchen of `rules`.

    Raises:
        ValueError: an unknown agent, or one of another game or kitchen.
    """
    if name in _LOGITS:
        return ConstantPolicy(name, rules, _LOGITS[name])
    policy = load_policy(name)
    trained = policy.rules
    if getattr(trained, "kitchen", None) != rules.kitchen:
        found = getattr(trained, "kitchen", trained.name)
        raise ValueError(
            f"{name}: expected random, stay or an agent for {rules.kitchen}, got one for {found}"
        )
    return policy
