"""Published figures that ours are shown beside."""

from __future__ import annotations

from typing import NamedTuple


class PublishedRow(NamedTuple):
    """One line of AH2AC2's leaderboard: scores of 1,000 games with the human proxies."""

    method: str
    mean: float
    median: float
    cross_entropy: float
    """Nats per seat and timestep on the authors' held-out human games."""


# AH2AC2 (arXiv 2506.21490), Table 4; the last two rows of each are not limited to 1,000 games of data.
LEADERBOARD: dict[int, tuple[PublishedRow, ...]] = {
    2: (
        PublishedRow("OBL (L4)", 21.04, 22, 1.33),
        PublishedRow("BR-BC", 19.41, 20, 10.82),
        PublishedRow("Other-Play", 13.91, 19, 7.81),
        PublishedRow("HDR-IPPO", 12.76, 15, 0.96),
        PublishedRow("IPPO", 10.16, 14, 12.60),
        PublishedRow("BC", 2.12, 0, 0.86),
        PublishedRow("human proxies (all data)", 22.76, 23, 0.54),
        PublishedRow("BR-BC (all data)", 22.59, 23, 5.00),
    ),
    3: (
        PublishedRow("HDR-IPPO", 14.03, 16, 0.80),
        PublishedRow("Other-Play", 12.87, 18, 6.40),
        PublishedRow("BR-BC", 11.89, 12, 29.89),
        PublishedRow("IPPO", 6.34, 0, 8.60),
        PublishedRow("BC", 3.31, 0, 0.70),
        PublishedRow("human proxies (all data)", 20.86, 21, 0.62),
        PublishedRow("BR-BC (all data)", 18.80, 19, 7.53),
    ),
}
