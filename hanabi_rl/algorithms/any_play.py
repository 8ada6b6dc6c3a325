"""Any-Play (Lucas and Allen 2022): one player of a game has a style, which the others predict; the
agent is the player without a style.

The paper adds this to SAD; here it is added to PPO (`learning/any_play.py`).
"""

import dataclasses
from typing import Annotated

from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.learning.any_play import AnyPlayPPO, prediction_objective
from hanabi_rl.storage.validation import NonNegative, Range


@dataclasses.dataclass(frozen=True)
class AnyPlayConfig(IPPOConfig):
    """Train with partners of many styles (Any-Play)."""

    styles: Annotated[int, Range(2, 1024)] = 64
    """Number of styles. Defaults of this and the weights: the paper's code."""
    alpha: NonNegative = 0.2
    """Weight of the intrinsic reward in the training reward, points per nat and timestep."""
    prediction_weight: NonNegative = 0.2
    """Weight of the loss of the predicted style, an auxiliary task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        roles = self.styles * self.game.num_players
        if self.num_envs < roles:
            raise ValueError(
                f"num_envs: expected at least {roles} (styles * num_players), so that every seat "
                f"has every style, got {self.num_envs}"
            )


class AnyPlay(SelfPlayAlgorithm):
    """Agent that plays with a partner of any style."""

    config = AnyPlayConfig
    title = "Any-Play"

    def training(self, config: AnyPlayConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        ppo = AnyPlayPPO(
            config,
            config.network,
            objective=prediction_objective(config.prediction_weight, config.game.num_players),
            alpha=config.alpha,
            styles=config.styles,
        )
        stage = f"{self.title}: {config.styles} styles from scratch"
        return TrainingSetup(ppo, stage, progress_metric="diversity_bonus")


ALGORITHM = AnyPlay()
