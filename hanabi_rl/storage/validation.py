"""Valid values of config fields and command arguments.

A range is part of the declaration, `lr: Annotated[float, Range(...)]`. Numbers without one must be
finite, whole numbers also within 32 bits. All values are checked, types included, before anything
is computed or written; configs may be made in Python too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Hashable
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

INT32_MAX = 2**31 - 1
"""Largest signed 32-bit integer."""
MAX_EXACT_INT = 2**53
"""Up to here every whole number is a float."""
_MAX_SEEDS = 10_000
"""Maximum seeds of a range."""


class InvalidValueError(ValueError):
    """A value that its field or flag cannot hold: `place` (dots for nesting) and `problem`."""

    def __init__(self, place: str, problem: str, where: str | None = None) -> None:
        self.place, self.problem = place, problem
        flag = f"--{place.replace('_', '-')}" if where is None else f"{where}.{place}"
        super().__init__(f"{flag}: {problem}")


@dataclasses.dataclass(frozen=True)
class Range:
    """Valid range from `low` to `high`, both included by default."""

    low: float = -math.inf
    high: float = math.inf
    exclusive_low: bool = False
    """Exclude `low`."""
    exclusive_high: bool = False
    """Exclude `high`."""

    def contains(self, value: float) -> bool:
        """True if a finite `value` is in the range."""
        lowest = self.low < value if self.exclusive_low else self.low <= value
        return lowest and (value < self.high if self.exclusive_high else value <= self.high)

    def __str__(self) -> str:
        if not (self.exclusive_low or self.exclusive_high or math.inf in (-self.low, self.high)):
            return f"from {plain_number(self.low)} to {plain_number(self.high)}"
        bounds = []
        if self.low > -math.inf:
            bounds.append(
                f"{'above' if self.exclusive_low else 'at least'} {plain_number(self.low)}"
            )
        if self.high < math.inf:
            bounds.append(
                f"{'below' if self.exclusive_high else 'at most'} {plain_number(self.high)}"
            )
        return " and ".join(bounds)


Seed = Annotated[int, Range(0, 2**32 - 1)]
"""Seed of random numbers; JAX uses only the lowest 32 bits of a number."""
BoundedCount = Annotated[int, Range(1, 10_000_000)]
"""Number of games, decks or runs; ten million games fit into memory."""
PositiveInt = Annotated[int, Range(1, INT32_MAX)]
UnitInterval = Annotated[float, Range(0.0, 1.0)]
NonNegative = Annotated[float, Range(0.0, 1e6)]
"""Weight of a term of a loss or a return."""
LearningRate = Annotated[float, Range(0.0, 10.0)]
Seconds = Annotated[float, Range(0.0, 1e6)]
Port = Annotated[int, Range(0, 65535)]

_DEFAULT = {int: Range(-INT32_MAX - 1, INT32_MAX), float: Range()}


def seed_range(low: str, high: str, where: str) -> range:
    """Seeds `low` to `high`, both included. Raises ValueError, beginning with `where`, for
    descending order or more than 10,000 seeds."""
    first, last = int(low), int(high)
    if first > last:
        raise ValueError(f"{where}: expected seeds in ascending order")
    if last - first >= _MAX_SEEDS:
        raise ValueError(f"{where}: expected at most {_MAX_SEEDS:,} seeds")
    return range(first, last + 1)


def validate_fields(config: Any) -> None:
    """Raise InvalidValueError for the first invalid value in a dataclass, nested ones included."""
    _check_fields(config, "")


def _check_fields(config: Any, prefix: str) -> None:
    cls: Any = type(config)
    hints = _hints(cls)
    for field in dataclasses.fields(config):
        value, hint, place = getattr(config, field.name), hints[field.name], prefix + field.name
        if not _has_type(value, hint):
            raise InvalidValueError(place, f"expected {_type_text(hint)}, got {value!r}")
        _check(value, hint, place)


def validate_arguments(function: F) -> F:
    """Decorator: check the arguments of `function` as `validate_fields` checks fields."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        hints = typing.get_type_hints(function, include_extras=True)
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        for name, value in bound.items():
            _check(value, hints.get(name, Any), name)
        return function(*args, **kwargs)

    return typing.cast(F, run)


@functools.cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _check(value: Any, hint: Any, place: str) -> None:
    value = value.item() if isinstance(value, np.number) else value
    if isinstance(value, tuple | list):
        for part in value:
            _check(part, hint, place)
    elif dataclasses.is_dataclass(value):
        _check_fields(value, f"{place}.")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, hint, place)


def _check_number(value: float, hint: Any, place: str) -> None:
    kind, allowed = _number(hint) or (type(value), _DEFAULT[type(value)])
    noun = "a whole number" if kind is int else "a number"
    whole = kind is not int or isinstance(value, int)
    finite = isinstance(value, int) or math.isfinite(value)  # a large whole number is not a float
    if not (finite and whole and allowed.contains(value)):
        expected = f"{noun} {allowed}".rstrip() if whole else noun
        raise InvalidValueError(place, f"expected {expected}, got {plain_number(value)}")


def _number(hint: Any) -> tuple[type, Range] | None:
    """Type of number in a hint (directly, in a tuple or with None) and its range."""
    if hint in _DEFAULT:
        return hint, _DEFAULT[hint]
    found = next(filter(None, map(_number, typing.get_args(hint))), None)
    ranges = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)]
    return (found[0], ranges[-1]) if found and ranges else found


def _has_type(value: Any, hint: Any) -> bool:
    """True if a value has a type. Whole numbers pass as floats, lists as tuples, and floats as
    whole numbers, which `_check_number` checks."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _has_type(value, args[0])
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, each) for each in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        within = args[:1] * len(value) if args[1:] == (...,) else args
        return len(value) == len(within) and all(map(_has_type, value, within))
    if hint in _DEFAULT:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _type_text(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type_text(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_type_text, args))
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin is tuple:
        return f"a tuple of {_type_text(args[0])}"
    words = {int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def plain_number(value: float) -> str:
    """A number with all its digits: an error must not show a rounded value that satisfies the
    bound."""
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < MAX_EXACT_INT)
    return f"{int(value):,}" if whole else repr(float(value))
