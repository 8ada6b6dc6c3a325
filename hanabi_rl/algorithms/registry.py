"""Algorithms by name; a module is imported on first access, so a run imports no other algorithm."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.compilation_cache import free_compiled_programs
from hanabi_rl.storage.words import did_you_mean


class _Algorithms(Mapping[str, Algorithm]):
    """Mapping whose names are known before any algorithm is imported."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Algorithm:
        if name not in self.names:
            raise ValueError(
                f"expected an algorithm, one of {', '.join(self)}; got {name!r}"
                f"{did_you_mean(name, self)}"
            )
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
    "mappo",
    "iql",
    "vdn",
    "sad",
    "other_play",
    "br_bc",
    "best_response",
    "behaviour_preferring",
    "e3t",
    "mep",
    "trajedi",
    "cole",
    "any_play",
    "obl",
)
"""All algorithms by name: the `ALGORITHM` of the module of that name in this package. A new
algorithm is its module, one line here and in mkdocs.yml, configs/NAME/quick.toml and train/NAME.py.
Raises ValueError for an unknown name."""


def run(algorithm: str, config: RunConfig) -> dict[str, Any]:
    """Train and report, or only report a finished run; return the contents of `summary.json`.

    Raises ValueError for an unknown algorithm, and as the run does.
    """
    free_compiled_programs()  # of earlier runs
    return ALGORITHMS[algorithm].run(config)
