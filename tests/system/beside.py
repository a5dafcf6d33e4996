"""What a flood must not do: disturb the session beside it, or leave anything behind."""

import asyncio
import re
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.server.site import Site
from tests.support.patience import (
    BEAT_SECONDS,
    HANG_SECONDS,
    ROUND_TRIP_SECONDS,
    LivedTime,
    pause,
    wait_until,
)
from tests.system.wire import wired

# What pools and tenants keep for ever is one key each; those of requests and sessions would grow with use.
ID = rb"[0-9a-f]{8}-[0-9a-f-]{27}"
NAMES_A_REQUEST = re.compile(rb"(:%b:%b|(rq|cancel|sess):%b(:ids)?)$" % (ID, ID, ID))


@asynccontextmanager
async def neighbour(url: str, key: str) -> AsyncGenerator[list[float]]:
    """A well-behaved session beside the block; its pings do not take long: lived, and of a
    gateway in this very thread the time that it computes."""
    trips: list[float] = []
    done = asyncio.Event()

    async def ping() -> None:
        async with wired(url, key) as wire:
            while not done.is_set():
                held = time.thread_time()
                with LivedTime() as lived:
                    await wire.tell("ping", ts=len(trips))
                    while (await wire.hear())["t"] != "pong":
                        pass
                trips.append(max(lived.seconds, time.thread_time() - held))
                await pause(BEAT_SECONDS)

    pinging = asyncio.create_task(ping())
    await wait_until(lambda: trips)
    yield trips
    assert not pinging.done(), pinging.exception()
    done.set()
    await pinging
    assert statistics.median(trips) < ROUND_TRIP_SECONDS, sorted(trips)[-5:]
    assert max(trips) < HANG_SECONDS, sorted(trips)[-5:]


@asynccontextmanager
async def leaving_nothing(site: Site) -> AsyncGenerator[None]:
    """After the block no task of it runs, and no Redis key of it is kept for ever."""
    async with site.welcomed():
        pass  # what is made once, is
    await wait_until(lambda: _running("Worker.run") == _running("Worker._claim_loop"))  # workers have begun
    tasks = len(asyncio.all_tasks())
    before = {name async for name in site.redis.scan_iter("*")}
    yield
    await wait_until(lambda: len(asyncio.all_tasks()) <= tasks)

    async def nothing_for_ever() -> bool:
        made = [name async for name in site.redis.scan_iter("*") if name not in before]
        kept = [name for name in made if NAMES_A_REQUEST.search(name) and await site.redis.ttl(name) == -1]
        return kept == []

    await wait_until(nothing_for_ever)


def _running(coroutine: str) -> int:
    return sum(getattr(task.get_coro(), "__qualname__", "") == coroutine for task in asyncio.all_tasks())


async def no_work(site: Site) -> bool:
    """Whether no request waits or runs."""
    return not await site.redis.zcard(f"{{p:{site.settings.pool}}}deadlines")
