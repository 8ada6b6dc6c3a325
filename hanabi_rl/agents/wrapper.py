"""What every wrapper of an agent is: the agent, and what is changed of it."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax

from hanabi_rl.agents.identity import own_structure
from hanabi_rl.agents.policy import Policy, PyTree, next_game
from hanabi_rl.env.game import Rules


class Wrapper(flax.struct.PyTreeNode):
    """`policy` with a difference: a subclass says it in `step`, and in `identity`."""

    policy: Any  # a Policy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        own_structure(cls)
        super().__init_subclass__(**kwargs)

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        policy: Policy = self.policy
        return policy.rules

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return self.policy.init_carry(batch)

    def next_game(self, carry: PyTree, met: jax.Array) -> PyTree:
        """See `agents/policy.py`."""
        return next_game(self.policy, carry, met)


class LogitsWrapper(Wrapper):
    """A wrapper that changes the answer alone: a subclass says how in `changed`. It reads what the
    policy reads, so beside a learner it costs what the policy costs."""

    def changed(self, logits: jax.Array, legal: jax.Array) -> jax.Array:
        """The policy's logits float32 [..., A] -> this agent's, illegal actions at -1e10."""
        raise NotImplementedError

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
        return carry, self.changed(logits, legal)

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
        return carry, self.changed(logits, legal)
