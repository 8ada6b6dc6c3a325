"""An agent that is less, or more, sure of its choices.

Reinforcement learning sharpens a policy far beyond what people's next moves warrant: a temperature
above 1 makes it a better prediction of them, and a more varied partner where it samples. Greedy
play stays what it is.
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import digest
from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.env.game import Rules
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class Tempered(flax.struct.PyTreeNode):
    """`policy` with its logits divided by `temperature`."""

    policy: Any  # a Policy
    temperature: float = flax.struct.field(pytree_node=False, default=1.0)

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        policy: Policy = self.policy
        return policy.rules

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return digest({"wrapper": "tempered", "of": of, "temperature": self.temperature})

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return self.policy.init_carry(batch)

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        carry, logits = self.policy.step(carry, obs, legal, reset, key)
        return carry, jnp.where(legal, logits / self.temperature, ILLEGAL_LOGIT)
