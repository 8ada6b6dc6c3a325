"""`bot:random`: uniform among the legal actions."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.games.prng import categorical
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class RandomBot(Bot):
    """Plays uniformly random legal actions, also in greedy play, where it needs a key. Without a
    key its logits are the uniform distribution."""

    name: ClassVar[str] = "random"
    version: ClassVar[str] = "2"
    game: ClassVar[str | None] = None
    is_stochastic: ClassVar[bool] = True

    def init_carry(self, batch: int) -> tuple[()]:
        """See `Policy.init_carry`; empty."""
        del batch
        return ()

    def step(
        self,
        carry: tuple[()],
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[tuple[()], jax.Array]:
        """See `Policy.step`; a uniform distribution, or with a key the sampled action."""
        del obs, reset
        uniform = jnp.where(
            legal, -jnp.log(jnp.sum(legal, axis=-1, keepdims=True)), ILLEGAL_LOGIT
        ).astype(jnp.float32)
        if key is None:
            return carry, uniform
        drawn = categorical(key, uniform)
        return carry, jnp.where(jnp.arange(legal.shape[-1]) == drawn[:, None], 0.0, ILLEGAL_LOGIT)
