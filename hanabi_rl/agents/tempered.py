"""An agent that is less, or more, sure of its choices.

Reinforcement learning sharpens a policy far beyond what people's next moves warrant: a temperature
above 1 makes it a better prediction of them, and a more varied partner where it samples. Greedy
play stays what it is; but below 1 who plays that by chance too (`bot:random`, rule lists) draws
more often what it does most.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.wrapper import LogitsWrapper
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class Tempered(LogitsWrapper):
    """`policy` with its logits divided by `temperature`."""

    temperature: float = flax.struct.field(pytree_node=False, default=1.0)

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return agent_hash({"wrapper": "tempered", "of": of, "temperature": self.temperature})

    def transform_logits(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """See `LogitsWrapper`."""
        possible = legal & (logits > ILLEGAL_LOGIT / 2)  # a move that is ruled out stays so
        return jnp.where(possible, logits / self.temperature, ILLEGAL_LOGIT)
