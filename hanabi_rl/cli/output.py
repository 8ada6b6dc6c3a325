"""What the measure commands share: the text and the JSON of a result, and files that they draw."""

from __future__ import annotations

import functools
import inspect
import json as json_format
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import tyro

from hanabi_rl.cli.agents import Flag

T = TypeVar("T")
Parts: TypeAlias = Iterator[Any]
"""Lines and rich tables, then a dictionary, the JSON of the same figures."""

Json = Annotated[
    Flag, tyro.conf.arg(help="print one line of JSON on stdout and the text on stderr")
]
Plot = Annotated[Path | None, tyro.conf.arg(help="image file to draw (.png, .pdf, .svg)")]


def measure_command(function: Callable[..., Parts]) -> Callable[..., None]:
    """A command with the flag --json of a generator that yields the parts of a text and, last, the
    JSON of the same figures.

    Its arguments `agents`, `plot` and `out` (a folder) are checked before it begins.
    """

    @functools.wraps(function)
    def command(*args: Any, json: bool = False, **kwargs: Any) -> None:
        from hanabi_rl.evaluation.measure.intervals import explained
        from hanabi_rl.evaluation.reporting.tables import to_text
        from hanabi_rl.storage.files import to_json

        printed, screen = "", sys.stderr if json else sys.stdout
        for part in _checked(function, *args, **kwargs):
            if not isinstance(part, dict):
                printed += f"{to_text(part)}\n"
                print(to_text(part, styled=screen.isatty()), file=screen, flush=True)
        if (whole := explained(printed.rstrip("\n"))) != printed.rstrip("\n"):
            print(whole.splitlines()[-1], file=screen)
        if json:
            print(json_format.dumps(to_json(part)))

    flag = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    parameters = [*inspect.signature(function).parameters.values(), flag]
    hints = typing.get_type_hints(function, include_extras=True)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**hints, "json": Json, "return": None}
    del command.__wrapped__  # tyro would read the flags of `function`
    return command


def _checked(function: Callable[..., Parts], *args: Any, **kwargs: Any) -> Parts:
    """The parts of a command, once its arguments can be right."""
    from hanabi_rl.storage.files import IMAGE_SUFFIXES, check_writable

    signature = inspect.signature(function)
    arguments = signature.bind(*args, **kwargs).arguments
    agents = signature.parameters.get("agents")
    if agents and agents.default is inspect.Parameter.empty and not arguments["agents"]:
        raise ValueError("expected at least one agent, got none (`hanabi-rl agents` lists them)")
    check_writable("--plot", arguments.get("plot"), IMAGE_SUFFIXES)
    check_writable("--out", arguments.get("out"))
    yield from function(*args, **kwargs)
    for written in filter(None, (arguments.get("plot"), arguments.get("out"))):
        print(f"Written: {written}", file=sys.stderr)


def with_progress(title: str, items: Iterable[T], unit: str) -> Iterator[T]:
    """The items, with a progress bar."""
    from hanabi_rl.storage.progress import Progress

    items = list(items)
    with Progress(title, total=len(items), unit=unit) as progress:
        for done, item in enumerate(items, start=1):
            yield item
            progress.update(done)
