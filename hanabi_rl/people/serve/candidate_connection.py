"""WebSocket connection of a candidate and its disconnect attribution: `CandidateConnection`.

A game counts an interruption only if the candidate left, was silent or sent invalid messages. Any
other end of a connection, including every error, is attributed to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from hanabi_rl.people.serve.database import StoreUnavailableError
from hanabi_rl.people.serve.grants import StaleLeaseError
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.sockets import REFUSED, message_body

GREETING = {"server": "hanabi-rl"}
STORE_UNAVAILABLE = "database unavailable; the game is saved, connect again in a minute"
MOVE_TIMEOUT_S = 300.0  # maximum time for a candidate's answer
SLOW_S = 5.0  # a disconnect after waiting this long for the server is not charged
UNREAD_S = 1.0  # a client gone this soon after an answer left before the answer arrived
_GONE = (WebSocketDisconnect, RuntimeError, OSError)  # socket closed at either end


class _DisconnectedError(Exception):
    """The connection is closed or must be."""


class CandidateConnection:
    """Connection of a candidate on `socket`. resume_note: the state of the game after a disconnect,
    for error messages.

    `left`: True if the candidate ended the connection or was rejected.
    """

    def __init__(self, socket: WebSocket, limiter: RequestLimiter, resume_note: str) -> None:
        self.socket, self._limiter, self._note = socket, limiter, resume_note
        self.left = False
        self._received_at = time.monotonic()  # start of the server's turn
        self._sent_at: float | None = None  # end of the server's turn

    @contextlib.asynccontextmanager
    async def handle_errors(self) -> AsyncIterator[None]:
        """Context of the whole conversation; errors in it are sent to the candidate."""
        try:
            yield
        except _DisconnectedError:
            pass
        except (RefusedError, StaleLeaseError) as error:
            await self._fail(str(error))
        except StoreUnavailableError as error:
            logging.getLogger(__name__).error("connection failed: %s", error)
            await self._fail(STORE_UNAVAILABLE)
        except Exception:
            logging.getLogger(__name__).exception("connection failed")
            await self._fail(f"server error; {self._note}: connect again")

    async def greet(self) -> None:
        """Accept the socket and send the first frame, which the published client drops."""
        try:
            await self.socket.accept()
        except _GONE:
            self._disconnected()
        await self.send(GREETING)

    async def send(self, content: dict[str, Any]) -> None:
        """Send JSON; NumPy arrays become lists."""
        text = _json(content)
        try:
            await self.socket.send_text(text)
        except _GONE:
            self._disconnected()
        self._sent_at = time.monotonic()

    async def receive(self, what: str) -> str | bytes:
        """Receive the next message, within `MOVE_TIMEOUT_S`. what: its name in the timeout
        error."""
        try:
            async with asyncio.timeout(MOVE_TIMEOUT_S) as timeout:
                message = await self.socket.receive()
        except TimeoutError:
            if timeout.expired():
                await self._fail(f"no {what} for {MOVE_TIMEOUT_S:.0f} s; {self._note}")
                self.left = True
                raise _DisconnectedError from None
            raise
        if message["type"] == "websocket.disconnect":
            self._disconnected()
        self._received_at, self._sent_at = time.monotonic(), None
        return message_body(message)

    async def reject(self, reason: str) -> NoReturn:
        """Close because of the candidate's messages."""
        with contextlib.suppress(*_GONE):
            await self.socket.close(REFUSED, reason)
        self.left = True
        raise _DisconnectedError

    async def close(self) -> None:
        """Close after a complete game."""
        with contextlib.suppress(*_GONE):
            await self.socket.close()

    def _disconnected(self) -> NoReturn:
        """Attribute a disconnect: to the server if it is stopping or was slow.

        A disconnect during the server's turn is often noticed only after the server's answer.
        """
        now = time.monotonic()
        sent_at = now if self._sent_at is None else self._sent_at
        waited_s = sent_at - self._received_at if now - sent_at < UNREAD_S else 0.0
        self.left = not self._limiter.stopping and waited_s < SLOW_S
        raise _DisconnectedError

    async def _fail(self, text: str) -> None:
        """Send an error and close, if the socket is still open."""
        with contextlib.suppress(*_GONE):
            await self.socket.send_text(_json({"error_details": text}))
            await self.socket.close()


def _json(content: dict[str, Any]) -> str:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode()
