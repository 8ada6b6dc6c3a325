"""What one network address and one key may do: `RequestLimiter`. Addresses are kept in memory
alone, never stored or logged."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from hanabi_rl.people.serve.lifecycle import RefusedError

_REMEMBERED = 10_000  # addresses or keys of each rate


@dataclasses.dataclass(frozen=True)
class NetworkLimits:
    """Behind a proxy every connection has the proxy's address: raise what is an address's. Each web
    process counts for itself."""

    request_s: float = 10.0
    """A request has to be whole so many seconds after its connection or its first byte."""
    head_bytes: int = 16384
    """Of a request's line and headers."""
    connections: int = 2000
    """At a time, in all ..."""
    address_connections: int = 64
    """... and of one network address."""
    address_openings: int = 300
    """Games that one address may open a minute."""
    address_wrong_keys: int = 10
    """Keys that open nothing which one address may try a minute."""
    key_openings: int = 600
    """Games that one key may open a minute, from wherever."""
    key_infos: int = 600
    """How often a minute the games of one key may be listed."""
    unread_s: float = 10.0
    """A client that takes nothing so long while more than 64 KiB wait for it is disconnected."""

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value <= 0:
                raise ValueError(
                    f"--limits.{name.replace('_', '-')}: expected above 0, got {value}"
                )


class RateLimit:
    """At most `per_minute` events of each address or key, all of them at once if it likes."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = per_minute, clock
        self._buckets: collections.OrderedDict[str | int, tuple[float, float]] = (
            collections.OrderedDict()
        )

    def wait_s(self, source: str | int) -> int:
        """Whole seconds until the next one; 0: now."""
        return math.ceil(max(0.0, 1.0 - self._tokens(source)) * 60.0 / self.per_minute)

    def take(self, source: str | int) -> None:
        """One more."""
        self._buckets[source] = self._tokens(source) - 1.0, self.clock()
        self._buckets.move_to_end(source)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)

    def _tokens(self, source: str | int) -> float:
        left, at = self._buckets.get(source, (float(self.per_minute), 0.0))
        return min(float(self.per_minute), left + (self.clock() - at) * self.per_minute / 60.0)


class RequestLimiter:
    """The limits of one server, and who is near them."""

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        self.limits = limits or NetworkLimits()
        self.stopping = False  # connections that end now are ended by the server
        self.connections: collections.Counter[str] = collections.Counter()
        self._openings = RateLimit(self.limits.address_openings)
        self._wrong_keys = RateLimit(self.limits.address_wrong_keys)
        self._key_openings = RateLimit(self.limits.key_openings)
        self._infos = RateLimit(self.limits.key_infos)

    def check_opening(self, address: str) -> None:
        """One more game is asked for. Raises RefusedError, which says when to come back."""
        _take(self._openings, address, "games were opened from your address")

    def check_key(self, address: str) -> None:
        """Before a key is looked up. Raises RefusedError, which says when to come back."""
        _check(self._wrong_keys, address, "unknown keys were tried from your address")

    def wrong_key(self, address: str) -> None:
        """The key was unknown."""
        self._wrong_keys.take(address)

    def check_key_opening(self, key_id: int) -> None:
        """One more game of a key is asked for. Raises RefusedError, as `check_opening`."""
        _take(self._key_openings, key_id, "games were opened with this key")

    def check_info(self, key_id: int) -> None:
        """The games of a key are to be listed. Raises RefusedError, as `check_opening`."""
        _take(self._infos, key_id, "lists of this key's games were asked for")

    def enter(self, address: str) -> str | None:
        """A connection is made, and counts until `leave`; why it is one too many."""
        self.connections[address] += 1
        if self.connections.total() > self.limits.connections:
            return f"the server has {self.limits.connections} connections, as many as may be"
        if self.connections[address] > self.limits.address_connections:
            return (
                f"your address has {self.limits.address_connections} connections, as many as may be"
            )
        return None

    def leave(self, address: str) -> None:
        """It is closed."""
        self.connections[address] -= 1
        if self.connections[address] <= 0:
            del self.connections[address]


def _check(rate: RateLimit, source: str | int, what: str) -> None:
    wait_s = rate.wait_s(source)
    if wait_s:
        raise RefusedError(
            f"more than {rate.per_minute} {what} within a minute: try again in {wait_s} s"
        )


def _take(rate: RateLimit, source: str | int, what: str) -> None:
    _check(rate, source, what)
    rate.take(source)


def address_of(client: Any) -> str:
    """Of a connection's (host, port), as uvicorn and Starlette give it."""
    return client[0] if client else ""
