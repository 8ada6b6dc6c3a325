"""Text, JSON and plots of evaluation commands."""

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

from hanabi_rl.cli.agents import Json

T = TypeVar("T")
Parts: TypeAlias = Iterator[Any]
"""Lines and rich tables, then a dictionary with the same results for JSON."""
Plot = Annotated[Path | None, tyro.conf.arg(help="image file to draw (.png, .pdf, .svg)")]


def measure_command(function: Callable[..., Parts]) -> Callable[..., None]:
    """Make a command with the flag --json of a generator of `Parts`.

    The arguments `agents`, `plot` and `out` (a folder) are checked before the generator starts.
    """

    signature = inspect.signature(function)

    @functools.wraps(function)
    def command(*args: Any, json: bool = False, **kwargs: Any) -> None:
        from hanabi_rl.evaluation.measure.intervals import explained
        from hanabi_rl.evaluation.reporting.tables import to_text
        from hanabi_rl.storage.files import IMAGE_SUFFIXES, check_writable, to_json
        from hanabi_rl.storage.progress import print_above

        arguments = signature.bind(*args, **kwargs).arguments
        agents = signature.parameters.get("agents")
        if agents and agents.default is inspect.Parameter.empty and not arguments["agents"]:
            raise ValueError("expected at least one agent, got none; see `hanabi-rl agents`")
        plot, out = arguments.get("plot"), arguments.get("out")
        check_writable("--plot", plot, IMAGE_SUFFIXES)
        check_writable("--out", out)
        printed, screen = "", sys.stderr if json else sys.stdout
        for part in function(*args, **kwargs):
            if not isinstance(part, dict):
                printed += f"{to_text(part)}\n"
                print_above(to_text(part, styled=screen.isatty()), screen)
        if screen.isatty():
            print("Terms: hanabi-rl glossary", file=sys.stderr)
        for written in filter(None, (plot, out)):
            print(f"Written: {written}", file=sys.stderr)
        if (whole := explained(printed.rstrip("\n"))) != printed.rstrip("\n"):
            print(whole.splitlines()[-1], file=screen)
        if json:
            print(json_format.dumps(to_json(part)))

    flag = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    parameters = [*signature.parameters.values(), flag]
    hints = typing.get_type_hints(function, include_extras=True)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**hints, "json": Json, "return": None}
    del command.__wrapped__  # tyro would read the flags of `function`
    return command


def with_progress(title: str, items: Iterable[T], unit: str) -> Iterator[T]:
    """Yield the items with a progress bar."""
    from hanabi_rl.storage.progress import Progress

    items = list(items)
    with Progress(title, total=len(items), unit=unit) as progress:
        for done, item in enumerate(items, start=1):
            yield item
            progress.update(done)
