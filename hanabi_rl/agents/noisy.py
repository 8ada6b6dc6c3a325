"""An agent that sometimes acts at random: whoever learns beside it meets what it would not do."""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.identity import digest
from hanabi_rl.agents.policy import PyTree
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class Noisy(Wrapper):
    """`policy`, but with probability `epsilon` any legal action, all alike; its answer is the whole
    distribution. Sampled play alone shows it: the most likely action stays what it is."""

    epsilon: float = flax.struct.field(pytree_node=False, default=0.5)

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return digest({"wrapper": "noisy", "of": of, "epsilon": self.epsilon})

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
        return carry, mixed(logits, legal, self.epsilon)

    @property
    def reads(self) -> str | None:
        """See `ReadsInputs` in `learning/views.py`: what the policy reads."""
        return getattr(self.policy, "reads", None)

    def init_inputs_carry(self, batch: int) -> PyTree:
        """See `ReadsInputs`."""
        return self.policy.init_inputs_carry(batch)

    def step_inputs(
        self, carry: PyTree, inputs: PyTree, legal: jax.Array, reset: jax.Array
    ) -> tuple[PyTree, jax.Array]:
        """See `ReadsInputs`."""
        carry, logits = self.policy.step_inputs(carry, inputs, legal, reset)
        return carry, mixed(logits, legal, self.epsilon)


def mixed(logits: jax.Array, legal: jax.Array, epsilon: float) -> jax.Array:
    """Logits float32 [..., A] of `(1 - epsilon) softmax(logits) + epsilon / |legal|`, illegal
    actions at -1e10."""
    at_random = legal / jnp.sum(legal, axis=-1, keepdims=True)
    chances = (1.0 - epsilon) * jax.nn.softmax(logits, axis=-1) + epsilon * at_random
    return jnp.where(legal, jnp.log(jnp.maximum(chances, 1e-30)), ILLEGAL_LOGIT)
