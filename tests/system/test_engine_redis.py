"""Workers while Redis is away, comes back without its data, or cannot write: they wait without noise, keep
what they have, and end everything once."""

import os
import resource
import shutil
import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from billing import usage
from chaos.injected.scripted import ScriptedEngine
from core.redis.client import connect
from core.redis.redis_errors import is_refusing_everybody
from core.runtime.embedded import EmbeddedValkey, ensure_home
from tests.engine.workers import PoolWorkers, saying
from tests.support.home import settings_in
from tests.support.patience import FLOOD_SECONDS, pause, wait_until
from tests.support.redis import Redis

TEXT = "Nobody notices. " * 12
LINES_MAX = 16


class EngineRedis:
    """A Valkey of its own that writes an append-only file, and workers on it."""

    def __init__(self, home: Path) -> None:
        self.settings = settings_in(home)
        ensure_home(self.settings)
        self.valkey = EmbeddedValkey(self.settings)
        self.redis: Any = None

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self.valkey.process is not None
        return self.valkey.process.pid

    @property
    def crew(self) -> PoolWorkers:
        """Workers of its pool."""
        return PoolWorkers(self.redis, self.settings)

    async def kill(self) -> None:
        """SIGKILL the server."""
        assert self.valkey.process is not None
        os.kill(self.pid, signal.SIGKILL)
        await self.valkey.process.wait()

    def disk(self, bytes_left: int | None) -> None:
        """Let no file of the server grow beyond its append-only file's size plus this."""
        [file] = (self.valkey.folder / "appendonlydir").glob("*.incr.aof")
        limit = resource.RLIM_INFINITY if bytes_left is None else file.stat().st_size + bytes_left
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    async def ends(self) -> list[str]:
        """The requests that have a usage event, once for each event."""
        raw = await self.redis.xrange(usage.ended_stream("default"))
        return sorted(usage.decode(fields[usage.ENDED_FIELD.encode()]).request for _, fields in raw)


@pytest.fixture
async def ground(home: Path) -> AsyncGenerator[EngineRedis]:
    """With its server running."""
    made = EngineRedis(home)
    await made.valkey.start()
    made.redis = connect(made.settings)
    assert isinstance(made.redis, Redis)
    yield made
    await made.redis.aclose()
    await made.valkey.stop()


async def test_a_redis_that_is_away_is_waited_for_quietly(ground: EngineRedis):
    """Next to no CPU, a few lines of log; then every answer goes on to its exact end."""
    crew = ground.crew
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0.02)) as worker:
        ids = [await crew.send() for _ in range(8)]
        for id in ids:
            await crew.reaches(id, 10)
        await ground.kill()
        with capture_logs() as lines:
            cpu = time.thread_time()
            await pause(FLOOD_SECONDS)
            cpu = time.thread_time() - cpu
        said = [line for line in lines if line["log_level"] != "info"]
        assert 1 <= len(said) <= LINES_MAX, said
        assert cpu < FLOOD_SECONDS / 2
        await ground.valkey.start()
        ends = [await crew.ended(id) for id in ids]
        assert not worker.task.done()
    assert {end["reason"] for end in ends} == {"stop"}
    assert [await crew.text(id) for id in ids] == [TEXT] * len(ids)
    assert await ground.ends() == sorted(ids)


async def test_a_redis_that_forgot_everything_gets_its_workers_back(ground: EngineRedis):
    """They drop what nobody knows any more, register again under their name, and serve what comes."""
    crew = ground.crew
    engine = ScriptedEngine(saying("x" * 5_000), step_seconds=0.02)
    async with crew.worker(engine) as worker:
        ids = [await crew.send(max_tokens=4_000) for _ in range(4)]
        for id in ids:
            await crew.reaches(id, 10)
        await ground.kill()
        shutil.rmtree(ground.valkey.folder / "appendonlydir")
        await ground.valkey.start()

        async def registered() -> bool:
            return [view.worker for view in await crew.queue.workers() if view.alive] == [worker.name]

        await wait_until(registered)
        await wait_until(lambda: not engine.unfinished())
        engine.next_token = saying(TEXT)
        new = await crew.send()
        assert (await crew.ended(new))["reason"] == "stop"
        assert not worker.task.done()
    assert await crew.text(new) == TEXT
    assert await ground.ends() == [new]


async def test_a_full_disk_is_waited_out(ground: EngineRedis):
    """New work is refused with the server's own word; what was accepted goes on where it stood, and ends
    once."""
    crew = ground.crew
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0.02)) as worker:
        ids = [await crew.send() for _ in range(8)]
        for id in ids:
            await crew.reaches(id, 10)
        ground.disk(bytes_left=0)

        async def full() -> bool:
            try:
                await ground.redis.set("probe", "x" * 1_000)
            except ResponseError as error:
                return is_refusing_everybody(error)
            return False

        await wait_until(full)
        with capture_logs() as lines:
            with pytest.raises(ResponseError, match="MISCONF"):
                await crew.send()
            await pause(FLOOD_SECONDS)
        said = [line for line in lines if line["log_level"] != "info"]
        assert 1 <= len(said) <= LINES_MAX, said
        assert any("MISCONF" in str(line.get("error", "")) for line in said), said
        ground.disk(bytes_left=None)
        ends = [await crew.ended(id) for id in ids]
        assert not worker.task.done()
    assert {end["reason"] for end in ends} == {"stop"}
    assert [await crew.text(id) for id in ids] == [TEXT] * len(ids)
    assert await ground.ends() == sorted(ids)
    assert {tuple(await crew.kinds(id)) for id in ids} == {("queued", "running", "end")}
