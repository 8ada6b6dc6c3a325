"""What a command prints, on any terminal: a character that cannot be printed is shown as plain
ones, and a stream that cannot be written to ends nothing before its result is computed and kept."""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PLAIN = {"±": "+-", "·": "."} | dict(zip("▁▂▃▄▅▆▇█", ".:-=+*#@", strict=True))
_KINDS = {"BOX DRAWINGS LIGHT HORIZONTAL": "-", "BOX DRAWINGS LIGHT VERTICAL": "|"}


def to_ascii(text: str) -> str:
    """`text` in ASCII: bars by their height, boxes of `+-|`, Greek letters by name, letters without
    their accents, and `?` for the rest."""
    return "".join(c if c.isascii() else _PLAIN.get(c) or _by_name(c) for c in text)


def _by_name(character: str) -> str:
    name = unicodedata.name(character, "")
    if name.startswith("BOX DRAWINGS"):
        return _KINDS.get(name, "+")
    if name.startswith("GREEK") and " LETTER " in name:
        return name.partition(" LETTER ")[2].lower()
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return to_ascii(error.object[error.start : error.end]), error.end


codecs.register_error("plain", _replaced)


class SafeStream:
    """A text stream that drops what it cannot write: its reader has left, the disk is full, the
    terminal is gone. `error` keeps the first reason."""

    def __init__(self, stream: Any) -> None:
        self.error: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes `text`, or nothing after an error."""
        if self.error is None:
            try:
                return int(self._stream.write(text))
            except OSError as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        """Writes what is left, or nothing after an error."""
        if self.error is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.error = error

    def finish(self) -> None:
        """Writes what is left. Raises the first OSError that there was."""
        self.flush()
        if self.error is not None:
            raise self.error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[SafeStream]:
    """Standard output and error as `SafeStream` streams, which print everything their encoding has
    and the rest as `to_ascii` does. Yields the output's."""
    before = sys.stdout, sys.stderr
    safe = output, error = SafeStream(_open(sys.stdout)), SafeStream(_open(sys.stderr))
    sys.stdout, sys.stderr = output, error
    try:
        yield output
    finally:
        for stream, kept in zip(safe, before, strict=True):
            stream.flush()
            if kept is None:
                stream.close()
            elif stream.error is not None:
                _silence(kept)  # else Python tries again at its end, and complains
        sys.stdout, sys.stderr = before


def _open(stream: Any) -> Any:
    """The stream itself, or the null device in the place of one that is closed: prints meant for a
    closed stderr would go to stdout, and the next file that is opened would get its number."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="plain")
    return stream


def _silence(stream: Any) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
