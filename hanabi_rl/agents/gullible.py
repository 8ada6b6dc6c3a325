"""Wrapper that plays hinted cards: how it reads hints no longer follows from how it gives them."""

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.rule_family import believed
from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import PyTree
from hanabi_rl.agents.wrapper import Wrapper
from hanabi_rl.games.hanabi.bits import first_true
from hanabi_rl.games.hanabi.cards import next_cards
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation
from hanabi_rl.nn.networks import ILLEGAL_LOGIT

IF_PLAYABLE, ALWAYS = 1, 2
"""Hinted cards to play: those that can be playable, or all (as `plays_hinted` of `bot:rules`)."""


class Gullible(Wrapper):
    """`policy` that plays its oldest eligible hinted card, also on the last life."""

    plays: int | jax.Array = ALWAYS

    def identity(self) -> str:
        """See `Policy.identity`."""
        of = self.policy.identity()
        return agent_hash({"wrapper": "gullible", "of": of, "plays": int(self.plays)})

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
        slot = jax.vmap(lambda seen: hinted_card(self.rules, seen, self.plays))(obs)
        hand = self.rules.hand_size
        play = jnp.zeros(legal.shape, bool).at[:, hand : 2 * hand].set(slot) & legal
        plays = jnp.any(play, axis=-1, keepdims=True)
        return carry, jnp.where(plays & ~play, ILLEGAL_LOGIT, jnp.where(play, 0.0, logits))


def hinted_card(rules: Rules, obs: jax.Array, plays: jax.Array | int) -> jax.Array:
    """Mask bool[H] of the oldest eligible hinted card, given an observation float32[O]."""
    seen = decode_observation(rules, obs)
    playable = next_cards(rules, seen.played)
    return first_true(believed(seen, seen.knowledge[0], playable, plays))
