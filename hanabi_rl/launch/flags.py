"""Flags as they are on a command line, before tyro reads it. Imports no JAX."""

import dataclasses
import inspect
import itertools
import shlex
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import tyro


def normalize_flags(args: Sequence[str]) -> list[str]:
    """Return `args` with hyphens for underscores in flag names, as tyro lists them."""

    def name(arg: str) -> str:
        flag, equals, value = arg.partition("=")
        return flag.replace("_", "-") + equals + value if arg.startswith("--") else arg

    return [name(arg) for arg in args]


def flag_value(flag: str, args: Sequence[str]) -> str | None:
    """The first value of a flag on a command line, or None."""
    return next(iter(flag_values(flag, args)), None)


def flag_values(flag: str, args: Sequence[str]) -> list[str]:
    """All values of a flag on a command line, up to the next one; of one that is given again those
    of the last time, as tyro takes them."""
    places = [i for i, arg in enumerate(args) if arg.partition("=")[0] == flag]
    return _values_at(args, places[-1]) if places else []


def _values_at(args: Sequence[str], place: int) -> list[str]:
    """The values of the flag at a place of the command line."""
    _, equals, value = args[place].partition("=")
    if equals:
        return [value]
    return list(itertools.takewhile(lambda arg: not arg.startswith("--"), args[place + 1 :]))


def list_flags(target: Any, prefix: str = "") -> Iterator[str]:
    """The flags of several values that tyro makes for a config class or a function, those of nested
    configs included."""
    hints = typing.get_type_hints(target, include_extras=True)
    fields = dataclasses.fields(target) if dataclasses.is_dataclass(target) else ()
    for name in [field.name for field in fields] or inspect.signature(target).parameters:
        kinds, notes = _kinds(hints.get(name, Any))
        if tyro.conf.Positional in notes:
            continue
        named = [note.name for note in notes if getattr(note, "name", None) is not None]
        path = prefix + (named[0] if named else name.replace("_", "-"))
        if any(typing.get_origin(kind) in (tuple, list) for kind in kinds):
            yield f"--{path}"
        for kind in filter(dataclasses.is_dataclass, kinds):
            yield from list_flags(kind, f"{path}." if path else "")


def _kinds(hint: Any) -> tuple[list[Any], list[Any]]:
    """The types that a hint allows, and the notes of its `Annotated`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        kinds, notes = _kinds(args[0])
        return kinds, [*args[1:], *notes]
    if origin in (typing.Union, types.UnionType):
        parts = [_kinds(arg) for arg in args]
        return [k for kinds, _ in parts for k in kinds], [n for _, notes in parts for n in notes]
    return [hint], []


def check_lists_once(args: Sequence[str], flags: Iterable[str]) -> None:
    """Raises ValueError if one of `flags`, of several values each, is given twice: tyro and
    argparse take the last one and drop the others."""
    for flag in dict.fromkeys(flags):
        starts = [i for i, arg in enumerate(args) if arg.partition("=")[0] == flag]
        if len(starts) > 1:
            values = [value for i in starts for value in _values_at(args, i)]
            raise ValueError(
                f"{flag}: expected once, with all its values ({flag} {shlex.join(values)}), got it "
                f"{len(starts)} times"
            )
