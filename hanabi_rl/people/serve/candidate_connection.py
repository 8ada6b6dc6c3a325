"""One connection of a candidate: what is said and heard, and whose doing its end is:
`CandidateConnection`.

Only what a candidate did may be charged to its game: it left, was silent, or sent what is no move.
Whatever else ends a connection, an error of any kind included, is the server's.
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

GREETING = {"server": "hanabi-rl"}
MAX_INVALID_MESSAGES = 10  # messages that are no answers, before a connection is closed
STORE_UNAVAILABLE = (
    "the server cannot reach its store for now; the game is kept: connect again in a minute"
)
MOVE_TIMEOUT_S = 300.0  # a candidate may take so long for an answer
SLOW_S = 5.0  # who leaves after waiting so long for the server leaves for the server's sake
UNREAD_S = 1.0  # who is gone so soon after an answer had left before it came
_GONE = (WebSocketDisconnect, RuntimeError, OSError)  # of a socket that is closed at either end


class _DisconnectedError(Exception):
    """Nobody is there any more, or is to be."""


class CandidateConnection:
    """The candidate behind `socket`; `resume_note` says what is as it was when a connection breaks
    off.

    `left`: the candidate ended it, or was shown out for what it did.
    """

    def __init__(self, socket: WebSocket, limiter: RequestLimiter, resume_note: str) -> None:
        self.socket, self._limiter, self._note = socket, limiter, resume_note
        self.left = False
        self._received_at = time.monotonic()  # since then the server owes a word
        self._sent_at: float | None = None  # unless it said one then

    @contextlib.asynccontextmanager
    async def handle_errors(self) -> AsyncIterator[None]:
        """The conversation. Where it breaks off, the candidate is told why."""
        try:
            yield
        except _DisconnectedError:
            pass
        except (RefusedError, StaleLeaseError) as error:
            await self._fail(str(error))
        except StoreUnavailableError as error:
            logging.getLogger(__name__).error("a connection broke off: %s", error)
            await self._fail(STORE_UNAVAILABLE)
        except Exception:
            logging.getLogger(__name__).exception("a connection broke off")
            await self._fail(f"the server failed; {self._note}: connect again")

    async def greet(self) -> None:
        """The first frame, which the published client drops whatever it is."""
        try:
            await self.socket.accept()
        except _GONE:
            self._disconnected()
        await self.send(GREETING)

    async def send(self, content: dict[str, Any]) -> None:
        """JSON; NumPy arrays are lists."""
        text = _json(content)
        try:
            await self.socket.send_text(text)
        except _GONE:
            self._disconnected()
        self._sent_at = time.monotonic()

    async def receive(self, what: str) -> str | bytes:
        """The next message, `what` the candidate has `MOVE_TIMEOUT_S` for."""
        try:
            async with asyncio.timeout(MOVE_TIMEOUT_S) as timeout:
                message = await self.socket.receive()
        except TimeoutError:
            if timeout.expired():
                await self._fail(f"no {what} came for {MOVE_TIMEOUT_S:.0f} s; {self._note}")
                self.left = True
                raise _DisconnectedError from None
            raise
        if message["type"] == "websocket.disconnect":
            self._disconnected()
        self._received_at, self._sent_at = time.monotonic(), None
        content: str | bytes = message.get("text") or message.get("bytes") or b""
        return content

    async def reject(self, reason: str) -> NoReturn:
        """Closes, for what the candidate did."""
        with contextlib.suppress(*_GONE):
            await self.socket.close(1008, reason)
        self.left = True
        raise _DisconnectedError

    async def close(self) -> None:
        """All is said."""
        with contextlib.suppress(*_GONE):
            await self.socket.close()

    def _disconnected(self) -> NoReturn:
        """Nobody is there any more. The server's doing, where it stops or kept them waiting.

        That somebody left while it thought is often only heard after its answer.
        """
        now = time.monotonic()
        sent_at = now if self._sent_at is None else self._sent_at
        waited_s = sent_at - self._received_at if now - sent_at < UNREAD_S else 0.0
        self.left = not self._limiter.stopping and waited_s < SLOW_S
        raise _DisconnectedError

    async def _fail(self, text: str) -> None:
        """Says why, and closes; no matter if nobody is there to hear it."""
        with contextlib.suppress(*_GONE):
            await self.socket.send_text(_json({"error_details": text}))
            await self.socket.close()


def _json(content: dict[str, Any]) -> str:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode()
