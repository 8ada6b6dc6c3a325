"""Batching of concurrent requests: `AsyncBatcher`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")


class AsyncBatcher(Generic[Request, Result]):
    """Calls `do` with batches, one at a time; a batch holds the requests that arrived during the
    last call, in order. A single request never waits for a batch to fill.

    `do` returns one result per request, in order; an exception among the results is raised at its
    request, an exception that `do` raises at every request of the batch.
    """

    def __init__(
        self, do: Callable[[list[Request]], Awaitable[Sequence[Result | Exception]]]
    ) -> None:
        self._do = do
        self._waiting: list[tuple[Request, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, request: Request) -> Result:
        """Return the result for `request`."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def close(self) -> None:
        """Cancel waiting requests."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        batch: list[tuple[Request, asyncio.Future[Result]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._answer([request for request in batch if not request[1].done()])
        finally:
            self._running = None
            for _, answer in batch + self._waiting:
                answer.cancel()  # no effect on finished requests
            self._waiting = []

    async def _answer(self, batch: list[tuple[Request, asyncio.Future[Result]]]) -> None:
        if not batch:  # all requesters disconnected
            return
        try:
            answers: Sequence[Result | Exception] = await self._do(
                [request for request, _ in batch]
            )
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
