"""Every algorithm by name."""

from typing import Any

from hanabi_rl.algorithms import bc, br_bc, hdr_ippo, ippo, other_play
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.runs.config import RunConfig

ALGORITHMS = {
    module.ALGORITHM.name: module.ALGORITHM for module in (bc, hdr_ippo, ippo, other_play, br_bc)
}


def find(name: str) -> Algorithm:
    """The algorithm of that name. Raises ValueError naming those there are."""
    if name not in ALGORITHMS:
        raise ValueError(f"expected an algorithm, one of {', '.join(ALGORITHMS)}; got {name!r}")
    return ALGORITHMS[name]


def run(algorithm: str, config: RunConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated. Raises ValueError for an unknown algorithm, and as the run does."""
    return find(algorithm).run(config)
