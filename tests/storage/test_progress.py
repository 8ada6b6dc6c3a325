"""Progress on the terminal."""

import io
import re
import sys
import time

import jax
import numpy as np
import pytest
from jax import monitoring

from hanabi_rl.storage import progress as of_progress
from hanabi_rl.storage.progress import (
    SOON_S,
    Progress,
    _compilation,
    format_seconds,
    print_above,
)

COMPILED = "/jax/core/compile/backend_compile_duration"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Clock of the progress and of tqdm, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for name in ("time", "monotonic"):
            monkeypatch.setattr(time, name, lambda: self.now)
        monkeypatch.setattr("tqdm.std.time", lambda: self.now)


def test_rate_excludes_compiling_update(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("BC", total=40, unit="epochs", stream=stream) as progress:
        for seconds, epoch in ((600, 1), (20, 11), (20, 21), (38, 40)):
            clock.now += seconds
            progress.update(epoch, accuracy=0.41234)
    assert stream.getvalue().splitlines() == [
        "BC: 1/40 epochs, 10 min 00 s so far, accuracy 0.412",
        "BC: 11/40 epochs, 0.5 epochs/s, 58 s left, accuracy 0.412",
        "BC: 21/40 epochs, 0.5 epochs/s, 38 s left, accuracy 0.412",
        "BC: 40/40 epochs, 0.5 epochs/s, accuracy 0.412",
    ]


def test_bar_rate_excludes_compiling_update(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(monkeypatch), Terminal()
    with Progress("BC", total=40, unit="epochs", stream=stream) as progress:
        drawn = []
        for seconds, epoch in ((600, 1), (20, 11), (20, 21)):
            clock.now += seconds
            progress.update(epoch)
            drawn.append(stream.getvalue().split("\r")[-1])
    assert "1/40 epochs [10:00]" in drawn[0]
    assert "11/40 epochs [10:20, 0.5 epochs/s, 58 s left]" in drawn[1]
    assert "21/40 epochs [10:40, 0.5 epochs/s, 38 s left]" in drawn[2]


@pytest.mark.parametrize("terminal", [False, True])
def test_rate_excludes_later_compilation(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the first validation, or another cell of a matrix: 8 of its 10 seconds."""
    clock, stream = Clock(monkeypatch), Terminal() if terminal else io.StringIO()
    with Progress("cells", total=41, unit="cells", interval_s=0.0, stream=stream) as progress:
        clock.now += 30
        progress.update(1)
        for event in (COMPILED, "/jax/something/else"):
            monitoring.record_event_duration_secs(event, 8.0)
        clock.now += 10
        progress.update(2)
        clock.now += 2
        progress.update(3)
    assert "0.5 cells/s, 1 min 16 s left" in re.split(r"[\r\n]+", stream.getvalue().strip())[-1]


def test_compile_time_is_measured() -> None:
    with Progress("cells", total=2, unit="cells", stream=io.StringIO()):
        before = _compilation.seconds
        jax.jit(lambda x: x * 7.1875 + 3)(np.float32(1)).block_until_ready()
        assert _compilation.seconds > before


def test_line_appears_before_first_update() -> None:
    stream = io.StringIO()
    with Progress("games", total=9, unit="games", interval_s=0.05, stream=stream):
        deadline = time.monotonic() + 10
        while stream.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    written = stream.getvalue()
    assert written.splitlines()[:2] == ["games: 0/9 games, 0 s so far"] * 2
    time.sleep(0.2)
    assert stream.getvalue() == written  # closed


@pytest.mark.parametrize("terminal", [False, True])
def test_short_progress_is_quiet(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, lines in ((3, 0), (5, 1)):
        clock, stream = Clock(monkeypatch), Terminal() if terminal else io.StringIO()
        with Progress("games", total=4, unit="games", stream=stream, quiet_s=SOON_S) as progress:
            for position in (2, 4):
                clock.now += seconds / 2
                progress.update(position)
        assert ("4/4 games" in stream.getvalue()) == bool(lines)
        assert bool(stream.getvalue()) == bool(lines)


def test_nested_progress_shows_outer() -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with (
        Progress("games", total=1, unit="decks", interval_s=0.0, stream=outer, quiet_s=1e-9) as one,
        Progress("games", total=9, unit="games", interval_s=0.0, stream=inner, quiet_s=1e-9) as two,
    ):
        two.update(9)
        one.update(1)
    assert "1/1 decks" in outer.getvalue() and inner.getvalue() == ""
    with (
        Progress("cells", total=1, unit="cells", interval_s=0.0, stream=outer) as one,
        Progress("games", total=9, unit="games", interval_s=0.0, stream=inner, quiet_s=1e-9) as two,
    ):
        two.update(9)
        one.update(1)
    assert "1/1 cells" in outer.getvalue() and "9/9 games" in inner.getvalue()


def test_plain_lines_respect_interval() -> None:
    stream = io.StringIO()
    with Progress("PPO", total=1000, unit="steps", interval_s=3600.0, stream=stream) as progress:
        for position in range(1, 1001):
            progress.update(position)
    assert len(stream.getvalue().splitlines()) == 1  # the last line


def test_terminal_progress_is_a_bar() -> None:
    stream = Terminal()
    with Progress("PPO", total=10, unit="steps", initial=5, stream=stream) as progress:
        progress.update(10, score=21.5)
    assert "PPO: 100%" in stream.getvalue() and "score 21.5" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (18420, "5 h 07 min"),
        (2 * 86400 + 3 * 3600, "2 d 03 h"),
    ],
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_bar_shows_what_is_computed_without_further_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_progress, "_TICK_S", 0.05)
    stream = Terminal()
    with Progress("gauntlet", total=3, unit="partners", stream=stream) as progress:
        progress.update(0, playing="bot:smart")  # just after the first drawing
        deadline = time.monotonic() + 20
        while "bot:smart" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "0/3 partners [00:00, playing bot:smart]" in stream.getvalue()


def test_lines_are_printed_above_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is cleared before the line, and drawn again below it."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    with Progress("cells", total=3, unit="cells", stream=stream):
        print_above("a row", stream)
    before, after = stream.getvalue().split("a row\n")
    assert before.rsplit("\r", 1)[1].strip() == "" and "0/3 cells" in before
    assert "0/3 cells" in after
