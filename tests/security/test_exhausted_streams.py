"""Ids of streams that a taken-over worker uses up: ends go on being written, once, and billed, once."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from billing.api import Quota
from billing.cli.unbilled import waiting
from billing.posting.biller import Biller
from billing.posting.usage_stream import EndedStream
from billing.quota.unposted_usage import unacknowledged, unposted_usage
from billing.usage import ended_stream
from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.dropped_keys import tell_dropped
from core.sql.database import Database
from engine.api import AppendCode
from engine.lifecycle.finish import end_unclaimed
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import JournaledEnd
from engine.queue.types import ReplayCode
from tests.billing.posting.billers import rows
from tests.engine.builders import Pool, append_to, end_entry, usage_event
from tests.engine.journal.journaled import admitted
from tests.engine.workers import PoolWorkers
from tests.support.redis import Redis
from tests.support.users import client_of

MAX = (1 << 64) - 1
LAST = f"{MAX}-{MAX}"
NEARLY_LAST = f"{MAX}-{MAX - 1}"
ENDED = ended_stream("default")


@pytest.fixture
async def worker(redis: Redis, settings: Settings) -> AsyncGenerator[Any]:
    """A worker's own client."""
    async with client_of(redis, settings.redis_endpoint, WORKER) as client:
        yield client


async def running_end(p: Pool, id: str) -> Any:
    claim = await p.running(id=id)
    return append_to(claim, ids=(1,), x="a", entries=[end_entry(3, 1)], end=usage_event("t1", id))


@pytest.mark.parametrize("last", [LAST, NEARLY_LAST])
async def test_an_answer_ends_where_the_last_id_is_used_up(last: str, worker: Any, redis: Redis):
    """By a worker's own user, whose calls this is. What a biller has not read stays, the memory of ends is
    another, and an operator hears of it."""
    p, owner = Pool(worker), Pool(redis)
    first, second, third = [await running_end(owner, f"r{at}") for at in range(3)]
    (before,) = await p.queue.append("w1", [first])
    await worker.xadd(ENDED, {"e": "x"}, id=last)
    answers = await p.queue.append("w1", [second, third])
    assert [each.code for each in answers] == [AppendCode.ENDED] * 2
    events = [fields[b"e"] for _, fields in await p.client.xrange(ENDED)]
    assert events == [first.end, b"x", second.end, third.end]
    assert await p.kinds("t1", "r1") == ["queued", "running", "end"]
    assert before.ended is not None
    assert answers[1].ended is not None
    assert before.ended.memory != answers[1].ended.memory
    assert await tell_dropped(redis, ["{p:default}"]) == 1


async def test_a_waiting_request_ends_once_and_is_billed_once(
    sqlite: Database, worker: Any, redis: Redis, settings: Settings
):
    """Also where the biller had read the last id there is, and trims; who looks at what waits finds it."""
    queue, quota, crew = (
        PoolQueue(redis, "default", settings),
        Quota(redis, settings),
        PoolWorkers(redis, settings),
    )
    biller, stream = Biller(sqlite, redis, settings, ["default"]), EndedStream(redis, "default", "b")
    sent = [admitted(crew) for _ in range(3)]
    ids = [each.id for each in sent]
    for each in sent:
        id = each.id
        await queue.enqueue(each)
        await worker.xadd(ENDED, {"e": "x"}, id=LAST)
        await biller.drain()
        await stream.trim()
        assert not (await unposted_usage(redis, ["default"], "t1", now_ms() + 1_000)).unreachable
        assert await waiting(redis, "default", now_ms()) == []
        assert [_ async for _ in unacknowledged(redis, "default")] == []
        assert await end_unclaimed(queue, quota, "t1", id, "cancelled")
        assert not await end_unclaimed(queue, quota, "t1", id, "cancelled")
    await biller.drain()
    assert sorted(row.request_id for row in await rows(sqlite)) == sorted(ids)
    for id in ids:
        log = await worker.xrange(f"{{p:default}}log:t1:{id}")
        assert [fields[b"k"] for _, fields in log] == [b"queued", b"end"]


async def test_ends_of_a_journal_come_back_where_the_last_id_is_used_up(worker: Any):
    """Each once."""
    p = Pool(worker)
    await worker.xadd(ENDED, {"e": "x"}, id=LAST)
    end = JournaledEnd("t1", "r1", "another", "7-1", usage_event("t1", "r1"))
    ((code, at),) = await p.queue.replay([end])
    ((again, known),) = await p.queue.replay([end])
    assert (code, again, at.id) == (ReplayCode.PUT, ReplayCode.KNOWN, known.id)
    await worker.hset("{p:default}replayed", "another 7-1 t1:r1", b"\xff")
    ((code, _),) = await p.queue.replay([end])
    assert code is ReplayCode.PUT


@pytest.mark.parametrize("at", [LAST, "9-7", "99999-0"])
async def test_a_log_that_has_no_place_left_keeps_no_answer_from_its_end(at: str, worker: Any, redis: Redis):
    """It goes, so its readers find that it is lost; the answer is billed."""
    p = Pool(worker)
    end = await running_end(Pool(redis), "r1")
    await worker.xadd("{p:default}log:t1:r1", {"k": "t"}, id=at)
    (answer,) = await p.queue.append("w1", [end])
    assert answer.code is AppendCode.ENDED
    assert [fields for _, fields in await worker.xrange(ENDED)] == [{b"e": end.end}]
    assert await p.kinds("t1", "r1") == ["end"]
