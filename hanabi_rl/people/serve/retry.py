"""Retries of a client after server failures (`RetryPolicy`) and its threads (`run_threads`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hanabi_rl.people.serve.client import ServerError

MAX_RETRIES = 3  # of a move that the server answers with an error
BACKOFF_S = (0.25, 0.5, 1.0, 2.0, 5.0)  # between retries; the last one repeats


class RetryPolicy:
    """Waits between retries, until the server has been silent for `timeout_s` seconds."""

    def __init__(self, timeout_s: float, stop: threading.Event) -> None:
        self._timeout_s, self._stop, self._at = timeout_s, stop, time.monotonic()

    def reset(self) -> None:
        """Restart the timeout after a response."""
        self._at = time.monotonic()

    def wait(self, tried: int, problem: Exception) -> None:
        """Wait after failure number `tried` (from 0) in a row. Raises ValueError after the
        timeout."""
        silent_s = time.monotonic() - self._at
        if silent_s > self._timeout_s:
            text = str(problem) or type(problem).__name__
            raise ValueError(
                f"no response from the server for {silent_s:.0f} s, last error: {text}; repeat the "
                "command to continue"
            ) from problem
        server_wait_s = problem.wait_s if isinstance(problem, ServerError) else None
        self._stop.wait(server_wait_s or BACKOFF_S[min(tried, len(BACKOFF_S) - 1)])


def run_threads(
    targets: Sequence[Callable[[], None]],
    stop: threading.Event,
    tick: Callable[[], None],
    every_s: float = 0.2,
) -> None:
    """Run `targets` in threads and `tick` meanwhile in this thread, where signals arrive. The first
    failure sets `stop` for the others and is raised here."""
    errors: list[BaseException] = []

    def run(target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in targets]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(every_s)
                tick()
        tick()
    finally:
        stop.set()
    if errors:
        raise errors[0]
