"""Which numbers a field of a config, or an argument of a command, may hold.

A range stands where the number is declared, `lr: Annotated[float, Range(...)]`; what declares none
must be finite, and of whole numbers fit into 32 bits. So every number is checked before anything
is computed with it or written; and every other field for being of its type, as configs are made in
Python too.
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
"""The largest whole number of 32 bits with a sign."""
MAX_EXACT_INT = 2**53
"""Up to here every whole number is a float too."""


class InvalidValueError(ValueError):
    """A value, most often a number, that its field or flag cannot hold: `place` (dots for nesting),
    and what was expected and got."""

    def __init__(self, place: str, problem: str, where: str | None = None) -> None:
        self.place, self.problem = place, problem
        flag = f"--{place.replace('_', '-')}" if where is None else f"{where}.{place}"
        super().__init__(f"{flag}: {problem}")


@dataclasses.dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included unless they are `exclusive_low` or `exclusive_high` what
    is allowed."""

    low: float = -math.inf
    high: float = math.inf
    exclusive_low: bool = False
    """More than `low`, not `low` itself."""
    exclusive_high: bool = False
    """Less than `high`, not `high` itself."""

    def contains(self, value: float) -> bool:
        """Whether a finite `value` is in the range."""
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
"""Of random numbers. JAX takes its lowest 32 bits: any other number is one of these again."""
BoundedCount = Annotated[int, Range(1, 10_000_000)]
"""Of games, decks or runs; ten million games are held in memory."""
PositiveInt = Annotated[int, Range(1, INT32_MAX)]
"""At least one of something."""
UnitInterval = Annotated[float, Range(0.0, 1.0)]
NonNegative = Annotated[float, Range(0.0, 1e6)]
"""Of a term of a loss or a return."""
LearningRate = Annotated[float, Range(0.0, 10.0)]
Seconds = Annotated[float, Range(0.0, 1e6)]
Port = Annotated[int, Range(0, 65535)]

_DEFAULT = {int: Range(-INT32_MAX - 1, INT32_MAX), float: Range()}


def validate_fields(config: Any) -> None:
    """Raises OutOfRangeError for the first value in `config`, a dataclass, or in a dataclass in it,
    that is not of the type of its field, or a number that is not in its range."""
    _check_fields(config, "")


def _check_fields(config: Any, prefix: str) -> None:
    cls: Any = type(config)
    hints = _hints(cls)
    for field in dataclasses.fields(config):
        value, hint, place = getattr(config, field.name), hints[field.name], prefix + field.name
        if not _is_of(value, hint):
            raise InvalidValueError(place, f"expected {_said(hint)}, got {value!r}")
        _check(value, hint, place)


def validate_arguments(function: F) -> F:
    """`function`, whose arguments are checked as `validate_fields` checks fields before it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        hints = typing.get_type_hints(function, include_extras=True)
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        for name, value in given.items():
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
    what = "a whole number" if kind is int else "a number"
    whole = kind is not int or isinstance(value, int)
    finite = isinstance(value, int) or math.isfinite(value)  # a whole number may be no float
    if not (finite and whole and allowed.contains(value)):
        expected = f"{what} {allowed}".rstrip() if whole else what
        raise InvalidValueError(place, f"expected {expected}, got {plain_number(value)}")


def _number(hint: Any) -> tuple[type, Range] | None:
    """Which kind of number a type holds, alone, in a tuple or beside None, and its range."""
    if hint in _DEFAULT:
        return hint, _DEFAULT[hint]
    found = next(filter(None, map(_number, typing.get_args(hint))), None)
    ranges = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)]
    return (found[0], ranges[-1]) if found and ranges else found


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type. A whole number is a float too, a list a tuple, and a float may
    be a whole number: `_check_number` says whether it is."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_of(value, args[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, each) for each in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        within = args[:1] * len(value) if args[1:] == (...,) else args
        return len(value) == len(within) and all(map(_is_of, value, within))
    if hint in _DEFAULT:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _said(hint: Any) -> str:
    """A type in words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _said(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_said, args))
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin is tuple:
        return f"a tuple of {_said(args[0])}"
    words = {int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def plain_number(value: float) -> str:
    """A number with all its digits, so that an error never shows the bound that it missed."""
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < MAX_EXACT_INT)
    return f"{int(value):,}" if whole else repr(float(value))
