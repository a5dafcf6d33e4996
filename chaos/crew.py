"""Keeps workers running under attack: real `parley worker` processes, started again as soon as one ends.

`Supervised` is the product's own supervisor. `Forked` does what the supervisor does for the queue (an exit is
seen at once and its requests go back in line) for workers that a nursery forks, without the supervisor's
growing pauses between restarts: it is for kills by the thousand.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError

from billing.api import Quota
from chaos.bench.session.ground import Ground, Running
from core.redis import Client
from core.tasks import end_tasks
from engine.api import PoolQueue, Reaper

RELEASE_RETRY_SECONDS = 0.05
START_SECONDS_MAX = 60.0
SOCKET_NAME = "nursery.sock"


@asynccontextmanager
async def supervised(site: Ground, workers: int, **settings: object) -> AsyncGenerator[None]:
    """`parley supervisor` with this many workers."""
    running = await site.start(["-m", "core.cli", "supervisor", "--workers", str(workers)], **settings)
    try:
        yield
    finally:
        await running.stop()


@asynccontextmanager
async def forked(site: Ground, redis: Client, workers: int, **settings: object) -> AsyncGenerator[None]:
    """A nursery with this many workers, and a reaper in this process."""
    queue = PoolQueue(redis, site.settings.pool, site.settings)
    reaper = Reaper(queue, Quota(redis, site.settings), site.settings.reap_interval_ms)
    nest = _Nest(queue)
    address = site.settings.home / SOCKET_NAME
    server = await asyncio.start_unix_server(nest.serve, address)
    reaping = asyncio.create_task(reaper.run())
    nursery = await site.start(["-m", "chaos.nursery", str(address)], **settings)
    try:
        await nest.keep(workers, nursery)
        yield
    finally:
        nest.stopping = True
        nursery.process.kill()  # and its group, which the workers are in
        await nursery.process.wait()
        await end_tasks([reaping])
        server.close()
        await nest.released()


class _Nest:
    """The nursery's workers by pid, each replaced when it ends."""

    def __init__(self, queue: PoolQueue) -> None:
        self.stopping = False
        self._queue = queue
        self._names: dict[int, str] = {}
        self._nursery: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        self._releases: set[asyncio.Task[None]] = set()

    async def keep(self, workers: int, process: Running) -> None:
        """Have this many workers from now on."""
        ended = asyncio.ensure_future(process.process.wait())
        try:
            both = [self._nursery, ended]
            await asyncio.wait(both, timeout=START_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not self._nursery.done():
            raise RuntimeError(f"the nursery does not come up: see {process.log}")
        nursery = self._nursery.result()
        for _ in range(workers):
            self._start(nursery)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The nursery's connection."""
        self._nursery.set_result(writer)
        async for line in reader:
            news: dict[str, Any] = json.loads(line)
            if "started" in news:
                self._names[news["pid"]] = news["started"]
                continue
            release = asyncio.create_task(self._release(self._names.pop(news["ended"]), news["code"]))
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)
            if not self.stopping:
                self._start(writer)
        writer.close()

    async def released(self) -> None:
        """What ended workers held is back in line."""
        await asyncio.gather(*self._releases)

    def _start(self, nursery: asyncio.StreamWriter) -> None:
        name = f"chaos-{secrets.token_hex(4)}"
        nursery.write(json.dumps({"start": name}).encode() + b"\n")

    async def _release(self, name: str, code: int) -> None:
        while not self.stopping:
            try:
                await self._queue.deregister(name, "lost" if code else "drain")
                return
            except (RedisError, OSError):
                await asyncio.sleep(RELEASE_RETRY_SECONDS)
