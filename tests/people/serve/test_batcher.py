"""Concurrent requests are batched in order, and each gets its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from hanabi_rl.people.serve.batcher import AsyncBatcher


def test_batch_contains_requests_during_last_call() -> None:
    batches: list[list[int]] = []

    async def main() -> None:
        running, go_on = asyncio.Event(), asyncio.Event()

        async def double(numbers: list[int]) -> Sequence[int]:
            batches.append(numbers)
            running.set()
            await go_on.wait()
            return [2 * number for number in numbers]

        together = AsyncBatcher[int, int](double)
        first = asyncio.create_task(together.ask(1))
        await running.wait()
        others = [asyncio.create_task(together.ask(number)) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
        assert await together.ask(5) == 10  # usable after an empty queue

    asyncio.run(main())
    assert batches == [[1], [2, 3, 4], [5]]


def test_error_reaches_its_request() -> None:
    async def answer(numbers: list[int]) -> Sequence[int | Exception]:
        if 0 in numbers:
            raise OSError("all of them")
        return [ValueError(f"{n}") if n < 0 else n for n in numbers]

    async def main() -> None:
        together = AsyncBatcher[int, int](answer)
        found = await asyncio.gather(*map(together.ask, (1, -2, 3)), return_exceptions=True)
        assert (found[0], found[2]) == (1, 3) and isinstance(found[1], ValueError)
        found = await asyncio.gather(*map(together.ask, (1, 0)), return_exceptions=True)
        assert [type(each) for each in found] == [OSError, OSError]
        assert await together.ask(7) == 7

    asyncio.run(main())


def test_cancelled_requests_are_skipped_and_close_cancels() -> None:
    batches: list[list[int]] = []

    async def main() -> None:
        never = asyncio.Event()

        async def wait(numbers: list[int]) -> Sequence[int]:
            batches.append(numbers)
            await never.wait()
            return numbers

        together = AsyncBatcher[int, int](wait)
        tasks = [asyncio.create_task(together.ask(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        late = asyncio.create_task(together.ask(3))
        await asyncio.sleep(0)
        await together.close()
        for task in (tasks[1], late):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert batches == [[2]]
