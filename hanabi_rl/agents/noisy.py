"""An agent that sometimes acts at random: whoever learns beside it meets what it would not do."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.wrapper import LogitsWrapper
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class EpsilonNoise(LogitsWrapper):
    """`policy`, but with probability `epsilon` any legal action, all alike; its answer is the whole
    distribution. Sampled play alone shows it: the most likely action stays what it is."""

    epsilon: float | jax.Array = 0.5
    """A leaf, so that agents of one kind that err by different amounts are one program."""

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return agent_hash({"wrapper": "noisy", "of": of, "epsilon": float(self.epsilon)})

    def transform_logits(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """See `LogitsWrapper`."""
        return mix_with_uniform(logits, legal, self.epsilon)


def mix_with_uniform(logits: jax.Array, legal: jax.Array, epsilon: float | jax.Array) -> jax.Array:
    """Logits float32 [..., A] of `(1 - epsilon) softmax(logits) + epsilon / |legal|`, illegal
    actions at -1e10; at an epsilon of 0 also those that `logits` rule out."""
    at_random = legal / jnp.sum(legal, axis=-1, keepdims=True)
    probs = (1.0 - epsilon) * jax.nn.softmax(logits, axis=-1) + epsilon * at_random
    possible = legal & ((logits > ILLEGAL_LOGIT / 2) | (jnp.asarray(epsilon) > 0))
    return jnp.where(possible, jnp.log(jnp.maximum(probs, 1e-30)), ILLEGAL_LOGIT)
