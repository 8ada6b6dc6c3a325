"""What many connections ask for at a time, asked once: `AsyncBatcher`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Ask = TypeVar("Ask")
Got = TypeVar("Got")


class AsyncBatcher(Generic[Ask, Got]):
    """`do`, called with batches, one at a time: a batch is whatever was asked while the last one
    ran. Who is alone waits for nobody, a crowd forms large batches by itself, and all are served in
    the order in which they came.

    `do` answers each ask in its order; an exception among its answers is raised where that one was
    asked, an exception of its own wherever any of the batch was.
    """

    def __init__(self, do: Callable[[list[Ask]], Awaitable[Sequence[Got | Exception]]]) -> None:
        self._do = do
        self._waiting: list[tuple[Ask, asyncio.Future[Got]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, request: Ask) -> Got:
        """The answer to `request`."""
        answer: asyncio.Future[Got] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def close(self) -> None:
        """What still waits is cancelled."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        batch: list[tuple[Ask, asyncio.Future[Got]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._answer([request for request in batch if not request[1].done()])
        finally:
            self._running = None
            for _, answer in batch + self._waiting:
                answer.cancel()  # no matter to those that were answered
            self._waiting = []

    async def _answer(self, batch: list[tuple[Ask, asyncio.Future[Got]]]) -> None:
        if not batch:  # all of them have left
            return
        try:
            answers: Sequence[Got | Exception] = await self._do([request for request, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
