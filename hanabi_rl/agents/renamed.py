"""An agent for whom the colours have other names, as Other-Play's partners have (Hu et al.
2020)."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax

from hanabi_rl.agents.identity import digest
from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.env.rules import Rules
from hanabi_rl.env.symmetry import invert_permutations, permute_legal, permute_obs


class Renamed(flax.struct.PyTreeNode):
    """`policy`, which sees colour c as `colors[c]` and whose colour hints are translated back."""

    policy: Any  # a Policy
    colors: jax.Array  # int32 [C]

    @property
    def rules(self) -> Rules:
        """See `Policy.rules`."""
        policy: Policy = self.policy
        return policy.rules

    def identity(self) -> str:
        """See `Policy.identity`."""
        return digest({"wrapper": "renamed", "of": self.policy.identity()}, self.colors)

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
        seen = (
            permute_obs(self.rules, obs, self.colors),
            permute_legal(self.rules, legal, self.colors),
        )
        carry, logits = self.policy.step(carry, *seen, reset, key)
        return carry, permute_legal(self.rules, logits, invert_permutations(self.colors))
