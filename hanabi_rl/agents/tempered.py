"""Temperature wrapper: makes an agent more or less random.

Reinforcement learning makes a policy far more deterministic than humans. A temperature above 1
improves its predictions of human moves and diversifies it as a sampled partner. Greedy play is
unchanged, except that stochastic bots (`bot:random`, rule lists) become more deterministic below 1.
"""

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
        possible = legal & (logits > ILLEGAL_LOGIT / 2)  # excluded moves stay excluded
        return jnp.where(possible, logits / self.temperature, ILLEGAL_LOGIT)
