"""Epsilon-random wrapper: shows a learner moves that the partner would not choose."""

import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.wrapper import LogitsWrapper
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class EpsilonNoise(LogitsWrapper):
    """`policy` that takes a uniformly random legal action with probability `epsilon`. Its logits
    are the mixture, so greedy play is unchanged."""

    epsilon: float | jax.Array = 0.5
    """Probability of a random action; a leaf, so that agents that differ in it share a program."""

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return agent_hash({"wrapper": "noisy", "of": of, "epsilon": float(self.epsilon)})

    def transform_logits(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """See `LogitsWrapper`."""
        return mix_with_uniform(logits, legal, self.epsilon)


def mix_with_uniform(logits: jax.Array, legal: jax.Array, epsilon: float | jax.Array) -> jax.Array:
    """Logits float32 [..., A] of `(1 - epsilon) softmax(logits) + epsilon / |legal|`, illegal
    actions at -1e10; with an epsilon of 0 also the actions that `logits` exclude."""
    at_random = legal / jnp.sum(legal, axis=-1, keepdims=True)
    probs = (1.0 - epsilon) * jax.nn.softmax(logits, axis=-1) + epsilon * at_random
    possible = legal & ((logits > ILLEGAL_LOGIT / 2) | (jnp.asarray(epsilon) > 0))
    return jnp.where(possible, jnp.log(jnp.maximum(probs, 1e-30)), ILLEGAL_LOGIT)
