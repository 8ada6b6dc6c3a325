"""How much an agent searches: what `?search=` and the options after it take."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from hanabi_rl.storage.validation import InvalidValueError, Range, validate_fields


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Every number of a search; the defaults are the preset `fast`."""

    hands: Annotated[int, Range(2, 65536)] = 128
    """Own hands drawn from the grounded belief, rounded up to whole times `rollouts`."""
    rollouts: Annotated[int, Range(2, 65536)] = 128
    """Games played to their ends a decision, shared by the moves tried (SPARTA's N)."""
    moves: Annotated[int, Range(2, 64)] = 6
    """The most moves tried, the policy's likeliest; all where the game has fewer."""
    least: Annotated[float, Range(0.0, 1.0)] = 0.01
    """Moves to which the policy gives a smaller chance are not tried."""
    window: Annotated[int, Range(1, 256)] = 8
    """How many of the others' last moves the hands are weighted by."""
    epsilon: Annotated[float, Range(0.0, 1.0)] = 0.05
    """The chance that a partner made any legal move, whatever the model says."""
    effective: Annotated[float, Range(0.0, 1.0)] = 0.02
    """The least effective sample, as a share of `hands`: below it the policy plays as it is."""
    lam: Annotated[float, Range(0.0, 1000.0, exclusive_low=True)] = 0.1
    """lambda: the points that are worth one nat of likeness to the policy."""
    doubt: Annotated[float, Range(0.0, 100.0)] = 1.0
    """A gain is taken to be this many standard errors less than was measured."""

    def __post_init__(self) -> None:
        validate_fields(self)
        if self.rollouts < self.moves:
            raise ValueError(
                f"rollouts: expected at least one for each of {self.moves} moves, got "
                f"{self.rollouts}"
            )

    @property
    def blocks(self) -> int:
        """How often the model is asked about `rollouts` hands at a time."""
        return -(-self.hands // self.rollouts)

    @property
    def drawn(self) -> int:
        """K, the hands drawn."""
        return self.blocks * self.rollouts


PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(),
    "strong": SearchConfig(hands=1024, rollouts=512, moves=8, window=16),
}


def option_types() -> dict[str, type]:
    """The settings by the names that they have in an agent's name -> their types."""
    types = typing.get_type_hints(SearchConfig)
    return {NAMES.get(field.name, field.name): types[field.name] for field in _FIELDS}


def settings_of(preset: str, given: Mapping[str, Any]) -> SearchConfig:
    """A preset with some of its settings given, by their names in an agent's name.

    Raises:
        ValueError: no such preset, or a setting out of its range.
    """
    if preset not in PRESETS:
        raise ValueError(f"expected one of {', '.join(PRESETS)}, got {preset!r}")
    fields = {name: field for field, name in NAMES.items()}
    chosen = {fields.get(name, name): value for name, value in given.items()}
    try:
        return dataclasses.replace(PRESETS[preset], **chosen)
    except InvalidValueError as error:
        raise ValueError(f"{NAMES.get(error.place, error.place)}: {error.problem}") from error


NAMES = {"lam": "lambda"}
"""Settings that Python has no field for."""
_FIELDS = dataclasses.fields(SearchConfig)
