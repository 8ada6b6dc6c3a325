"""Exit codes and one-line errors of all scripts and commands.

0: success; 1: training failed; 2: error of the user or machine; 130, 143: Ctrl-C, SIGTERM; 141: the
reader of the output is gone (no message).
"""

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
"""Seconds until an ignored signal is sent again."""


@contextmanager
def user_errors(program: str, args: Sequence[str]) -> Iterator[list[str]]:
    """End the process with one line on stderr after an error, or a signal outside training.

    `GracefulStop` handles signals in a training loop. Yields `args` with `~` expanded and without
    --debug, which shows tracebacks.
    """
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
            print(f"{program}: stopped without saving; earlier saves are intact", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        finally:
            signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: object) -> NoReturn:
    """End the process as after an error, so that open resources are closed, but skip the exit
    handlers of libraries: JAX, interrupted in a compilation, may crash in them."""
    atexit.register(_leave, 128 + number)  # handlers run in reverse order
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
    """Send a signal again if Python ignored its exception.

    Python ignores exceptions in garbage collector callbacks and finalizers; JAX has such a callback
    and collects while it compiles. Several ignored signals are sent once, or the others would
    interrupt the exit.
    """
    before = sys.unraisablehook
    waiting: list[threading.Timer] = []

    def send(number: int) -> None:
        waiting.clear()  # before it is raised, and perhaps ignored again
        os.kill(os.getpid(), number)

    def send_again(number: int) -> None:
        if any(timer.is_alive() for timer in waiting):
            return
        timer = threading.Timer(RESEND_AFTER_S, send, (number,))
        timer.daemon = True
        waiting[:] = [timer]
        timer.start()

    def on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
        raised: BaseException | None = unraisable.exc_value
        while True:
            try:
                if isinstance(raised, KeyboardInterrupt):
                    send_again(signal.SIGINT)
                elif isinstance(raised, SystemExit) and raised.code == 128 + signal.SIGTERM:
                    send_again(signal.SIGTERM)
                else:
                    before(unraisable)
                return
            except (KeyboardInterrupt, SystemExit) as another:  # a signal that came meanwhile
                raised = another

    sys.unraisablehook = on_unraisable
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in waiting:
            timer.cancel()


def _one_line(error: Exception) -> str | None:
    """The error as one line; None for a programming error."""
    if (host := sys.modules.get("hanabi_rl.agents.python_bot")) is not None:
        error = host.host_error(error)
    line = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError) or line.startswith("RESOURCE_EXHAUSTED"):  # NumPy's and JAX's
        return f"out of memory: {line[:300]}"
    return None if isinstance(error, RuntimeError) else line
