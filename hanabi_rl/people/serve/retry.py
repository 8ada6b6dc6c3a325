"""What a candidate does about a server that is away or refuses: `RetryPolicy`; and its threads:
`run_threads`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hanabi_rl.people.serve.client import ServerError

MAX_RETRIES = 3  # of a move that the server ends in words
BACKOFF_S = (0.25, 0.5, 1.0, 2.0, 5.0)  # between tries; the last one again and again


class RetryPolicy:
    """Waits between tries, until nothing has come of the server for `timeout_s` seconds."""

    def __init__(self, timeout_s: float, stop: threading.Event) -> None:
        self._timeout_s, self._stop, self._at = timeout_s, stop, time.monotonic()

    def reset(self) -> None:
        """Something came."""
        self._at = time.monotonic()

    def wait(self, tried: int, problem: Exception) -> None:
        """After try number `tried` (from 0) in a row. Raises ValueError where it was too long."""
        silent_s = time.monotonic() - self._at
        if silent_s > self._timeout_s:
            text = str(problem) or type(problem).__name__
            raise ValueError(
                f"nothing came of the server for {silent_s:.0f} s, the last thing: {text}; the "
                "same command goes on"
            ) from problem
        server_wait_s = problem.wait_s if isinstance(problem, ServerError) else None
        self._stop.wait(server_wait_s or BACKOFF_S[min(tried, len(BACKOFF_S) - 1)])


def run_threads(
    targets: Sequence[Callable[[], None]],
    stop: threading.Event,
    tick: Callable[[], None],
    every_s: float = 0.2,
) -> None:
    """Runs `targets` in threads, and `tick` in this one meanwhile, where signals arrive. Whichever
    fails sets `stop` for the others, and what it raised is raised here."""
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
