"""Values in agents' names: text to a typed value."""

from __future__ import annotations

from typing import Any, get_args, get_origin


def read_value(text: str, kind: Any, *, where: str) -> Any:
    """`text` as a `kind`: str, int, float, bool (true or false), or a tuple of one of these
    (`0.6,0.1`, any length).

    Raises:
        ValueError: beginning with `where`, where it is none.
    """
    if get_origin(kind) is tuple:
        return tuple(read_value(part, get_args(kind)[0], where=where) for part in text.split(","))
    try:
        return {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise ValueError(f"{where}: expected {kind.__name__}, got {text!r}") from None
