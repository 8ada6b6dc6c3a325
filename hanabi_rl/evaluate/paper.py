"""Figures published in the AH2AC2 paper, to print beside ours: one constant a table."""

from __future__ import annotations

from typing import NamedTuple


class PaperBehaviour(NamedTuple):
    """One row of AH2AC2's Table 10."""

    information_per_play: float
    communicativeness: float


# Table 10 (metrics of Canaan et al.): players -> who -> figures, on all of the paper's games. HP1 to HP4 are its human
# proxies. Its exact definitions are not public, so ours need not be the same.
BEHAVIOUR = {
    2: {
        "human games": PaperBehaviour(0.44, 0.47),
        "HP1": PaperBehaviour(0.43, 0.45),
        "HP2": PaperBehaviour(0.44, 0.48),
    },
    3: {
        "human games": PaperBehaviour(0.42, 0.49),
        "HP3": PaperBehaviour(0.44, 0.47),
        "HP4": PaperBehaviour(0.44, 0.46),
    },
}
