"""Published figures of AH2AC2, one constant per table, for comparison with ours. The
hyperparameters are in `tests/support/ah2ac2_training.py`, the commands in docs/ah2ac2.md."""

from __future__ import annotations

from typing import NamedTuple


class PaperBehaviour(NamedTuple):
    """Row of AH2AC2's Table 10."""

    information_per_play: float
    communicativeness: float


# Table 10 (metrics of Canaan et al. 2020, arXiv 2004.13710): number of players -> source of the
# games -> figures, on all of the paper's games. HP1 to HP4 are its human proxies. The paper does
# not specify if information excluded by hints counts; on the 221 open games the difference is
# 0.003.
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


class PaperProxy(NamedTuple):
    """Human proxy in AH2AC2's Tables 2 and 3, and its clone."""

    selfplay: float
    """Mean score of 5,000 games."""
    prediction: tuple[float, float, float, float]
    """Of the test games: accuracy per decision, its difference from the clone, nats per timestep,
    their difference from the clone."""
    gain: float
    """Mean score minus the clone's. This and all fields below: published version, by a summary."""
    rates: tuple[float, float]
    """Games of score 0, perfect games."""
    clone_rates: tuple[float, float]
    """The clone's games of score 0 and perfect games."""
    top_10_accuracy: float
    """Fraction of moves among the 10% most likely legal moves."""
    top_20_accuracy: float
    """Fraction of moves among the 20% most likely legal moves."""


PROXIES = {
    2: {
        "HP1": PaperProxy(
            22.55, (0.63, -0.03, 0.53, 0.05), 3.0, (0.0010, 0.2386), (0.1142, 0.1612), 0.82, 0.95
        ),
        "HP2": PaperProxy(
            22.97, (0.63, -0.08, 0.54, 0.07), 4.0, (0.0004, 0.2966), (0.1770, 0.1988), 0.82, 0.95
        ),
    },
    3: {
        "HP3": PaperProxy(
            20.88, (0.43, -0.08, 0.63, 0.08), 15.7, (0.0034, 0.0276), (0.7582, 0.0134), 0.71, 0.87
        ),
        "HP4": PaperProxy(
            21.21, (0.44, -0.07, 0.60, 0.06), 13.9, (0.0020, 0.0388), (0.6602, 0.0180), 0.73, 0.88
        ),
    },
}


class PublishedRow(NamedTuple):
    """Row of AH2AC2's leaderboard: scores of 1,000 games with the human proxies."""

    method: str
    mean: float
    median: float
    cross_entropy: float | None
    """Nats per seat-timestep on the authors' held-out human games; None: not published."""


# AH2AC2 (arXiv 2506.21490), Table 4 under review, Table 5 as published, which adds FCP and the
# language models (100 games). Rows with "all data" are not limited to 1,000 games
LEADERBOARD: dict[int, tuple[PublishedRow, ...]] = {
    2: (
        PublishedRow("OBL (L4)", 21.04, 22, 1.33),
        PublishedRow("BR-BC", 19.41, 20, 10.82),
        PublishedRow("FCP", 14.01, 16, 3.52),
        PublishedRow("Other-Play", 13.91, 19, 7.81),
        PublishedRow("HDR-IPPO", 12.76, 15, 0.96),
        PublishedRow("IPPO", 10.16, 14, 12.60),
        PublishedRow("DeepSeek-R1, H-Group text", 9.91, 0, None),
        PublishedRow("DeepSeek-R1", 5.43, 0, None),
        PublishedRow("BC", 2.12, 0, 0.86),
        PublishedRow("human proxies (all data)", 22.76, 23, 0.54),
        PublishedRow("BR-BC (all data)", 22.59, 23, 5.00),
    ),
    3: (
        PublishedRow("DeepSeek-R1, H-Group text", 14.62, 18, None),
        PublishedRow("HDR-IPPO", 14.03, 16, 0.80),
        PublishedRow("Other-Play", 12.87, 18, 6.40),
        PublishedRow("BR-BC", 11.89, 12, 29.89),
        PublishedRow("FCP", 11.55, 6, 5.97),
        PublishedRow("IPPO", 6.34, 0, 8.60),
        PublishedRow("BC", 3.31, 0, 0.70),
        PublishedRow("human proxies (all data)", 20.86, 21, 0.62),
        PublishedRow("BR-BC (all data)", 18.80, 19, 7.53),
    ),
}


class PredictionRow(NamedTuple):
    """Two columns of AH2AC2's Table 13: nats per seat-timestep, accuracy per decision."""

    loss_per_timestep: float
    accuracy: float


class PaperAblation(NamedTuple):
    """Row of AH2AC2's Tables 12 and 13 for one KL weight (two players): 5,000 self-play games, and
    prediction of validation and test games."""

    perfect: int
    minimum: int
    validation: PredictionRow
    test: PredictionRow


def _ablation(perfect: int, minimum: int, *predicted: float) -> PaperAblation:
    """In printed order: validation loss and accuracy, test loss and accuracy."""
    return PaperAblation(
        perfect, minimum, PredictionRow(*predicted[:2]), PredictionRow(*predicted[2:])
    )


# Tables 12 and 13, by KL weight; Table 12's count of zero scores is illegible for 0.3 and 0.5
ABLATION = {
    0.0: _ablation(143, 13, 7.368, 0.330, 7.385, 0.327),
    0.01: _ablation(247, 14, 1.354, 0.435, 1.369, 0.433),
    0.08: _ablation(1351, 14, 0.716, 0.574, 0.725, 0.571),
    0.13: _ablation(1599, 13, 0.618, 0.607, 0.628, 0.605),
    0.2: _ablation(1821, 15, 0.540, 0.636, 0.548, 0.634),
    0.3: _ablation(1564, 0, 0.488, 0.659, 0.495, 0.656),
    0.5: _ablation(1280, 0, 0.475, 0.665, 0.481, 0.663),
    0.7: _ablation(1166, 0, 0.464, 0.671, 0.469, 0.668),
}
ABLATION_CLONE = PredictionRow(0.466, 0.676), PredictionRow(0.468, 0.674)
"""Table 13's first row: validation and test games. Its self-play score is 19.53 (A.7)."""
