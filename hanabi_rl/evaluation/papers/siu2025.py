"""Published figures of Siu et al. 2025 (arXiv 2503.15516): metrics of the study's agents (Table 3)
and regressions of human ratings on them (Table 5).

Two players, standard game. Scores are points: cards on the fireworks, also after the last life is
lost.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "Siu et al. 2025 (arXiv 2503.15516)"


class MeanSD(NamedTuple):
    """Mean and its `±`: the SD over games for scores, apparently over partners for other
    metrics."""

    mean: float
    deviation: float


class AgentRow(NamedTuple):
    """Row of Table 3."""

    selfplay: MeanSD
    intra: MeanSD | None
    """With other seeds of the same algorithm; None for bots."""
    inter: MeanSD
    """With the other 19 types of agents."""
    context_independence: MeanSD
    coordination: MeanSD
    action_entropy: MeanSD
    response_entropy: MeanSD
    g1: MeanSD
    g2: MeanSD
    g3: MeanSD


def _row(*figures: tuple[float, float] | None) -> AgentRow:
    return AgentRow(*(None if pair is None else MeanSD(*pair) for pair in figures))  # type: ignore[arg-type]


# self-play, intra-XP, inter-XP / CI, IC, AD, ARD / G1, G2, G3
TABLE_3: dict[str, AgentRow] = {
    "AP+Aux": _row(
        *((23.128, 1.743), (22.000, 2.385), (16.125, 6.805)),
        *((0.107, 0.005), (0.442, 0.063), (2.653, 0.099), (4.579, 0.262)),
        *((0.002, 0.002), (0.012, 0.006), (0.097, 0.031)),
    ),
    "HolmesBot": _row(
        *((20.684, 2.667), None, (6.197, 4.056)),
        *((0.118, 0.007), (0.450, 0.029), (2.560, 0.061), (4.271, 0.169)),
        *((0.005, 0.004), (0.002, 0.003), (0.067, 0.027)),
    ),
    "OBL1": _row(
        *((21.268, 2.001), (21.168, 2.297), (12.535, 6.984)),
        *((0.103, 0.005), (0.163, 0.023), (2.760, 0.104), (4.763, 0.376)),
        *((0.001, 0.001), (0.008, 0.007), (0.131, 0.070)),
    ),
    "OBL2": _row(
        *((23.428, 1.606), (23.301, 1.655), (14.822, 7.759)),
        *((0.104, 0.006), (0.271, 0.027), (2.821, 0.050), (4.736, 0.369)),
        *((0.001, 0.001), (0.010, 0.007), (0.119, 0.057)),
    ),
    "OBL4": _row(
        *((24.168, 1.215), (23.927, 1.550), (13.539, 8.216)),
        *((0.103, 0.004), (0.329, 0.033), (2.800, 0.041), (4.727, 0.356)),
        *((0.000, 0.001), (0.010, 0.008), (0.106, 0.051)),
    ),
    "OP+Aux": _row(
        *((23.896, 1.687), (23.002, 2.532), (16.402, 6.949)),
        *((0.105, 0.007), (0.357, 0.040), (2.737, 0.073), (4.688, 0.300)),
        *((0.001, 0.001), (0.012, 0.006), (0.109, 0.047)),
    ),
    "RandomBot": _row(
        *((1.180, 1.231), None, (1.641, 1.561)),
        *((0.101, 0.005), (0.023, 0.011), (2.912, 0.011), (4.109, 0.315)),
        *((0.041, 0.010), (0.001, 0.001), (0.045, 0.009)),
    ),
    "SmartBot": _row(
        *((23.288, 1.795), None, (10.393, 6.409)),
        *((0.105, 0.006), (0.370, 0.047), (2.727, 0.060), (4.636, 0.281)),
        *((0.004, 0.002), (0.008, 0.006), (0.092, 0.034)),
    ),
}
RANDOM = "RandomBot"


class Regression(NamedTuple):
    """Ordinary least-squares line of Table 5. y: a person's rating of a partner; x: the partner's
    mean metric over games among agents."""

    r: float
    slope: float | None
    """Rating points per unit of the metric; None for the parabola of IC, unpublished."""
    p: float | None
    printed: float | None = None
    """Printed slope, where it must be a misprint: see `TABLE_5`."""


class Regressions(NamedTuple):
    """Line of Table 5: fitted to all ratings, and to those without RandomBot."""

    everyone: Regression | None
    without_random: Regression


# The rating is the sum of six 7-point items, 0 to 36 (the text says 35). Without a published
# intercept only differences can be predicted. Three slopes are misprints. slope * SD(x) / r is the
# standard deviation of the rating; with the means of Table 3 (each agent once) it is 7.3 to 8.4 for
# all other slopes, but 77, 0.93 and 0.75 for these. AD-entropy 279 is 27.9 (7.7), ARD-entropy 1.9
# about 19 (9.3), and G1 -25.8 is -253, as in the text (7.4). The text also differs elsewhere, where
# the table is used: intra-XP 1.648, r of IC 0.515 and 0.327, r of ARD 0.466 and 0.322, p of
# inter-XP 0.37.
TABLE_5: dict[str, Regressions] = {
    "selfplay": Regressions(Regression(0.447, 0.46, 0.000), Regression(0.168, 1.049, 0.001)),
    "intra": Regressions(None, Regression(0.234, 1.48, 0.000)),
    "inter": Regressions(Regression(0.370, 0.600, 0.000), Regression(0.047, 0.109, 0.344)),
    "action_entropy": Regressions(
        Regression(-0.086, -6.805, 0.060), Regression(0.301, 27.9, 0.000, printed=279.0)
    ),
    "response_entropy": Regressions(
        Regression(0.46, 19.0, 0.000, printed=1.9), Regression(0.233, 11.505, 0.000)
    ),
    "context_independence": Regressions(
        Regression(-0.028, -47.543, 0.542), Regression(-0.218, -340.670, 0.000)
    ),
    "coordination": Regressions(Regression(0.57, None, None), Regression(0.332, None, None)),
    "g1": Regressions(
        Regression(-0.447, -253.0, 0.000, printed=-25.8), Regression(-0.200, -902.899, 0.000)
    ),
    "g2": Regressions(Regression(0.332, 666.770, 0.000), Regression(0.058, 137.098, 0.242)),
    "g3": Regressions(Regression(0.421, 121.216, 0.000), Regression(0.166, 63.551, 0.001)),
}
SIGNIFICANT = 0.05 / 18
"""Bonferroni threshold of the paper, for 18 tests."""
RATINGS, RATINGS_WITHOUT_RANDOM = 482, 409
"""Number of ratings; unpublished, derived from r and p (AD-entropy: -0.086 and 0.060)."""
RATING_RANGE = (0, 36)
