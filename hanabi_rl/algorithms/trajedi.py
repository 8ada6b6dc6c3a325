"""Trajectory diversity (TrajeDi, Lupu et al. 2021), first stage: self-play with a bonus for games
that the other members would play differently.

The paper trains one best response together with the members; here, as in ZSC-Eval (Wang et al.
2024), it is a second stage, `best_response`.
"""

import dataclasses

from hanabi_rl.algorithms.population import Population, PopulationConfig
from hanabi_rl.learning.population import DiversityBonus, TrajeDiBonus
from hanabi_rl.storage.validation import NonNegative, UnitInterval


@dataclasses.dataclass(frozen=True)
class TrajeDiConfig(PopulationConfig):
    """Train a population of partners with diverse trajectories (TrajeDi)."""

    alpha: NonNegative = 0.1
    """Weight of the Jensen-Shannon divergence of the members' games in the training reward."""
    trajectory_discount: UnitInterval = 0.5
    """Discount of a move in the divergence per timestep of distance. 0: divergence of single moves;
    1: of whole games."""


class TrajeDi(Population):
    """Bonus: discounted Jensen-Shannon divergence of the members' games."""

    config = TrajeDiConfig
    title = "TrajeDi"

    def bonus(self, config: TrajeDiConfig) -> DiversityBonus:
        """See `Population`."""
        return TrajeDiBonus(config.trajectory_discount)


ALGORITHM = TrajeDi()
