"""Progress on the terminal."""

import io
import time

import pytest

from hanabi_rl.runs.progress import Progress, format_seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """The seconds that the progress, and tqdm, read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for name in ("time", "monotonic"):
            monkeypatch.setattr(time, name, lambda: self.now)
        monkeypatch.setattr("tqdm.std.time", lambda: self.now)


def test_no_time_is_estimated_of_the_update_that_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("BC", total=40, unit="epochs", stream=stream) as progress:
        for seconds, epoch in ((600, 1), (20, 11), (20, 21), (38, 40)):
            clock.now += seconds
            progress.update(epoch, accuracy=0.41234)
    assert stream.getvalue().splitlines() == [
        "BC: 1/40 epochs, accuracy 0.412",
        "BC: 11/40 epochs, 0.5 epochs/s, 58 s left, accuracy 0.412",
        "BC: 21/40 epochs, 0.5 epochs/s, 38 s left, accuracy 0.412",
        "BC: 40/40 epochs, 0.5 epochs/s, accuracy 0.412",
    ]


def test_nor_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(monkeypatch), Terminal()
    with Progress("BC", total=40, unit="epochs", stream=stream) as progress:
        shown = []
        for seconds, epoch in ((600, 1), (20, 11), (20, 21)):
            clock.now += seconds
            progress.update(epoch)
            shown.append(stream.getvalue().split("\r")[-1])
    assert "1/40 [10:00<?, ? epochs/s]" in shown[0]
    assert "11/40 [10:20<00:58," in shown[1] and "21/40 [10:40<00:38," in shown[2]


def test_progress_without_a_terminal_is_quiet_between_lines() -> None:
    stream = io.StringIO()
    with Progress("PPO", total=1000, unit="steps", interval_s=3600.0, stream=stream) as progress:
        for position in range(1, 1001):
            progress.update(position)
    assert len(stream.getvalue().splitlines()) == 1  # the last one


def test_progress_on_a_terminal_is_a_bar() -> None:
    stream = Terminal()
    with Progress("PPO", total=10, unit="steps", initial=5, stream=stream) as progress:
        progress.update(10, score=21.5)
    assert "PPO: 100%" in stream.getvalue() and "score 21.5" in stream.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_that_is_not_shown_writes_nothing(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    with Progress("games", total=4, unit="games", interval_s=0.0, stream=stream, shown=False) as p:
        p.update(2)
        p.update(4)
    assert stream.getvalue() == ""


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
