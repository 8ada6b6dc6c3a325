"""OBL, level 1: off-belief learning from nothing (Hu et al. 2021): the best play that reads nothing
into why a move was made, so that independent runs play alike and with anybody who plays by the
facts."""

import dataclasses
from typing import Literal

from hanabi_rl.algorithms.ippo import FromScratch, IPPOConfig
from hanabi_rl.algorithms.loop import Training
from hanabi_rl.learning.off_belief import OffBeliefPPO, check_network
from hanabi_rl.nn.kinds import NetworkField
from hanabi_rl.nn.structured import StructuredConfig
from hanabi_rl.storage.ranges import Share


@dataclasses.dataclass(frozen=True)
class OBLConfig(IPPOConfig):
    """train/obl.py"""

    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: falls to 0 over the run, constant within an update."""
    gamma: Share = 0.999
    network: NetworkField = dataclasses.field(default_factory=StructuredConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_network(self.network)
        refused = {
            "--privileged-critic": self.privileged_critic,
            "--start-states": self.start_states,
            "--teaming-weight": self.teaming_weight,
            "--g1-weight, --g2-weight, --g3-weight": bool(
                self.g1_weight or self.g2_weight or self.g3_weight
            ),
        }
        for name, given in refused.items():
            if given:
                raise ValueError(
                    f"{name}: expected none in off-belief learning, whose returns are of "
                    f"fictitious games; got {given}"
                )


class OBL(FromScratch):
    """Every seat is the learner's; the returns are fictitious."""

    config = OBLConfig
    title = "OBL"

    def training(self, config: OBLConfig, clone: None) -> Training:
        """See `PPOAlgorithm`."""
        return Training(OffBeliefPPO(config, config.network), "Off-belief learning, level 1")


ALGORITHM = OBL()
