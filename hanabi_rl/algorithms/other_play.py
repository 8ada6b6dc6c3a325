"""Other-Play (Hu et al. 2020): each seat plays under its own random colour permutation.

Conventions about particular colours then carry no information, and independent runs agree on the
others.
"""

import dataclasses

import jax
import jax.numpy as jnp

from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.symmetry import random_color_permutations
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EpisodeSetup, SampleEpisode, self_play


@dataclasses.dataclass(frozen=True)
class OtherPlayConfig(IPPOConfig):
    """Train under random colour permutations per seat (Other-Play, Hu et al. 2020)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.game, Rules):
            raise ValueError(
                f"--game: expected Hanabi in Other-Play, which permutes colours, got "
                f"{self.game.name}"
            )


def renamed_colors(rules: Rules) -> SampleEpisode:
    """Each seat sees a uniform colour permutation of its own."""

    def draw(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
        del timesteps
        return EpisodeSetup(
            colors=random_color_permutations(key, rules.num_players, rules.num_colors).astype(
                jnp.uint8
            )
        )

    return draw


class OtherPlay(SelfPlayAlgorithm):
    """IPPO with colour permutations; reported without them."""

    config = OtherPlayConfig
    title = "Other-Play"

    def training(self, config: OtherPlayConfig, clone: None) -> TrainingSetup:
        """Every game samples colour permutations, except for equivariant networks, for which
        Other-Play is IPPO."""
        draw = self_play if config.network.equivariant else renamed_colors(config.game)
        ppo = PPO(config, config.network, sample_episode=draw)
        return TrainingSetup(ppo, f"{self.title} from scratch")


ALGORITHM = OtherPlay()
