"""Rate limit of sent messages, and back-off of reconnects."""

import collections
import random

MESSAGES, WINDOW_S = 20, 2.0
"""A tenth of the rate that the server bans (`protocol.SERVER_RATE`)."""
MAX_WAIT_S = 300.0
STABLE_AFTER_S = 120.0
"""A connection of this duration resets the back-off."""


class SendRateLimiter:
    """At most `messages` messages in any `window_s` seconds."""

    def __init__(self, messages: int = MESSAGES, window_s: float = WINDOW_S) -> None:
        self._messages, self._window_s = messages, window_s
        self._sent: collections.deque[float] = collections.deque()

    def wait_s(self, now: float) -> float:
        """Seconds that the next message must wait."""
        while self._sent and self._sent[0] <= now - self._window_s:
            self._sent.popleft()
        if len(self._sent) < self._messages:
            return 0.0
        return self._sent[-self._messages] + self._window_s - now

    def sent(self, now: float) -> None:
        """Record that a message was sent."""
        self._sent.append(now)


class BackOff:
    """Waits of 2, 4, 8, ... seconds, sampled between half and all of it, so that clients do not
    reconnect simultaneously after a restart of the server."""

    def __init__(self, rng: random.Random | None = None, first_s: float = 2.0) -> None:
        self._rng = random.Random() if rng is None else rng
        self._first_s, self._failures = first_s, 0

    def record_duration(self, seconds: float) -> None:
        """Record how long the last connection was open."""
        if seconds >= STABLE_AFTER_S:
            self._failures = 0

    def next_s(self) -> float:
        """Seconds before the next attempt."""
        whole = min(MAX_WAIT_S, self._first_s * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return whole * self._rng.uniform(0.5, 1.0)
