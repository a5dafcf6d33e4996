"""A database that has no room: billing waits, and catches up once there is some, nothing twice."""

from typing import Any

from sqlalchemy import event
from structlog.testing import capture_logs

from billing.quota.client import Quota
from billing.quota.redis_keys import posted_key
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.posting.billers import STREAM, a_biller, end, held, rows, until_posted
from tests.support.patience import wait_until
from tests.support.redis import Redis

PAGES_MAX = 1 << 30
EVENTS = 400


class Disk:
    """The room that SQLite has for a database's file."""

    def __init__(self, database: Database) -> None:
        self.full = True
        event.listen(database.engine.sync_engine, "checkout", self._limit)

    def _limit(self, connection: Any, *_: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(
            f"PRAGMA max_page_count = {1 if self.full else PAGES_MAX}"
        )  # never below what there is
        cursor.close()


async def test_billing_catches_up_after_a_full_disk(sqlite: Database, redis: Redis, settings: Settings):
    """What ended meanwhile stays on the stream; each is posted and settled once."""
    disk = Disk(sqlite)
    events = [an_event(f"r{at}") for at in range(EVENTS)]
    with capture_logs() as lines:
        async with a_biller(sqlite, redis, settings):
            await end(redis, events, settings)
            await wait_until(lambda: any(line["event"] == "biller.run_failed" for line in lines))
            assert len(await rows(sqlite)) < EVENTS
            assert await redis.xlen(STREAM) == EVENTS
            disk.full = False
            posted = await until_posted(sqlite, EVENTS)
            await wait_until(lambda: _settled(redis, settings))
    assert any("SQLITE_FULL" in str(line.get("error")) for line in lines)
    assert {row.request_id for row in posted} == {each.request for each in events}
    assert await held(sqlite) == []
    sums = await redis.hgetall(posted_key("t1"))
    assert int(sums[b"requests"]) == EVENTS
    assert (
        int(sums[b"cost_nano"]) == sum(each.cost_nano for each in events) == sum(r.cost_nano for r in posted)
    )


async def _settled(redis: Redis, settings: Settings) -> bool:
    return await Quota(redis, settings).open_requests("t1") == 0
