"""Ready time end to end: a real supervisor and worker, a worker's death, a replayed reading."""

import os
import signal

from sqlmodel import select

from billing.dedicated_pools.hours import ReadyInterval, hours_of
from billing.dedicated_pools.store import interval_of, store, take
from billing.tables.dedicated_pools import PoolInterval
from core.sql.database import Database
from tests.engine.node.supervised import crew as crew  # the fixture
from tests.engine.node.supervised import supervised
from tests.engine.workers import PoolWorkers
from tests.support.patience import START_SECONDS, wait_until


async def stored(database: Database) -> list[ReadyInterval]:
    """What is in SQL."""
    async with database.session() as session:
        return [interval_of(row) for row in (await session.exec(select(PoolInterval))).all()]


async def test_a_place_is_metered_while_its_worker_is_ready(crew: PoolWorkers) -> None:
    """Idle and with requests, over a worker's death; no second is there twice however often it is read."""
    settings = crew.settings.model_copy(update={"meter_cpu": True})
    database = Database(settings.database_endpoint)
    pool = settings.pool

    async def ready_ms(worker: str) -> int:
        await take(database, crew.redis, pool)
        return sum(each.to_ms - each.from_ms for each in await stored(database) if each.worker == worker)

    started = await crew.queue.now_ms()
    async with supervised(crew, settings, workers=1) as (first,):
        await wait_until(lambda: ready_ms(first.worker), START_SECONDS)
        id = await crew.send(max_tokens=300)
        await crew.reaches(id, 120)
        os.kill(int(first.info["pid"]), signal.SIGKILL)

        async def next_worker() -> str:
            views = [view for view in await crew.queue.workers() if view.worker != first.worker]
            return views[0].worker if views and await ready_ms(views[0].worker) else ""

        assert await wait_until(next_worker, START_SECONDS) != first.worker
    elapsed = await crew.queue.now_ms() - started
    await take(database, crew.redis, pool)
    found = await stored(database)
    assert {each.device for each in found} == {"cpu-local-default-0"}
    assert {each.gpu_type for each in found} == {"cpu"}
    assert sum(each.busy_ms for each in found if each.worker == first.worker) > 0
    for _ in range(2):
        await store(database, found)
        await take(database, crew.redis, pool)
    assert await stored(database) == found
    by_hour = {each.hour_ms: [one for one in found if one.hour_ms == each.hour_ms] for each in found}
    hours = [hour for each in by_hour.values() for hour in hours_of(each, {})]
    assert 0 < sum(hour.ready_ms for hour in hours) <= elapsed
    await database.close()
