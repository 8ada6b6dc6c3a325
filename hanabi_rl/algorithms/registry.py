"""Every algorithm by name; its module is imported when it is first asked for, so that a run imports
no other algorithm."""

import importlib
from typing import Any

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.runs.config import RunConfig

NAMES = (
    "bc",
    "hdr_ippo",
    "ippo",
    "other_play",
    "br_bc",
    "best_response",
    "behaviour_preferring",
    "e3t",
    "obl",
)
"""Each a module of this folder with an `ALGORITHM`."""


class _Algorithms(dict[str, Algorithm]):
    def __missing__(self, name: str) -> Algorithm:
        if name not in NAMES:
            raise ValueError(f"expected an algorithm, one of {', '.join(NAMES)}; got {name!r}")
        self[name] = importlib.import_module(f"hanabi_rl.algorithms.{name}").ALGORITHM
        return self[name]


ALGORITHMS = _Algorithms()
"""name -> algorithm. Raises ValueError for a name that is none, naming those there are."""


def run(algorithm: str, config: RunConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated. Raises ValueError for an unknown algorithm, and as the run does."""
    return ALGORITHMS[algorithm].run(config)
