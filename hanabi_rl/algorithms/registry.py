"""Every algorithm by name; its module is imported when it is first asked for, so that a run imports
no other algorithm."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.runs.config import RunConfig


class _Algorithms(Mapping[str, Algorithm]):
    """Their names are known before any of them is imported."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Algorithm:
        if name not in self.names:
            raise ValueError(f"expected an algorithm, one of {', '.join(self)}; got {name!r}")
        found: Algorithm = importlib.import_module(f"{__package__}.{name}").ALGORITHM
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


ALGORITHMS = _Algorithms(
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
"""Every algorithm, the `ALGORITHM` of the module of this folder that has its name; a new one is its
module and a line here. Raises ValueError for a name that is none, naming those there are."""


def run(algorithm: str, config: RunConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not
    repeated. Raises ValueError for an unknown algorithm, and as the run does."""
    return ALGORITHMS[algorithm].run(config)
