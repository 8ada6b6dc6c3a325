"""Tables as text, with rich, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from hanabi_rl.evaluation.measure.intervals import Interval, bounds_text
from hanabi_rl.storage.files import to_json

Part = str | Table
"""A part of a command's output: lines or a table."""
_WIDTH = 100_000  # of the console, so that lines are never wrapped


class Column(NamedTuple):
    """A column of a table."""

    head: str
    value: Any = None
    """Key or index in a row, or a function of the row; None: the key is `head`."""
    spec: str = ""
    """Format of numbers."""
    left: bool = False
    """Align to the left; the first column always is."""
    width: int = 0
    """Minimum width in characters."""
    missing: str = "none"
    """Text for None and NaN."""
    optional: bool = False
    """Omit the column if every value is None."""

    def of(self, row: Any) -> Any:
        """Value of the column in a row."""
        if callable(self.value):
            return self.value(row)
        return row[self.head if self.value is None else self.value]


def interval_columns(key: str, spec: str, head: str = "mean", **rest: Any) -> tuple[Column, Column]:
    """Columns of a value and its interval, under `key` and `key_ci95` in a JSON record."""
    bounds = Column("95% interval", f"{key}_ci95", spec, left=True, missing="")
    return Column(head, key, spec, **rest), bounds


def format_value(value: Any, spec: str = "", missing: str = "none") -> str:
    """Text of a number, an interval, a pair of bounds, or a string."""
    if value is None or value != value:
        return missing
    if isinstance(value, list | tuple) and not isinstance(value, Interval):
        return bounds_text(value, spec)
    return value if isinstance(value, str) else format(value, spec)


def table(rows: Iterable[Any], columns: Iterable[Column], gap: int = 2, head: bool = True) -> Table:
    """A table of `rows`, records or sequences, with `gap` spaces between columns."""
    rows = list(rows)
    columns = [c for c in columns if not c.optional or any(c.of(row) is not None for row in rows)]
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    made.show_header = head
    for place, column in enumerate(columns):
        made.add_column(
            column.head,
            justify="left" if column.left or not place else "right",
            min_width=max(column.width, len(column.head)),
            no_wrap=True,
        )
    for row in rows:
        made.add_row(*(format_value(c.of(row), c.spec, c.missing) for c in columns))
    return made


def text_rows(rows: Sequence[Sequence[str]], left: bool = True) -> Table:
    """A table of text; the first row is the heads."""
    heads, *body = rows
    return table(body, [Column(head, place, left=left) for place, head in enumerate(heads)])


def to_text(*parts: Part, styled: bool = False) -> str:
    """Join parts as lines of text; `styled` adds terminal codes."""
    texts = []
    for part in parts:
        if isinstance(part, Table):
            file = io.StringIO()
            console = Console(
                file=file, width=_WIDTH, force_terminal=styled, no_color=True, markup=False,
                emoji=False, highlight=False, legacy_windows=False,
            )  # fmt: skip
            console.print(part)
            part = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
        texts.append(part)
    return "\n".join(texts)


def flat_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a CSV row: bounds as `NAME_low` and `NAME_high`, None if infinite."""
    flat: dict[str, Any] = {}
    for name, value in to_json(record).items():
        bounds = isinstance(value, list)
        flat |= {f"{name}_low": value[0], f"{name}_high": value[1]} if bounds else {name: value}
    return flat


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Records as CSV with a header of all keys; missing values are empty."""
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
