"""The bots that come with the package, by name: `bot:random` and `bot:convention`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.convention import ILLEGAL, ConventionBot
from hanabi_rl.agents.policy import Policy
from hanabi_rl.env.game import Rules


@flax.struct.dataclass
class RandomBot:
    """Plays uniformly among the legal actions; its carry is a PRNG key for each row, ``uint32[B,
    2]``.

    The choice is drawn here, so that greedy play is random too. A game's key comes from `seed` and
    the game's first observation: the same game is played the same way again, in any batch.
    """

    rules: Rules = flax.struct.field(pytree_node=False)
    seed: int = flax.struct.field(pytree_node=False, default=0)

    def init_carry(self, batch: int) -> jax.Array:
        """See `Policy.init_carry`."""
        return jnp.zeros((batch, 2), jnp.uint32)

    def step(
        self, carry: jax.Array, obs: jax.Array, legal: jax.Array, reset: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """See `Policy.step`: logit 0 for the action drawn, -30 for the other legal ones."""
        factors = jnp.array(
            np.random.default_rng(self.seed).integers(
                2**32, size=self.rules.obs_size, dtype=np.uint32
            )
        )

        def draw(
            key: jax.Array, seen: jax.Array, allowed: jax.Array, new: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            digest = jnp.sum(jnp.where(seen > 0, factors, 0), dtype=jnp.uint32)
            key = jnp.where(new, jnp.stack([digest, jnp.uint32(self.seed)]), key)
            next_key, draw_key = jax.random.split(
                jax.random.wrap_key_data(key, impl="threefry2x32")
            )
            order = jax.random.uniform(draw_key, allowed.shape)
            return jax.random.key_data(next_key), jnp.argmax(jnp.where(allowed, order, -1.0))

        carry, action = jax.vmap(draw)(carry, obs, legal, reset)
        logits = jnp.where(jnp.arange(self.rules.num_moves) == action[:, None], 0.0, -30.0)
        return carry, jnp.where(legal, logits, ILLEGAL)


class Bot(NamedTuple):
    """A bot that `make_bot` can make."""

    version: str
    """Changes whenever its play does: caches of its games and results are keyed by it."""
    make: Callable[[Rules], Policy]


BOTS = {
    "random": Bot(version="1", make=RandomBot),
    "convention": Bot(version="2", make=ConventionBot),
}


def make_bot(name: str, rules: Rules) -> Policy:
    """The bot ``random`` or ``convention`` (with or without the prefix ``bot:``) for a game.

    Raises:
        ValueError: no bot of that name.
    """
    return _find(name).make(rules)


def bot_version(name: str) -> str:
    """``NAME-vVERSION``, which changes whenever the bot's play does; raises ValueError as
    `make_bot`."""
    return f"{name.removeprefix('bot:')}-v{_find(name).version}"


def _find(name: str) -> Bot:
    bot = BOTS.get(name.removeprefix("bot:"))
    if bot is None:
        raise ValueError(
            f"the name of a bot must be one of {', '.join(f'bot:{known}' for known in BOTS)}, got "
            f"{name!r}"
        )
    return bot
