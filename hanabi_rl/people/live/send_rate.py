"""How many messages we send, and how long we wait before we connect again."""

from __future__ import annotations

import collections
import random

MESSAGES, WINDOW_S = 20, 2.0
"""A tenth of what the server bans for (`protocol.SERVER_RATE`)."""
MAX_WAIT_S = 300.0
STABLE_AFTER_S = 120.0
"""A connection that lasted so long was a good one."""


class SendRateLimiter:
    """At most `messages` in any `window_s` seconds."""

    def __init__(self, messages: int = MESSAGES, window_s: float = WINDOW_S) -> None:
        self._messages, self._window_s = messages, window_s
        self._sent: collections.deque[float] = collections.deque()

    def wait_s(self, now: float) -> float:
        """How long the next message must wait."""
        while self._sent and self._sent[0] <= now - self._window_s:
            self._sent.popleft()
        if len(self._sent) < self._messages:
            return 0.0
        return self._sent[-self._messages] + self._window_s - now

    def sent(self, now: float) -> None:
        """A message was sent."""
        self._sent.append(now)


class BackOff:
    """Waits of 2, 4, 8, ... seconds, each drawn from half of it to all of it, so that after a
    restart of the server not everybody comes at once."""

    def __init__(self, rng: random.Random | None = None, first_s: float = 2.0) -> None:
        self._rng = random.Random() if rng is None else rng
        self._first_s, self._failures = first_s, 0

    def record_duration(self, seconds: float) -> None:
        """The last connection was open for so long."""
        if seconds >= STABLE_AFTER_S:
            self._failures = 0

    def next_s(self) -> float:
        """How long to wait before the next attempt."""
        whole = min(MAX_WAIT_S, self._first_s * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return whole * self._rng.uniform(0.5, 1.0)
