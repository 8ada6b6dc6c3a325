"""Standard output and error that never end a command.

Characters that the terminal lacks become `?`. A stream that cannot be written fails only after the
result is computed and saved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SafeStream:
    """Text stream that drops output after an error (broken pipe, full disk); `error` is the
    first."""

    def __init__(self, stream: Any) -> None:
        self.error: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`; nothing after an error."""
        if self.error is None:
            try:
                return int(self._stream.write(text))
            except OSError as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        """Flush the stream; nothing after an error."""
        if self.error is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.error = error

    def finish(self) -> None:
        """Flush the stream. Raises the first OSError."""
        self.flush()
        if self.error is not None:
            raise self.error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[SafeStream]:
    """Replace standard output and error by `SafeStream`s, with `?` for unknown characters; yield
    the output."""
    before = sys.stdout, sys.stderr
    safe = output, error = SafeStream(_open(sys.stdout)), SafeStream(_open(sys.stderr))
    sys.stdout, sys.stderr = output, error
    try:
        yield output
    finally:
        for stream, original in zip(safe, before, strict=True):
            stream.flush()
            if original is None:
                stream.close()
            elif stream.error is not None:
                _silence(original)  # otherwise Python writes again at exit, and complains
        sys.stdout, sys.stderr = before


def _open(stream: Any) -> Any:
    """The stream, or the null device for a closed stream. Otherwise prints to a closed stderr would
    go to stdout, and the next opened file would get its descriptor."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    return stream


def _silence(stream: Any) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
