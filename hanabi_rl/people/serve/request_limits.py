"""Limits per network address and per key: `RequestLimiter`. Addresses are only in memory, never
stored or logged."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

from hanabi_rl.people.serve.lifecycle import RefusedError

_REMEMBERED = 10_000  # addresses or keys per rate limit


@dataclasses.dataclass(frozen=True)
class NetworkLimits:
    """Network limits. Each web process counts separately. Behind a reverse proxy all connections
    have its address: raise the limits per address."""

    request_s: float = 10.0
    """Seconds from connecting or the first byte until a request must be complete."""
    head_bytes: int = 16384
    """Maximum bytes of a request's line and headers."""
    connections: int = 2000
    """Maximum connections in total."""
    address_connections: int = 64
    """Maximum connections per address."""
    address_openings: int = 300
    """Maximum games that one address may open per minute."""
    address_wrong_keys: int = 10
    """Maximum unknown keys that one address may try per minute."""
    key_openings: int = 600
    """Maximum games that one key may open per minute, from all addresses."""
    key_infos: int = 600
    """Maximum requests per minute to list one key's games."""
    unread_s: float = 10.0
    """Seconds until a client that does not read is disconnected, with over 64 KiB waiting."""

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value <= 0:
                raise ValueError(
                    f"--limits.{name.replace('_', '-')}: expected above 0, got {value}"
                )


class RateLimit:
    """Token bucket of `per_minute` events per address or key."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = per_minute, clock
        self._buckets: collections.OrderedDict[str | int, tuple[float, float]] = (
            collections.OrderedDict()
        )

    def wait_s(self, source: str | int) -> int:
        """Whole seconds until the next event is allowed; 0: now."""
        return math.ceil(max(0.0, 1.0 - self._tokens(source)) * 60.0 / self.per_minute)

    def take(self, source: str | int) -> None:
        """Count one event."""
        self._buckets[source] = self._tokens(source) - 1.0, self.clock()
        self._buckets.move_to_end(source)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)

    def _tokens(self, source: str | int) -> float:
        left, at = self._buckets.get(source, (float(self.per_minute), 0.0))
        return min(float(self.per_minute), left + (self.clock() - at) * self.per_minute / 60.0)


class RequestLimiter:
    """Limits of one server and their current counts."""

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        self.limits = limits or NetworkLimits()
        self.stopping = False  # if True, the server ends the connections
        self.connections: collections.Counter[str] = collections.Counter()
        self._openings = RateLimit(self.limits.address_openings)
        self._wrong_keys = RateLimit(self.limits.address_wrong_keys)
        self._key_openings = RateLimit(self.limits.key_openings)
        self._infos = RateLimit(self.limits.key_infos)

    def check_opening(self, address: str) -> None:
        """Count an opened game. Raises RefusedError with the time to wait."""
        _take(self._openings, address, "games were opened from your address")

    def check_key(self, address: str) -> None:
        """Check before a key is looked up. Raises RefusedError with the time to wait."""
        _check(self._wrong_keys, address, "unknown keys were tried from your address")

    def wrong_key(self, address: str) -> None:
        """Count an unknown key."""
        self._wrong_keys.take(address)

    def check_key_opening(self, key_id: int) -> None:
        """Count an opened game of a key. Raises RefusedError as `check_opening`."""
        _take(self._key_openings, key_id, "games were opened with this key")

    def check_info(self, key_id: int) -> None:
        """Count a listing of a key's games. Raises RefusedError as `check_opening`."""
        _take(self._infos, key_id, "lists of this key's games were requested")

    def enter(self, address: str) -> str | None:
        """Count a connection until `leave`; return the reason if it exceeds a limit."""
        self.connections[address] += 1
        if self.connections.total() > self.limits.connections:
            return f"the server has {self.limits.connections} connections, the maximum"
        if self.connections[address] > self.limits.address_connections:
            return f"your address has {self.limits.address_connections} connections, the maximum"
        return None

    def leave(self, address: str) -> None:
        """Stop counting a closed connection."""
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
    """Address of a (host, port) of uvicorn or Starlette."""
    return client[0] if client else ""
