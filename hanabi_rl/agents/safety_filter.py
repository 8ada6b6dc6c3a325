"""Safety filter: never play a card unless it is sufficiently likely to be playable.

The probability is exact: the fraction of playable cards among the unseen copies that the card's
hints allow. It counts cards and assumes no convention. It protects the last life in games with
unseen partners.
"""

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.hint_inference import card_facts, unseen_copies
from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import PyTree
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.games.hanabi.bits import members
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class SafetyFilter(Wrapper):
    """`policy` without plays of too small success probability."""

    min_prob_last_life: float = flax.struct.field(pytree_node=False, default=0.6)
    """Minimum play probability on the last life."""
    min_prob: float = flax.struct.field(pytree_node=False, default=0.1)
    """Minimum play probability before the last life."""

    def identity(self) -> str:
        """See `Policy.identity`."""
        settings = {"last_life": self.min_prob_last_life, "before": self.min_prob}
        return agent_hash({"wrapper": "safe", "of": self.policy.identity(), **settings})

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`; if every legal move is too risky, no move is filtered."""
        prob, lives = jax.vmap(lambda seen: playable_probs(self.rules, seen))(obs)
        threshold = jnp.where(lives == 1, self.min_prob_last_life, self.min_prob)[:, None]
        hand = self.rules.hand_size
        risky = jnp.zeros(legal.shape, bool).at[:, hand : 2 * hand].set(prob < threshold)
        any_safe = jnp.any(legal & ~risky, axis=-1, keepdims=True)

        def filtered(logits: jax.Array) -> jax.Array:
            safe = legal & ~risky
            # if the policy excludes every safe move, all safe moves are equally likely
            none = jnp.all(jnp.where(safe, logits, ILLEGAL_LOGIT) <= ILLEGAL_LOGIT / 2, axis=-1)
            other = jnp.where(none[:, None], 0.0, logits)
            return jnp.where(any_safe, jnp.where(safe, other, ILLEGAL_LOGIT), logits)

        return self.step_with_logits_fn(filtered, carry, obs, legal, reset, key)


def playable_probs(rules: Rules, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Probability float32[H] that each own card is playable (0: empty slot), and lives int32[]."""
    seen = decode_observation(rules, obs)
    copies = members(rules, seen.knowledge[0]) * unseen_copies(rules, seen)
    playable = members(rules, card_facts(rules, seen).playable)
    return copies @ playable / jnp.maximum(jnp.sum(copies, axis=-1), 1), seen.lives
