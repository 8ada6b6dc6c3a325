"""Standard output and error that no command ends at: characters that the terminal lacks become
`?`, and a stream that cannot be written to ends nothing before the result is computed and saved."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
    """Standard output and error as `SafeStream` streams, which print `?` for a character that
    their encoding lacks. Yields the output's."""
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
        stream.reconfigure(errors="replace")
    return stream


def _silence(stream: Any) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
