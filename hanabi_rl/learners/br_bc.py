"""BR-BC (Carroll et al. 2019; AH2AC2 section 5): a best response to the clone, learnt beside it.

Training begins in self-play, and the clone takes more and more of the other seats. Its seats
sample; only the learner's seats are trained on.
"""

from typing import Literal

import jax
import jax.numpy as jnp

from hanabi_rl.learning.rollout import DrawEpisode, Episode

Lineup = Literal["independent", "all-or-none"]


def annealing(timesteps: jax.Array, start: int, end: int) -> jax.Array:
    """The factor a, float32 []: 0 up to `start` environment timesteps, then linear to 1 at
    `end`."""
    return jnp.clip((timesteps - start) / max(end - start, 1), 0.0, 1.0)


def mixed_lineups(
    players: int, start: int, end: int, lineup: Lineup = "independent"
) -> DrawEpisode:
    """Who holds which seat: one random seat is always the learner's, each other one the clone's
    with probability a.

    Two players: with probability a one random seat is the clone's. With `all-or-none` (as AH2AC2's
        code) the other
    seats are all the clone's with probability a, else none is.
    """

    def draw(key: jax.Array, timesteps: jax.Array) -> Episode:
        seat_key, clone_key = jax.random.split(key)
        always = jnp.arange(players) == jax.random.randint(seat_key, (), 0, players)
        draws = jax.random.uniform(clone_key, (players if lineup == "independent" else 1,))
        return Episode(learns=always | (draws >= annealing(timesteps, start, end)))

    return draw
