"""Progress of long computations, on the terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import ClassVar, TextIO

from tqdm import tqdm

SOON_S = 4.0
"""Evaluations shorter than this show no progress."""
_DRAWN_S = 0.1  # min seconds between two redraws of a bar
_TICK_S = 1.0  # seconds between two redraws of a bar without updates
_COMPILING = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class _Compilation:
    """Seconds that JAX has spent compiling in this process since `listen`."""

    def __init__(self) -> None:
        self.seconds, self._listening = 0.0, False

    def listen(self) -> None:
        """Start counting, if JAX is loaded."""
        if self._listening or "jax" not in sys.modules:
            return
        from jax import monitoring

        self._listening = True
        monitoring.register_event_duration_secs_listener(self._add)

    def _add(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event in _COMPILING:
            self.seconds += duration_secs


_compilation = _Compilation()


class Progress:
    """Progress on stderr with rate and time left: a bar, or plain lines if stderr is no terminal.

        with Progress("BC", total=70, unit="epochs") as progress:
            progress.update(epoch, accuracy=0.41)

    The rate is measured from the first update, without JAX's compile time. Plain lines also appear
    without updates, because the first one may take minutes. Only the innermost open Progress writes
    them.

    Args:
        title: name of the computation.
        total: final position.
        unit: unit of positions, in the plural.
        initial: first position (of a resumed run).
        interval_s: min seconds between two plain lines.
        stream: output stream; stderr by default.
        quiet_s: initial seconds without output. Inside another Progress with such a time there is
            no output; a bar disappears at the end.
    """

    _open: ClassVar[list[Progress]] = []

    def __init__(
        self,
        title: str,
        *,
        total: int,
        unit: str,
        initial: int = 0,
        interval_s: float = 15.0,
        stream: TextIO | None = None,
        quiet_s: float = 0.0,
    ) -> None:
        self._title, self._total, self._unit, self._interval_s = title, total, unit, interval_s
        self._stream = stream or sys.stderr
        self._quiet_s = quiet_s
        self._visible = not (quiet_s and any(other._quiet_s for other in self._open))
        self._position, self._text = initial, ""
        self._since: tuple[float, float, int] | None = None
        """Start of the rate, the first update: (time, compilation, position)."""
        self._began = self._written_at = time.monotonic()
        self._bar: tqdm | None = None
        self._lock, self._closed = threading.Lock(), threading.Event()
        _compilation.listen()
        if self._visible:
            self._open.append(self)
            if self._stream.isatty() and not quiet_s:
                self._draw()
            threading.Thread(target=self._watch, daemon=True).start()

    def update(self, position: int, **values: float | str) -> None:
        """Set the position to `position` (not by it) and the values printed after it."""
        if not self._visible:
            return
        with self._lock:
            self._position = int(position)
            self._text = ", ".join(f"{name} {_brief(value)}" for name, value in values.items())
            if self._since is None:
                self._since = (time.monotonic(), _compilation.seconds, self._position)
            self._show(self._interval_s)

    def _show(self, interval_s: float) -> None:
        """Write the state, unless that was done less than `interval_s` ago."""
        now, ends = time.monotonic(), self._position >= self._total
        if now - self._began < self._quiet_s:
            return
        if self._stream.isatty():
            if ends or now - self._written_at >= _DRAWN_S or self._bar is None:
                self._written_at = now
                self._draw()
        elif ends or now - self._written_at >= interval_s:
            self._written_at = now
            parts = [f"{self._title}: {self._position:,}/{self._total:,} {self._unit}"]
            parts += self._rate(now) or [f"{format_seconds(now - self._began)} so far"]
            parts += [self._text] if self._text else []
            print(", ".join(parts), file=self._stream, flush=True)

    def _draw(self) -> None:
        now = time.monotonic()
        if self._bar is None:
            self._bar = tqdm(
                total=self._total,
                initial=self._position,
                desc=self._title,
                unit_scale=self._total >= 10_000,
                dynamic_ncols=True,
                file=self._stream,
                leave=not self._quiet_s,
                bar_format=f"{{l_bar}}{{bar}}| {{n_fmt}}/{{total_fmt}} {self._unit} "
                "[{elapsed}{postfix}]",
            )
            self._bar.start_t -= now - self._began
        self._bar.n = self._position
        parts = [*self._rate(now), *([self._text] if self._text else [])]
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.refresh()

    def _rate(self, now: float) -> list[str]:
        """Rate and time left; empty while unknown."""
        if self._since is None or self._position == self._since[2]:
            return []
        since, compiled, position = self._since
        elapsed, compiling = now - since, _compilation.seconds - compiled
        # JAX may compile while devices work
        working = max(elapsed - compiling, 0.1 * elapsed, 1e-9)
        rate = (self._position - position) / working
        parts = [f"{_brief(rate)} {self._unit}/s"]
        if self._position < self._total:
            parts.append(f"{format_seconds((self._total - self._position) / rate)} left")
        return parts

    def _watch(self) -> None:
        """Write without updates until closed; a bar's clock runs also while JAX compiles."""
        interval_s = _TICK_S if self._stream.isatty() else max(self._interval_s, _DRAWN_S)
        while not self._closed.wait(interval_s):
            with self._lock:
                if not self._closed.is_set() and self._open[-1:] == [self]:
                    self._show(self._interval_s)

    def close(self) -> None:
        """Leave the bar as it is."""
        with self._lock:
            self._closed.set()
            if self in self._open:
                self._open.remove(self)
            if self._bar is not None:
                self._bar.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def print_above(text: str, stream: TextIO) -> None:
    """Print a line; bars on the terminal move below it."""
    with tqdm.external_write_mode(stream):
        print(text, file=stream, flush=True)


def format_seconds(seconds: float) -> str:
    """Readable duration: `45 s`, `3 min 20 s`, `5 h 07 min`, `2 d 03 h`."""
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
