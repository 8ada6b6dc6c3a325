"""How far something that takes long has come, on the terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm


class Progress:
    """A progress bar on stderr with rate and time left, from the second update on (the first one
    compiles); a plain line every `interval_s` seconds where stderr is no terminal.

        with Progress("BC", total=70, unit="epochs") as progress:
            progress.update(epoch, accuracy=0.41)

    Args:
        title: what is progressing.
        total: the position at which it is done.
        unit: what is counted, in the plural.
        initial: the position it starts from (a resumed run).
        interval_s: least seconds between two plain lines.
        stream: where to write; stderr by default.
        shown: False writes nothing: what is done before anybody would look.
    """

    def __init__(
        self,
        title: str,
        *,
        total: int,
        unit: str,
        initial: int = 0,
        interval_s: float = 15.0,
        stream: TextIO | None = None,
        shown: bool = True,
    ) -> None:
        self._title, self._total, self._unit, self._interval_s = title, total, unit, interval_s
        self._stream = stream or sys.stderr
        self._shown = shown
        self._position = initial
        self._since: tuple[float, int] | None = None
        """What the rate is measured from: the first update, which compiled."""
        self._line_at = time.monotonic()
        self._bar: tqdm | None = None
        if shown and self._stream.isatty():
            self._bar = tqdm(
                total=total,
                initial=initial,
                desc=title,
                unit=f" {unit}",
                unit_scale=total >= 10_000,
                dynamic_ncols=True,
                file=self._stream,
                smoothing=0.1,
            )

    def update(self, position: int, **shown: float | str) -> None:
        """Moves to `position` (not by it) and shows the given values beside it."""
        if not self._shown:
            return
        position = int(position)
        text = ", ".join(f"{name} {_brief(value)}" for name, value in shown.items())
        now = time.monotonic()
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            if self._since is None:  # measured from here on
                self._bar.initial = self._bar.n = self._bar.last_print_n = position
                self._bar.last_print_t = time.time()
                self._bar.refresh()
            else:
                self._bar.update(position - self._position)
        self._position = position
        if self._bar is None and (
            now - self._line_at >= self._interval_s or position >= self._total
        ):
            self._line_at = now
            print(self._line(now, text), file=self._stream, flush=True)
        if self._since is None:
            self._since = (now, position)

    def _line(self, now: float, text: str) -> str:
        parts = [f"{self._title}: {self._position:,}/{self._total:,} {self._unit}"]
        if self._since is not None:
            since, position = self._since
            rate = (self._position - position) / max(now - since, 1e-9)
            parts.append(f"{_brief(rate)} {self._unit}/s")
            if rate > 0 and self._position < self._total:
                parts.append(f"{format_seconds((self._total - self._position) / rate)} left")
        return ", ".join([*parts, text] if text else parts)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def format_seconds(seconds: float) -> str:
    """A duration to read: `45 s`, `3 min 20 s`, `5 h 07 min`, `2 d 03 h`."""
    whole = round(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{whole} s"
    if hours < 1:
        return f"{minutes} min {whole % 60:02d} s"
    if days < 1:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24:02d} h"


def _brief(value: float | str) -> str:
    if isinstance(value, str):
        return value
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
