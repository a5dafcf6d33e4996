"""A pool with a worker that writes what it likes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from billing.usage import ENDED_GROUP_RECORDER, ended_stream
from core.tasks import cancel_tasks
from tests.support.patience import wait_until
from tests.support.redis import Redis


async def all_live(works: Sequence[Awaitable[Any]], done: Callable[[], Awaitable[bool]]) -> None:
    """These go on until it is done."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await wait_until(done)
        assert [task.exception() for task in tasks if task.done()] == []
    finally:
        await cancel_tasks(tasks)


async def recorded(redis: Redis, pool: str = "default") -> bool:
    """Whether recorders have nothing left to do."""
    [group] = [
        each
        for each in await redis.xinfo_groups(ended_stream(pool))
        if each["name"].decode() == ENDED_GROUP_RECORDER
    ] or [None]
    return group is not None and group["pending"] == 0 and group["lag"] == 0


END: dict[str, Any] = {
    "reason": "stop",
    "usage": {"input": 1, "cached_input": 0, "output": 1, "total": 2},
    "cost": {"nano": 1, "currency": "usd"},
    "timing": {"queue_ms": 1, "ttft_ms": 1, "total_ms": 1},
    "h": "",
}
