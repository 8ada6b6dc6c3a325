"""Maximum Entropy Population (MEP, Zhao et al. 2023), first stage: self-play with a bonus for the
entropy of the members' mean policy.

Members are updated together, not in turn as in the paper. The second stage is `best_response` with
`--priority-exponent`.
"""

import dataclasses
from typing import Any

from hanabi_rl.algorithms.population import Population, PopulationConfig
from hanabi_rl.learning.population import DiversityBonus, mep_bonus


@dataclasses.dataclass(frozen=True)
class MEPConfig(PopulationConfig):
    """Train a Maximum Entropy Population of partners (MEP)."""


class MEP(Population):
    """Bonus: minus the log-probability of each move under the mean policy."""

    config = MEPConfig
    title = "MEP"

    def bonus(self, config: Any) -> DiversityBonus:
        """See `Population`."""
        del config
        return mep_bonus


ALGORITHM = MEP()
