"""How every script and command ends: 0, 2 and one line for an error of the user's or of the
machine's, 1 and one line for a training that broke down, 130 or 143 after Ctrl-C or SIGTERM, 141
and no word where the reader of the output has left."""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from hanabi_rl.launch.safe_stdio import safe_streams
from hanabi_rl.storage.files import expand_home

DEBUG = "--debug"
RESEND_AFTER_S = 0.05
"""Delay before an ignored signal is sent again."""


@contextmanager
def user_errors(program: str, args: Sequence[str]) -> Iterator[list[str]]:
    """Ends the process with one line on stderr for an error, and for a signal while there is
    nothing to save (in a training loop `GracefulStop` takes signals). Yields `args` with home
    folders for `~`, and without --debug, which shows an error's traceback instead."""
    before = signal.signal(signal.SIGTERM, _end)
    with safe_streams() as output:
        try:
            try:
                with _resend_ignored_signals():
                    yield [expand_home(arg) for arg in args if arg != DEBUG]
            finally:
                output.finish()  # detect a broken pipe here, not at interpreter exit
        except BrokenPipeError:
            sys.exit(128 + signal.SIGPIPE)
        except (ValueError, OSError, FloatingPointError, MemoryError, RuntimeError) as error:
            if DEBUG in args or not (line := _one_line(error)):
                raise
            print(f"{program}: {line} ({DEBUG} shows where)", file=sys.stderr)
            sys.exit(1 if isinstance(error, FloatingPointError) else 2)
        except KeyboardInterrupt:
            print(
                f"{program}: stopped without saving; what was saved before is as it was",
                file=sys.stderr,
            )
            sys.exit(128 + signal.SIGINT)
        finally:
            signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: object) -> NoReturn:
    """Ends the process as by an error, so that what is open is closed on the way out; but not with
    what libraries do after that: jax, torn out of a compilation, may crash there."""
    atexit.register(_leave, 128 + number)  # the last one that is registered runs first
    sys.exit(128 + number)


def _leave(code: int) -> NoReturn:
    for child in multiprocessing.active_children():
        if child.daemon:
            child.terminate()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


@contextmanager
def _resend_ignored_signals() -> Iterator[None]:
    """What ends the process is raised wherever it happens to be, and Python ignores what a callback
    of its garbage collector or a finalizer raises (jax has such a callback, and collects while it
    compiles): that signal comes again, until it is raised where it is heeded; once, however many
    were ignored, or the others would interrupt what the first one ends with."""
    before = sys.unraisablehook
    waiting: list[threading.Timer] = []

    def send(number: int) -> None:
        waiting.clear()  # before it is raised, and perhaps ignored again
        os.kill(os.getpid(), number)

    def on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
        raised = unraisable.exc_value
        if isinstance(raised, KeyboardInterrupt):
            number = signal.SIGINT
        elif isinstance(raised, SystemExit) and raised.code == 128 + signal.SIGTERM:
            number = signal.SIGTERM
        else:
            before(unraisable)
            return
        if waiting:
            return
        timer = threading.Timer(RESEND_AFTER_S, send, (number,))
        timer.daemon = True
        waiting.append(timer)
        timer.start()

    sys.unraisablehook = on_unraisable
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in waiting:
            timer.cancel()


def _one_line(error: Exception) -> str | None:
    """The error in one line; None if it is neither the user's nor the machine's."""
    line = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError) or line.startswith("RESOURCE_EXHAUSTED"):  # NumPy's, JAX's
        return f"out of memory: {line[:300]}"
    return None if isinstance(error, RuntimeError) else line
