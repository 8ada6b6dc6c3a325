"""How much an agent searches: what `?search=` and the options after it take."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from hanabi_rl.storage.validation import InvalidValueError, Range, validate_fields

RENAMED_SETTINGS = {
    "hands": "num_hands",
    "rollouts": "num_rollouts",
    "moves": "max_moves",
    "least": "min_prob",
    "window": "history_window",
    "effective": "min_ess_fraction",
    "doubt": "gain_std_errors",
}
"""Names at first -> names now. The identity of a search hashes the first ones, so that renaming a
setting changes no identity."""


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Every number of a search; the defaults are the preset `fast`."""

    num_hands: Annotated[int, Range(2, 65536)] = 128
    """Own hands sampled from the grounded belief, rounded up to a multiple of `num_rollouts`."""
    num_rollouts: Annotated[int, Range(2, 65536)] = 128
    """Games played to their ends per decision, divided among the moves tried (SPARTA's N)."""
    max_moves: Annotated[int, Range(2, 64)] = 6
    """How many moves are tried at most, the policy's likeliest; all where the game has fewer."""
    min_prob: Annotated[float, Range(0.0, 1.0)] = 0.01
    """Moves to which the policy gives a smaller probability are not tried."""
    history_window: Annotated[int, Range(1, 256)] = 8
    """How many of the others' last moves the hands are weighted by."""
    epsilon: Annotated[float, Range(0.0, 1.0)] = 0.05
    """The probability that a partner made any legal move, whatever the model says."""
    min_ess_fraction: Annotated[float, Range(0.0, 1.0)] = 0.02
    """Minimum effective sample size, as a fraction of `num_hands`: below it the policy plays as it
    is."""
    lam: Annotated[float, Range(0.0, 1000.0, exclusive_low=True)] = 0.1
    """lambda: the points that are worth one nat of KL divergence from the policy."""
    gain_std_errors: Annotated[float, Range(0.0, 100.0)] = 1.0
    """A gain is taken to be this many standard errors less than was measured."""

    def __post_init__(self) -> None:
        validate_fields(self)
        if self.num_rollouts < self.max_moves:
            raise ValueError(
                f"num_rollouts: expected at least one for each of {self.max_moves} moves, got "
                f"{self.num_rollouts}"
            )

    @property
    def num_blocks(self) -> int:
        """How often the model is queried for `num_rollouts` hands at a time."""
        return -(-self.num_hands // self.num_rollouts)

    @property
    def num_sampled(self) -> int:
        """K, the hands sampled."""
        return self.num_blocks * self.num_rollouts


PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(),
    "strong": SearchConfig(num_hands=1024, num_rollouts=512, max_moves=8, history_window=16),
}


def option_types() -> dict[str, type]:
    """The settings by the names that they have in an agent's name -> their types."""
    types = typing.get_type_hints(SearchConfig)
    return {NAMES.get(field.name, field.name): types[field.name] for field in _FIELDS}


def search_config(preset: str, settings: Mapping[str, Any]) -> SearchConfig:
    """A preset with some of its `settings` replaced, by their names in an agent's name.

    Raises:
        ValueError: no such preset, or a setting out of its range.
    """
    if preset not in PRESETS:
        raise ValueError(f"expected one of {', '.join(PRESETS)}, got {preset!r}")
    fields = {name: field for field, name in NAMES.items()}
    chosen = {fields.get(name, name): value for name, value in settings.items()}
    try:
        return dataclasses.replace(PRESETS[preset], **chosen)
    except InvalidValueError as error:
        raise ValueError(f"{NAMES.get(error.place, error.place)}: {error.problem}") from error


NAMES = {"lam": "lambda"}
"""Settings that Python has no field for."""
_FIELDS = dataclasses.fields(SearchConfig)
