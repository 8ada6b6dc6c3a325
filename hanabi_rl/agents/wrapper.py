"""What every wrapper of an agent is: the agent, and what is changed of it."""

from __future__ import annotations

from typing import Any

import flax.struct

from hanabi_rl.agents.identity import own_structure
from hanabi_rl.agents.policy import Policy, PyTree
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
