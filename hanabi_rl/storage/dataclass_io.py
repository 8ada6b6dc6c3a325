"""Frozen dataclasses to nested dictionaries for JSON and TOML, and back.

`from_dict(type(x), to_dict(x)) == x` for every config.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

from hanabi_rl.storage.renamed_fields import MOVED, RENAMED, RENAMED_VALUES
from hanabi_rl.storage.user_modules import OWN_CLASSES, import_user_modules
from hanabi_rl.storage.validation import InvalidValueError
from hanabi_rl.storage.words import did_you_mean

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """Config as JSON-ready nested dictionaries (tuples as lists)."""
    return {
        f.name: to_dict(v) if dataclasses.is_dataclass(v := getattr(config, f.name)) else _plain(v)
        for f in dataclasses.fields(config)
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def from_dict(
    cls: type[T], data: dict[str, Any], default: T | None = None, where: str = "config"
) -> T:
    """Build a config from nested dictionaries with all or some of its fields.

    Args:
        cls: dataclass to build.
        data: field name -> value; a nested config is a dictionary.
        default: source of the fields missing in `data`.
        where: prefix of errors.

    Raises:
        ValueError: an unknown field, a wrong type, or a number out of range, with its path.
    """
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(known)):
        new = RENAMED.get(unknown[0], unknown[0])
        if new in known:
            expected = f"its new name {new}"
        elif (table := MOVED.get(new)) in known:
            expected = f"{new} in the table {table} ({table}.{new})"
        else:
            expected = f"one of {', '.join(sorted(known))}{did_you_mean(unknown[0], known)}"
        raise ValueError(f"{where}: unknown field {unknown[0]!r}; expected {expected}")
    base = default if default is not None else cls()
    changes: dict[str, Any] = {}
    for name, value in data.items():
        place = f"{where}.{name}"
        if isinstance(value, str) and value in (renamed := RENAMED_VALUES.get(name, {})):
            raise ValueError(f"{place}: {value} was renamed to {renamed[value]}")
        if dataclasses.is_dataclass(current := getattr(base, name)) and isinstance(value, dict):
            chosen = _class_of(hints[name], value, type(current), place)
            changes[name] = from_dict(
                chosen, value, current if chosen is type(current) else None, place
            )
        elif value is None and known[name].default is None:
            changes[name] = None
        else:
            changes[name] = _checked(value, hints[name], place)
    try:
        if hasattr(base, "replace"):  # classes with derived fields define `replace`
            return base.replace(**changes)
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]
    except InvalidValueError as error:
        raise InvalidValueError(error.place, error.problem, where) from error


def _class_of(hint: Any, value: dict[str, Any], current: type, place: str) -> type:
    """Dataclass of a nested dictionary.

    If the field allows several (or a base class), `kind` or `name` in the dictionary selects the
    class by the default of its field of that name, or the class without that field; without either
    it is the class of the default.
    """
    key = next((key for key in ("kind", "name") if key in value), None)
    if key is not None:
        import_user_modules()
    choices: list[Any] = [
        cls
        for arg in typing.get_args(hint)
        if isinstance(arg, type)
        for cls in (arg, *subclasses(arg))
        if dataclasses.is_dataclass(cls)
    ]
    if len(choices) < 2 or key is None:
        return current
    kinds = {
        next((f.default for f in dataclasses.fields(choice) if f.name == key), None): choice
        for choice in choices
        if choice in typing.get_args(hint) or key in vars(choice)  # not a name inherited
    }
    kinds.pop(dataclasses.MISSING, None)  # a base class
    if value[key] not in [*kinds]:  # an unhashable list is possible
        expected = ", ".join(repr(kind) for kind in kinds if kind is not None)
        raise ValueError(
            f"{place}.{key}: expected {expected} or no {key}, got {value[key]!r}; {OWN_CLASSES}"
        )
    return kinds[value[key]]


def subclasses(cls: Any) -> Iterator[Any]:
    """All imported subclasses of a class, at any depth."""
    for sub in cls.__subclasses__():
        yield from (sub, *subclasses(sub))


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
            raise ValueError(f"{place}: expected a number, got one too large") from None
    if isinstance(value, float) and hint is int and value.is_integer():
        return int(value)
    if (
        not isinstance(hint, type)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        raise ValueError(f"{place}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value
