"""One read for all who ask at the same time."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from admin.overview.shared_reads import SharedReads


@pytest.fixture
def read() -> Callable[[], "asyncio.Future[int]"]:
    """Reads that answer 0, 1, 2, …, each after others had their turn."""
    numbers = count()

    async def one() -> int:
        number = next(numbers)
        for _ in range(5):
            await asyncio.sleep(0)
        return number

    return lambda: asyncio.ensure_future(one())


async def test_who_asks_meanwhile_gets_what_is_read(read: Callable[[], "asyncio.Future[int]"]) -> None:
    """And who asks later has it read anew."""
    shared = SharedReads[int]()
    assert await asyncio.gather(*(shared.get(read) for _ in range(5))) == [0] * 5
    assert await shared.get(read) == 1
    assert await shared.get(read) == 2


async def test_a_failed_read_fails_its_own_caller(read: Callable[[], "asyncio.Future[int]"]) -> None:
    """Others read for themselves, also where it was cancelled."""

    async def fail() -> int:
        await asyncio.sleep(0)
        raise OSError("gone")

    shared = SharedReads[int]()
    failed, good = await asyncio.gather(shared.get(fail), shared.get(read), return_exceptions=True)
    assert (type(failed), good) == (OSError, 0)
    cancelled = asyncio.create_task(shared.get(read))
    waiting = asyncio.create_task(shared.get(read))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await waiting in (1, 2)
