"""Frozen dataclasses as records: nested dictionaries that JSON and TOML can hold, and back.

`from_dict(type(x), to_dict(x)) == x` for every config.
"""

import dataclasses
import types
import typing
from typing import Any, Literal, TypeVar

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
        ValueError: an unknown field, or a value of the wrong type, named with its place.
    """
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(known)):
        raise ValueError(
            f"{where}: unknown field {unknown[0]!r}; expected one of {', '.join(sorted(known))}"
        )
    base = default if default is not None else cls()
    changes: dict[str, Any] = {}
    for name, value in data.items():
        place = f"{where}.{name}"
        if dataclasses.is_dataclass(current := getattr(base, name)) and isinstance(value, dict):
            changes[name] = from_dict(type(current), value, current, place)
        elif value is None and known[name].default is None:
            changes[name] = None
        else:
            changes[name] = _checked(value, hints[name], place)
    if hasattr(base, "replace"):  # a class with fields that follow from others has its own
        return base.replace(**changes)
    return dataclasses.replace(base, **changes)  # type: ignore[type-var]


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
        return float(value)
    if isinstance(value, float) and hint is int and value.is_integer():
        return int(value)
    if (
        not isinstance(hint, type)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        raise ValueError(f"{place}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value
