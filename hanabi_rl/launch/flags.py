"""Flags of a command line, before tyro parses it; without JAX."""

import dataclasses
import functools
import inspect
import itertools
import re
import shlex
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import tyro

from hanabi_rl.storage.validation import seed_range


def normalize_flags(args: Sequence[str]) -> list[str]:
    """`args` with hyphens for underscores in flag names, as tyro lists them, and the seeds of
    `--seeds A..B`. Raises ValueError as `seed_range`."""

    def name(arg: str) -> str:
        flag, equals, value = arg.partition("=")
        return flag.replace("_", "-") + equals + value if arg.startswith("--") else arg

    words = [name(arg) for arg in args]
    for place in [i for i, word in enumerate(words) if word.partition("=")[0] == "--seeds"][::-1]:
        values = _values_at(words, place)
        seeds = [seed for value in values for seed in _seed_range(value)]
        if seeds != values:
            words[place : place + 1 + len(values) * ("=" not in words[place])] = ["--seeds", *seeds]
    return words


def _seed_range(text: str) -> list[str]:
    """Seeds of `A..B`; other text unchanged."""
    found = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if found is None:
        return [text]
    return [*map(str, seed_range(found[1], found[2], f"--seeds {text}"))]


def flag_value(flag: str, args: Sequence[str]) -> str | None:
    """First value of a flag on a command line, or None."""
    return next(iter(flag_values(flag, args)), None)


def flag_values(flag: str, args: Sequence[str]) -> list[str]:
    """All values of a flag, up to the next flag; the last occurrence counts, as in tyro."""
    places = [i for i, arg in enumerate(args) if arg.partition("=")[0] == flag]
    return _values_at(args, places[-1]) if places else []


def without_flag(flag: str, args: Sequence[str]) -> list[str]:
    """`args` without a flag of one value."""
    kept, skip = [], False
    for arg in args:
        if skip or arg.partition("=")[0] == flag:
            skip = not skip and "=" not in arg
            continue
        kept.append(arg)
    return kept


def _values_at(args: Sequence[str], place: int) -> list[str]:
    _, equals, value = args[place].partition("=")
    if equals:
        return [value]
    return list(itertools.takewhile(lambda arg: not arg.startswith("--"), args[place + 1 :]))


def list_flags(target: Any, prefix: str = "") -> Iterator[str]:
    """List flags (of several values) of a config class or function, nested configs included."""
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


def field_texts(cls: Any) -> dict[str, str]:
    """Docstrings of a config's fields, inherited ones included, each as one line."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):  # without `object`
        texts |= _own_texts(base)
    return texts


@functools.cache
def _own_texts(cls: Any) -> dict[str, str]:
    import docstring_parser

    params = docstring_parser.parse_from_object(cls).params
    return {p.arg_name: " ".join(p.description.split()) for p in params if p.description}


def join_help_lines(cls: Any, args: Sequence[str]) -> None:
    """Before help is printed, join the wrapped lines of a config's field docstrings, nested configs
    included: tyro breaks help at them (findings/tyro-wrapped-help.sh)."""
    if not {"-h", "--help"} & {*args}:
        return
    texts = field_texts(cls)
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if text := texts.get(field.name):
            field.metadata = types.MappingProxyType({**field.metadata, "help": text})
        for kind in filter(dataclasses.is_dataclass, _kinds(hints[field.name])[0]):
            join_help_lines(kind, args)


def _kinds(hint: Any) -> tuple[list[Any], list[Any]]:
    """Types allowed by a hint, and the metadata of its `Annotated`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        kinds, notes = _kinds(args[0])
        return kinds, [*args[1:], *notes]
    if origin in (typing.Union, types.UnionType):
        parts = [_kinds(arg) for arg in args]
        return [k for kinds, _ in parts for k in kinds], [n for _, notes in parts for n in notes]
    return [hint], []


def check_lists_once(args: Sequence[str], flags: Iterable[str]) -> None:
    """Raise ValueError if a list flag occurs twice: tyro and argparse would use only the last."""
    for flag in dict.fromkeys(flags):
        starts = [i for i, arg in enumerate(args) if arg.partition("=")[0] == flag]
        if len(starts) > 1:
            values = [value for i in starts for value in _values_at(args, i)]
            raise ValueError(
                f"{flag}: expected once, with all its values ({flag} {shlex.join(values)}), got it "
                f"{len(starts)} times"
            )
