"""Timeouts and limits below ASGI: uvicorn has no timeout for incomplete requests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hanabi_rl.people.serve.request_limits import NetworkLimits, RequestLimiter, address_of


class GuardedConfig(uvicorn.Config):
    """uvicorn configuration of an application under `limits`. Each web process builds its own
    limiter and application."""

    def __init__(
        self, make_app: Callable[[RequestLimiter], Any], limits: NetworkLimits, **fields: Any
    ):
        super().__init__(make_app, factory=True, **fields)
        self.make_app, self.limits = make_app, limits

    def load(self) -> None:
        """See `uvicorn.Config`: called once in each process."""
        limiter = RequestLimiter(self.limits)
        self.http, self.ws = protocols(limiter)
        self.app = functools.partial(self.make_app, limiter)
        super().load()


def protocols(limiter: RequestLimiter) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """uvicorn's `http` and `ws` classes with the limits of `limiter`."""

    class Reader:
        """Connection that is aborted if its peer stops reading."""

        transport: Any
        unread_timer: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()  # type: ignore[misc]
            loop = asyncio.get_running_loop()
            self.unread_timer = loop.call_later(limiter.limits.unread_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()  # type: ignore[misc]
            self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)  # type: ignore[misc]
            self._stop_timer()

        def _stop_timer(self) -> None:
            if self.unread_timer is not None:
                self.unread_timer.cancel()
                self.unread_timer = None

    class Http(Reader, H11Protocol):
        deadline: asyncio.TimerHandle | None = None
        refused = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            reason = limiter.enter(address_of(self.client))
            if reason is None:
                self._wait()
            else:
                self.refused = True
                transport.write(_refusal(reason))
                transport.close()

        def data_received(self, data: bytes) -> None:
            if self.refused:
                return
            super().data_received(data)
            taken_over = self.transport.get_protocol() is not self  # by `WebSocket`
            if not taken_over and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._wait()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            limiter.leave(address_of(self.client))
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self.deadline is None:
                self.deadline = self.loop.call_later(limiter.limits.request_s, self.transport.abort)

        def _stop_waiting(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    class WebSocket(Reader, WebSocketsSansIOProtocol):
        def shutdown(self) -> None:
            limiter.stopping = True
            super().shutdown()

        # `Http.connection_lost` is not called after the WebSocket takes its connection over
        def connection_lost(self, exc: Exception | None) -> None:
            limiter.leave(address_of(self.client))
            super().connection_lost(exc)

    return Http, WebSocket


def _refusal(reason: str) -> bytes:
    body = f"{reason}: try again in 10 s\n".encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
