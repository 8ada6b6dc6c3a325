"""Reference pages of hyperparameters, from the algorithms' configs and presets; used by `hooks`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.games.game import Game
from hanabi_rl.games.registry import GAMES
from hanabi_rl.launch.flags import field_texts
from hanabi_rl.launch.presets import configs_folder, preset_config

HEAD = "| field | default | | presets |\n|---|---|---|---|"


def hyperparameter_pages() -> dict[str, str]:
    """Page by algorithm; `index` lists them."""
    pages = {name: "\n".join(_page(name)) for name in ALGORITHMS}
    lines = [
        "# Hyperparameters\n\nEvery field of every algorithm's config, with its default and the "
        "presets that change it. A field is a flag, with hyphens (`--entropy-coef 0.01`), a key of "
        "a preset's .toml file and a keyword of `hanabi_rl.train`.\n\n| algorithm | |\n|---|---|"
    ]
    lines += [f"| [{name}]({name}.md) | {_about(ALGORITHMS[name].config)} |" for name in ALGORITHMS]
    return {"index": "\n".join(lines), **pages}


def _page(algorithm: str) -> Iterator[str]:
    cls = ALGORITHMS[algorithm].config
    presets = {
        path.stem: preset_config(algorithm, path.stem)
        for path in sorted((configs_folder() / algorithm).glob("*.toml"))
    }
    yield (
        f"# {algorithm}\n\n{_about(cls)} Flags: `--FIELD`. Last column: "
        f"[presets](../presets.md#{algorithm}) with another value than the default."
    )
    default = cls()
    owner = {name: base for base in reversed(cls.__mro__) for name in inspect.get_annotations(base)}
    for base in cls.__mro__:
        fields = [f for f in dataclasses.fields(cls) if owner[f.name] is base]
        if fields:
            about = "" if base is cls else f"\n\n{_about(base)}"
            yield f"\n## {base.__name__}{about}\n\n{HEAD}"
            yield from _rows(cls, fields, default, presets)
    yield from _groups(cls, default, presets, "")


def _rows(
    cls: Any, fields: list[Any], default: Any, presets: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    """Lines of a table: fields of `cls` with the values of `default` and of `presets`."""
    texts = field_texts(cls)
    for field in fields:
        usual = _value(default, field)
        differing: dict[str, list[str]] = {}
        for name, config in presets.items():
            if (value := _value(config, field)) != usual and field.name != "preset":
                differing.setdefault(value, []).append(name)
        text = texts.get(field.name, "").replace("|", "\\|").replace("<", "&lt;")
        links = [
            f"[{one.__name__}](#{_anchor(path + field.name, one)})"
            for one in _classes(cls, field.name)
        ]
        if links:
            text += f" Fields: {', '.join(links)}."
        elif field.name in ("kind", "name"):
            text = text or "Selects this class."
        cells = "<br>".join(f"`{value}`: {', '.join(of)}" for value, of in differing.items())
        yield f"| `{field.name}` | `{usual}` | {text} | {cells} |"


def _groups(cls: Any, default: Any, presets: Mapping[str, Any], path: str) -> Iterator[str]:
    """A section for each class of each nested config."""
    for field in dataclasses.fields(cls):
        usual = getattr(default, field.name) if default is not None else None
        for one in _classes(cls, field.name):
            place = f"{path}{field.name}"
            inner = {name: getattr(config, field.name) for name, config in presets.items()}
            inner = {name: value for name, value in inner.items() if type(value) is one}
            flags = "" if _is_unprefixed(cls, field.name) else f"{place.replace('_', '-')}."
            base = usual if type(usual) is one else None
            anchor = _anchor(place, one)
            yield (
                f"\n## {place}: {one.__name__} {{ #{anchor} }}\n\n{_about(one)} Flags: "
                f"`--{flags}FIELD`; in a preset: `[{place}]`.\n\n{HEAD}"
            )
            yield from _rows(one, list(dataclasses.fields(one)), base, inner, f"{place}.")
            yield from _groups(one, base, inner, f"{place}.")


def _classes(cls: Any, name: str) -> list[Any]:
    """Config classes that a field allows; of `Game`, all games."""
    found = _parts(typing.get_type_hints(cls, include_extras=True)[name])
    classes = [one for one in found if isinstance(one, type) and dataclasses.is_dataclass(one)]
    if Game in classes:
        classes = [*GAMES.values()]
    return classes


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _is_unprefixed(cls: Any, name: str) -> bool:
    hint = typing.get_type_hints(cls, include_extras=True)[name]
    return any(getattr(part, "name", None) == "" for part in getattr(hint, "__metadata__", ()))


def _anchor(place: str, cls: Any) -> str:
    return f"{place.replace('.', '-')}-{cls.__name__}"


def _value(config: Any, field: Any) -> str:
    """A field's value as in a .toml file; a nested config as its kind. Without a config: the
    field's default."""
    if config is not None:
        value = getattr(config, field.name)
    elif field.default is not dataclasses.MISSING:
        value = field.default
    else:
        value = field.default_factory()
    if dataclasses.is_dataclass(value):
        return str(getattr(value, "kind", None) or getattr(value, "name", type(value).__name__))
    if value is None:
        return "None"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:_}"
    return json.dumps(value)


def _about(cls: Any) -> str:
    """First paragraph of a class's docstring."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())
