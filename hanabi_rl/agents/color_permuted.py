"""Colour permutation wrapper, as in Other-Play (Hu et al. 2020)."""

import jax

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import PyTree
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.games.hanabi.symmetry import invert_permutations, permute_legal, permute_obs


class ColorPermuted(Wrapper):
    """`policy` that sees colour c as `colors[c]`; its colour hints are mapped back."""

    colors: jax.Array  # int32 [C]

    def identity(self) -> str:
        """See `Policy.identity`."""
        return agent_hash({"wrapper": "renamed", "of": self.policy.identity()}, self.colors)

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
