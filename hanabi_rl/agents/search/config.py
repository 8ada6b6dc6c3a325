"""Search settings: presets of `?search=` and the options after it."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from hanabi_rl.storage.validation import InvalidValueError, Range, validate_fields


@dataclasses.dataclass(frozen=True)
class SearchConfig:
    """Settings of a search; the defaults are the preset `fast`."""

    num_hands: Annotated[int, Range(2, 65536)] = 128
    """Number of sampled own hands, rounded up to a multiple of `num_rollouts`."""
    num_rollouts: Annotated[int, Range(2, 65536)] = 128
    """Games played to the end per decision, divided among the candidate moves (SPARTA's N)."""
    max_moves: Annotated[int, Range(2, 64)] = 6
    """Maximum number of candidate moves, the policy's most likely."""
    min_prob: Annotated[float, Range(0.0, 1.0)] = 0.01
    """Minimum policy probability of a candidate move."""
    history_window: Annotated[int, Range(1, 256)] = 8
    """Number of the others' last moves that weight the hands."""
    epsilon: Annotated[float, Range(0.0, 1.0)] = 0.05
    """Probability that a partner made a uniformly random legal move instead of the model's."""
    min_ess_fraction: Annotated[float, Range(0.0, 1.0)] = 0.02
    """Minimum effective sample size / `num_hands`; below it the policy acts without search."""
    lam: Annotated[float, Range(0.0, 1000.0, exclusive_low=True)] = 0.1
    """lambda: points that offset one nat of KL divergence from the policy."""
    gain_std_errors: Annotated[float, Range(0.0, 100.0)] = 1.0
    """Standard errors subtracted from each measured gain."""

    def __post_init__(self) -> None:
        validate_fields(self)
        if self.num_rollouts < self.max_moves:
            raise ValueError(
                f"num_rollouts: expected at least max_moves, {self.max_moves}, got "
                f"{self.num_rollouts}"
            )

    @property
    def num_blocks(self) -> int:
        """Number of batches of `num_rollouts` hands per model query."""
        return -(-self.num_hands // self.num_rollouts)

    @property
    def num_sampled(self) -> int:
        """K, number of sampled hands."""
        return self.num_blocks * self.num_rollouts


PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(),
    "strong": SearchConfig(num_hands=1024, num_rollouts=512, max_moves=8, history_window=16),
}


def option_types() -> dict[str, type]:
    """Settings by their names in an agent's name -> their types."""
    types = typing.get_type_hints(SearchConfig)
    return {NAMES.get(field.name, field.name): types[field.name] for field in _FIELDS}


def search_config(preset: str, settings: Mapping[str, Any]) -> SearchConfig:
    """A preset with `settings`, by their names in an agent's name, replaced.

    Raises ValueError for an unknown preset or a setting out of range.
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
"""Settings with a Python keyword as name."""
_FIELDS = dataclasses.fields(SearchConfig)
