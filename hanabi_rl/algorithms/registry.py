"""Algorithms by name; a module is imported on first access, so a run imports no other algorithm."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from hanabi_rl.agents.loading import PYTHON
from hanabi_rl.agents.python_agent import find_class
from hanabi_rl.agents.python_bot import user_code
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.compilation_cache import free_compiled_programs
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.words import did_you_mean

ENTRY_POINTS = "hanabi_rl.algorithms"
"""Group of entry points by which packages offer classes of algorithms: `python:NAME`."""


class _Algorithms(Mapping[str, Algorithm]):
    """Mapping whose names are known before any algorithm is imported."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Algorithm:
        if name not in self.names:
            raise ValueError(
                f"expected an algorithm, one of {', '.join(self)}, {OWN_ALGORITHM}; got {name!r}"
                f"{did_you_mean(name, self)}"
            )
        found: Algorithm = importlib.import_module(f"{__package__}.{name}").ALGORITHM
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


OWN_ALGORITHM = f"{PYTHON}:FILE.py:CLASS"
"""Form of the name of a user's algorithm."""
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
"""Algorithms of the package by name: the `ALGORITHM` of the module of that name. A new algorithm is
its module, one line here and in mkdocs.yml, configs/NAME/quick.toml and train/NAME.py. Raises
ValueError for an unknown name."""


def _own_algorithm(name: str) -> Algorithm:
    """Instance of a class of the user's. Raises ValueError as `find_class`, and for another class
    or config."""
    cls = find_class(name, ENTRY_POINTS)
    if not issubclass(cls, Algorithm):
        raise ValueError(f"{name}: expected a hanabi_rl.Algorithm, got class {cls.__name__}")
    config = getattr(cls, "config", None)
    if not (isinstance(config, type) and issubclass(config, RunConfig)):
        raise ValueError(
            f"{name}: config: expected a class of configs, such as hanabi_rl.IPPOConfig, got "
            f"{config!r}"
        )
    if "__dataclass_params__" not in vars(config):
        raise ValueError(f"{config.__name__}: expected @dataclasses.dataclass(frozen=True)")
    with user_code(name):
        made = cls()
    return find_algorithm(made)


def find_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """The algorithm of a name, also `python:FILE.py:CLASS`; an instance is checked and returned.
    Raises ValueError as `ALGORITHMS` and `find_class`, and for an own algorithm with the name of
    another."""
    if isinstance(algorithm, str):
        own = algorithm.startswith(f"{PYTHON}:")
        return _own_algorithm(algorithm) if own else ALGORITHMS[algorithm]
    package = type(algorithm).__module__.rpartition(".")[0]
    if package != __package__ and algorithm.name in [*ALGORITHMS]:
        raise ValueError(
            f"{type(algorithm).__name__}: expected a name of its own, got {algorithm.name!r}, an "
            "algorithm of the package: rename the class, or set its attribute name"
        )
    return algorithm


def stored_config(algorithm: str, stored: dict[str, Any]) -> RunConfig:
    """Config from `to_dict`. Raises ValueError for an unknown algorithm."""
    return from_dict(find_algorithm(algorithm).config, stored)


def run(algorithm: str | Algorithm, config: RunConfig) -> dict[str, Any]:
    """Train and report, or only report a finished run; return the contents of `summary.json`.

    Raises ValueError as `find_algorithm`, and as the run does.
    """
    free_compiled_programs()  # of earlier runs
    return find_algorithm(algorithm).run(config)
