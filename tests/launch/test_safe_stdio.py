"""Results reach the user, whatever can be printed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hanabi_rl.cli import main
from hanabi_rl.launch import errors
from hanabi_rl.launch.errors import user_errors
from hanabi_rl.launch.safe_stdio import SafeStream, safe_streams

SHOWN = "12.3 ± 0.4 |▁▄█| β ─│┌ é → 日"


def terminal(encoding: str) -> io.TextIOWrapper:
    """As strict as Python's stdout."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", SHOWN),
        ("ascii", "12.3 ? 0.4 |???| ? ??? ? ? ?"),
        ("latin-1", "12.3 ± 0.4 |???| ? ??? é ? ?"),
        ("cp437", "12.3 ± 0.4 |?▄█| ? ─│┌ é ? ?"),
    ],
)
def test_unknown_character_prints_question_mark(
    monkeypatch: pytest.MonkeyPatch, encoding: str, expected: str
) -> None:
    for name in ("stdout", "stderr"):
        stream = terminal(encoding)
        monkeypatch.setattr(sys, name, stream)
        with user_errors("test", []):
            print(SHOWN, file=getattr(sys, name))
        assert written(stream) == f"{expected}\n"
        assert getattr(sys, name) is stream


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_evaluation_prints_on_ascii_terminal(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    stream = terminal(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    main(["evaluate", "bot:random", "--games", "32", "--seed", "5"])
    text = written(stream)
    assert "self-play" in text and "scores 0 to 25: |?" in text and "best game" in text


class Broken(io.StringIO):
    """A broken pipe."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_broken_stderr_keeps_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json the table goes to stderr, like all progress bars."""
    monkeypatch.setattr("hanabi_rl.launch.safe_stdio._silence", lambda stream: None)
    monkeypatch.setattr(sys, "stderr", Broken())
    main(["evaluate", "bot:random", "--games", "32", "--seed", "5", "--json"])
    assert json.loads(capsys.readouterr().out)["games"] == 32


def test_closed_stderr_is_not_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For print(file=None), which a closed stream is, None means stdout."""
    monkeypatch.setattr(sys, "stderr", None)
    with user_errors("test", []):
        print("decoration", file=sys.stderr)
        print("result")
    assert capsys.readouterr().out == "result\n"


@pytest.mark.parametrize(
    ("error", "code"), [(BrokenPipeError(), 128 + signal.SIGPIPE), (OSError(28, "full"), 2)]
)
def test_broken_stdout_does_not_stop_run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    code: int,
) -> None:
    """A run with prints still writes its files, and then reports the error."""

    class Failing(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    monkeypatch.setattr("hanabi_rl.launch.safe_stdio._silence", lambda stream: None)
    monkeypatch.setattr(sys, "stdout", Failing())
    done: list[str] = []

    def command() -> None:
        with user_errors("test", []):
            print("table")
            done.append("files")

    with pytest.raises(SystemExit) as stop:
        command()
    assert done == ["files"] and stop.value.code == code
    assert capsys.readouterr().err == (
        "" if code == 141 else "test: [Errno 28] full (--debug shows where)\n"
    )


def test_safe_stream_keeps_first_error() -> None:
    stream = SafeStream(Broken())
    assert stream.write("abc") == 3 and isinstance(stream.error, BrokenPipeError)
    assert not stream.isatty()
    with pytest.raises(BrokenPipeError):
        stream.finish()
    whole = io.StringIO()
    with safe_streams():
        SafeStream(whole).write("abc")
    assert whole.getvalue() == "abc"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 9 EiB"), "out of memory: Unable to allocate"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), "out of memory: RESOURCE_EX"),
    ],
)
def test_out_of_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    with pytest.raises(SystemExit) as stop, user_errors("test", []):
        raise error
    err = capsys.readouterr().err
    assert stop.value.code == 2 and message in err and len(err.splitlines()) == 1
    with pytest.raises(RuntimeError, match="a bug"), user_errors("test", []):
        raise RuntimeError("a bug")


def run(shell: str) -> subprocess.CompletedProcess[bytes]:
    command = shell.replace("hanabi-rl", f"{sys.executable} -m hanabi_rl")
    return subprocess.run(["bash", "-c", command], capture_output=True, check=False)


@pytest.mark.slow  # a process
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_disk_is_one_line() -> None:
    done = run("hanabi-rl agents > /dev/full")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


@pytest.mark.slow  # three processes
def test_closed_streams_are_accepted() -> None:
    done = run("hanabi-rl agents 2>&- | head -c 8; exit ${PIPESTATUS[0]}")
    assert done.stdout == b"bot:rand" and done.returncode in (0, 128 + signal.SIGPIPE)
    assert run("hanabi-rl agents >&-").returncode == 0


def test_undecodable_argument_is_accepted(capsysbinary: Any) -> None:
    """A file name with bytes that are not UTF-8 arrives as lone surrogates."""
    with user_errors("test", []):
        print("games\udcff.json")
    assert capsysbinary.readouterr().out == b"games?.json\n"


def test_signal_during_the_hook_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was printed as an exception of the hook, and lost."""
    started: list[tuple[float, int]] = []

    class Timer:
        def __init__(self, seconds: float, send: Any, args: tuple[int]) -> None:
            self.planned = (seconds, *args)

        def start(self) -> None:
            if not started:
                started.append((0, 0))
                raise KeyboardInterrupt
            started.append(self.planned)

        def is_alive(self) -> bool:
            return len(started) > 1

        def cancel(self) -> None:
            pass

    monkeypatch.setattr(errors.threading, "Timer", Timer)
    with errors._resend_ignored_signals():
        for _ in range(2):  # the second waits already
            terminated = SystemExit(128 + signal.SIGTERM)
            try:
                sys.unraisablehook(SimpleNamespace(exc_value=terminated))  # type: ignore[arg-type]
            except KeyboardInterrupt:  # would end pytest
                pytest.fail("a signal interrupted the hook")
    assert started == [(0, 0), (errors.RESEND_AFTER_S, signal.SIGINT)]


IGNORED = """
import gc, os, signal, sys, time
from hanabi_rl.launch.errors import user_errors
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
left = [{times}]
class Finalised:
    def __del__(self):
        raised()
def raised(*_):
    if left[0]:
        left[0] -= 1
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)  # the handler raises here, and Python ignores it
with user_errors("test", []):
    {how}
    end = time.monotonic() + 300
    while time.monotonic() < end:
        gc.collect()
    sys.exit("not ended")
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize("how", ["gc.callbacks.append(raised)", "Finalised()"])
def test_ignored_signal_is_sent_again(name: str, code: int, how: str) -> None:
    """As in JAX's garbage collector callback while a study compiled."""
    times = 30 if "gc" in how else 1  # several signals wait to be sent again
    program = IGNORED.format(name=name, how=how, times=times)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    text = b"test: stopped without saving" if code == 130 else b""
    assert done.returncode == code and done.stderr.startswith(text), done.stderr
    assert done.stderr.count(b"\n") == (code == 130)


COMPILES = """
import gc, sys
gc.set_threshold(20, 2, 2)  # what is raised comes in jax's callback of the collector, or near it
from hanabi_rl.cli import main
main(["study", "casual", "--port", "0", "--state", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait_s", [0.5, 2.5])
def test_sigterm_ends_compiling_study(tmp_path: Any, wait_s: float) -> None:
    """At once, with 143: no signal is lost, and the exit does not crash."""
    nothing_compiled = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", COMPILES, str(tmp_path / "study")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=nothing_compiled,
    ) as study:
        assert study.stdout is not None
        text = b""
        while b"compiling" not in text and study.poll() is None:
            text += study.stdout.read(1)
        time.sleep(wait_s)
        study.terminate()
        assert study.wait(60) == 143, text + study.stdout.read()


def test_command_expands_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    flags = ["--out=~/x", "~/a", "--debug", "--partners", "bot:iggi", "obl:~/b", "~"]
    with user_errors("test", flags) as args:
        pass
    assert args == [
        "--out=/home/me/x",
        "/home/me/a",
        "--partners",
        "bot:iggi",
        "obl:/home/me/b",
        "/home/me",
    ]
