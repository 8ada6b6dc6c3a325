"""Progress on the terminal."""

import io

import pytest

from hanabi_rl.runs.progress import Progress, format_seconds


def test_progress_without_a_terminal_prints_plain_lines() -> None:
    stream = io.StringIO()
    with Progress("BC", total=4, unit="epochs", interval_s=0.0, stream=stream) as progress:
        progress.update(2, accuracy=0.41234)
        progress.update(4, accuracy=0.5)
    first, last = stream.getvalue().splitlines()
    assert (
        first.startswith("BC: 2/4 epochs, ")
        and "epochs/s" in first
        and " left" in first
        and first.endswith("accuracy 0.412")
    )
    assert last.startswith("BC: 4/4 epochs, ") and "left" not in last


def test_progress_without_a_terminal_is_quiet_between_lines() -> None:
    stream = io.StringIO()
    with Progress("PPO", total=1000, unit="steps", interval_s=3600.0, stream=stream) as progress:
        for position in range(1, 1001):
            progress.update(position)
    assert len(stream.getvalue().splitlines()) == 1  # the last one


def test_progress_on_a_terminal_is_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

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
