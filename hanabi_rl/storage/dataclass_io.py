"""Frozen dataclasses as records: nested dictionaries that JSON and TOML can hold, and back.

`from_dict(type(x), to_dict(x)) == x` for every config.
"""

import dataclasses
import types
import typing
from typing import Any, Literal, TypeVar

from hanabi_rl.storage.renamed_fields import RENAMED
from hanabi_rl.storage.validation import InvalidValueError

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """A config as JSON-ready nested dictionaries (tuples as lists)."""
    return {
        f.name: to_dict(v) if dataclasses.is_dataclass(v := getattr(config, f.name)) else _plain(v)
        for f in dataclasses.fields(config)
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def from_dict(
    cls: type[T], data: dict[str, Any], default: T | None = None, where: str = "config"
) -> T:
    """Builds a config from nested dictionaries holding all or some of its fields.

    Args:
        cls: the dataclass to build.
        data: field name -> value; a nested config is a dictionary of its own.
        default: supplies the fields that `data` leaves out.
        where: named in errors.

    Raises:
        ValueError: an unknown field, a value of the wrong type, or a number that the field cannot
            hold, named with its place.
    """
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(known)):
        new = RENAMED.get(unknown[0])
        expected = (
            f"one of {', '.join(sorted(known))}" if new not in known else f"its new name {new}"
        )
        raise ValueError(f"{where}: unknown field {unknown[0]!r}; expected {expected}")
    base = default if default is not None else cls()
    changes: dict[str, Any] = {}
    for name, value in data.items():
        place = f"{where}.{name}"
        if dataclasses.is_dataclass(current := getattr(base, name)) and isinstance(value, dict):
            chosen = _of_kind(hints[name], value, type(current), place)
            changes[name] = from_dict(
                chosen, value, current if chosen is type(current) else None, place
            )
        elif value is None and known[name].default is None:
            changes[name] = None
        else:
            changes[name] = _checked(value, hints[name], place)
    try:
        if hasattr(base, "replace"):  # a class with fields that follow from others has its own
            return base.replace(**changes)
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]
    except InvalidValueError as error:
        raise InvalidValueError(error.place, error.problem, where) from error


def _of_kind(hint: Any, value: dict[str, Any], current: type, place: str) -> type:
    """The dataclass that a nested dictionary is of. Where the field may hold one of several, its
    `kind` says which, if it has one: that whose field `kind` has this default, else the one
    without such a field; without a kind it is the class of the default."""
    choices = [
        arg
        for arg in typing.get_args(hint)
        if isinstance(arg, type) and dataclasses.is_dataclass(arg)
    ]
    if len(choices) < 2 or "kind" not in value:
        return current
    kinds = {
        next((f.default for f in dataclasses.fields(choice) if f.name == "kind"), None): choice
        for choice in choices
    }
    if value["kind"] not in [*kinds]:  # it may be a list, which has no hash
        expected = ", ".join(repr(kind) for kind in kinds if kind is not None)
        raise ValueError(f"{place}.kind: expected {expected} or none, got {value['kind']!r}")
    return kinds[value["kind"]]


def _checked(value: Any, hint: Any, place: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _checked(value, next(a for a in args if a is not type(None)), place)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_checked(v, args[0], f"{place}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if value in args:
            return value
        raise ValueError(f"{place}: expected one of {', '.join(map(repr, args))}, got {value!r}")
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{place}: expected a number, got one too large for it") from None
    if isinstance(value, float) and hint is int and value.is_integer():
        return int(value)
    if (
        not isinstance(hint, type)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        raise ValueError(f"{place}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value
