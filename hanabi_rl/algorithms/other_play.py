"""Other-Play (Hu et al. 2020): every agent learns with partners for whom the colours have other
names.

Arbitrary conventions about particular colours then carry no information, and independent runs agree
on the rest.
"""

import jax
import jax.numpy as jnp

from hanabi_rl.env.game import Rules
from hanabi_rl.env.symmetry import random_color_permutations
from hanabi_rl.learning.rollout import DrawEpisode, Episode


def renamed_colors(rules: Rules) -> DrawEpisode:
    """Each seat sees the game through a uniform permutation of the colours of its own."""

    def draw(key: jax.Array, timesteps: jax.Array) -> Episode:
        del timesteps
        return Episode(
            colors=random_color_permutations(key, rules.num_players, rules.num_colors).astype(
                jnp.uint8
            )
        )

    return draw
