"""The biller: every event posted once, whoever dies and whatever is delivered again."""

import asyncio
import os
import random
import signal
import sys

import msgspec
import pytest

from billing.booking.assess import Quarantined
from billing.posting.biller import Biller, DrainedStreams, post
from billing.posting.usage_stream import EndedStream
from billing.quota.client import Quota
from billing.quota.redis_keys import posted_key
from billing.usage import ENDED_FIELD, ENDED_GROUP_RECORDER, encode
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.posting.billers import (
    STREAM,
    a_biller,
    end,
    held,
    row_count,
    rows,
    until_acknowledged,
    until_posted,
)
from tests.support.patience import wait_until
from tests.support.processes import begun
from tests.support.redis import Redis


async def charged(redis: Redis, tenant: str = "t1") -> tuple[int, int]:
    """Requests and nano-USD that the tenant's slot says are posted."""
    sums = await redis.hgetall(posted_key(tenant))
    return int(sums.get(b"requests", 0)), int(sums.get(b"cost_nano", 0))


async def test_ended_requests_are_posted_settled_and_acknowledged(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """From the stream to the rows and the tenants' slots, over several tenants and pools."""
    events = [an_event(f"r{number}", tenant=f"t{number % 3}", output_text=number) for number in range(30)]
    events += [an_event("other", pool="large")]
    async with a_biller(database, redis, settings, ["default", "large"]):
        await end(redis, events, settings)
        for tenant in ("t0", "t1", "t2"):
            expected = {event.request: event.cost_nano for event in events if event.tenant == tenant}
            found = await until_posted(database, len(expected), tenant)
            assert {row.request_id: row.cost_nano for row in found} == expected
        await until_acknowledged(redis)
        for tenant in ("t0", "t1", "t2"):
            costs = [event.cost_nano for event in events if event.tenant == tenant]
            await wait_until(lambda t=tenant, c=costs: is_charged(redis, t, len(c), sum(c)))


async def is_charged(redis: Redis, tenant: str, count: int, cost_nano: int) -> bool:
    """Whether the tenant's slot says exactly this."""
    return await charged(redis, tenant) == (count, cost_nano)


@pytest.mark.parametrize("died_after", ["read", "post", "settle"])
async def test_a_biller_that_dies_between_two_steps_is_made_good_by_another(
    database: Database, redis: Redis, settings: Settings, died_after: str
) -> None:
    """The batch is delivered again: what was done is not done twice, what was not is done."""
    events = [an_event(f"r{number}") for number in range(5)]
    await end(redis, events, settings)
    dead = EndedStream(redis, "default", "dead")
    await dead.ensure_groups()
    deliveries = await dead.read()
    assert len(deliveries) == 5
    if died_after != "read":
        await post(database, "default", [delivery.data for delivery in deliveries])
    if died_after == "settle":
        for event in events[:3]:
            await Quota(redis, settings).settle(event)
    async with a_biller(database, redis, settings):
        await until_acknowledged(redis)
    assert len(await rows(database)) == 5
    assert await charged(redis) == (5, sum(event.cost_nano for event in events))
    assert await held(database) == []


async def test_kill_9_at_any_moment_loses_and_doubles_nothing(
    database: Database, database_url: str, redis: Redis, settings: Settings
) -> None:
    """A real process, killed again and again while requests end."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    events = [an_event(f"r{number}", output_text=rng.randrange(500)) for number in range(900)]
    arguments = ["-m", "tests.billing.biller_process", str(settings.home), settings.redis_endpoint]
    pending = list(events)
    for _ in range(4):
        process = await begun([sys.executable, *arguments, database_url])
        before = await row_count(database)
        await end(redis, [pending.pop() for _ in range(60)], settings)
        await wait_until(lambda count=before: more_rows_than(database, count))
        async with asyncio.TaskGroup() as group:
            group.create_task(end(redis, [pending.pop() for _ in range(120)], settings))
            await asyncio.sleep(rng.uniform(0, 0.05))  # a random moment, nothing waits for it
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    await end(redis, pending, settings)
    async with a_biller(database, redis, settings):
        await until_acknowledged(redis)
    found = await rows(database)
    assert {row.request_id: row.cost_nano for row in found} == {
        event.request: event.cost_nano for event in events
    }
    assert await charged(redis) == (len(events), sum(event.cost_nano for event in events))
    assert await held(database) == []


async def more_rows_than(database: Database, count: int) -> bool:
    """Whether more is posted than `count` events."""
    return await row_count(database) > count


async def test_two_billers_share_the_work_and_post_each_event_once(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """Even where they take batches from each other all the time."""
    events = [an_event(f"r{number}") for number in range(400)]
    async with a_biller(database, redis, settings), a_biller(database, redis, settings):
        for start in range(0, 400, 40):
            await end(redis, events[start : start + 40], settings)
        await until_posted(database, 400)
        await until_acknowledged(redis)
    assert await charged(redis) == (400, sum(event.cost_nano for event in events))
    assert await held(database) == []


async def test_bad_events_are_held_and_the_good_ones_around_them_posted(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """INV-40: Junk, a zero byte, a wrong cost and a second truth; each held once however often it is
    delivered."""
    await end(redis, [an_event("r1"), an_event("r2")], settings)
    async with a_biller(database, redis, settings):
        await until_posted(database, 2)
        wrong = msgspec.structs.replace(an_event("r4"), cost_nano=1)
        for event in (an_event("r\x003"), wrong, wrong, an_event("r2", output_text=9)):
            await redis.xadd(STREAM, {ENDED_FIELD: encode(event)})
        await redis.xadd(STREAM, {ENDED_FIELD: b"junk"})
        await redis.xadd(STREAM, {"another field": b"junk"})
        await end(redis, [an_event("r5", tenant="t2")], settings)
        await until_posted(database, 1, "t2")
        await until_acknowledged(redis)
    found = sorted((each.reason, each.request_id) for each in await held(database))
    assert found == [
        (Quarantined.CONFLICTING, "r2"),
        (Quarantined.COST_MISMATCH, "r4"),
        (Quarantined.UNDECODABLE, ""),
        (Quarantined.UNDECODABLE, ""),
        (Quarantined.UNSTORABLE, "\ufdd0r\\{0}3"),
    ]
    assert sorted(row.request_id for row in await rows(database)) == ["r1", "r2"]
    [second] = [row for row in await rows(database) if row.request_id == "r2"]
    assert second.output_text == 7


async def test_the_stream_is_trimmed_only_behind_the_slowest_group(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """An answer that is not recorded yet stays on the stream although it is billed."""
    events = [an_event(f"r{number}") for number in range(4)]
    async with a_biller(database, redis, settings):
        await end(redis, events, settings)
        await until_acknowledged(redis)
        reply = await redis.xreadgroup(ENDED_GROUP_RECORDER, "gateway", {STREAM: ">"}, count=3)
        ids = [id for id, _ in entries_of(reply)]
        await redis.xack(STREAM, ENDED_GROUP_RECORDER, ids[0], ids[2])
        await wait_until(lambda: length_is(redis, 3))
        await redis.xack(STREAM, ENDED_GROUP_RECORDER, ids[1])
        await wait_until(lambda: length_is(redis, 1))
        await redis.xreadgroup(ENDED_GROUP_RECORDER, "gateway", {STREAM: ">"}, count=3, noack=True)
        await wait_until(lambda: length_is(redis, 0))


def entries_of(reply: object) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of an XREADGROUP reply of one stream, in either protocol version."""
    if isinstance(reply, dict):
        return next(iter(reply.values()))[0]
    assert isinstance(reply, list)
    return reply[0][1]


async def length_is(redis: Redis, length: int) -> bool:
    """Whether the stream holds this many entries."""
    return await redis.xlen(STREAM) == length


async def test_a_redis_that_was_emptied_is_followed_again(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """The groups are made anew, and what comes after is posted."""
    async with a_biller(database, redis, settings):
        await end(redis, [an_event("r1")], settings)
        await until_posted(database, 1)
        await redis.flushall()
        await end(redis, [an_event("r2")], settings)
        await until_posted(database, 2)


async def test_streams_are_drained_again_for_books_that_are_gone(
    database: Database, redis: Redis, settings: Settings
) -> None:
    """What a lost database had posted and acknowledged is read once more, what a dead biller had received
    too; nothing is posted twice, and what cannot be is told."""
    biller = Biller(database, redis, settings, ["default"])
    events = [an_event(f"r{number}") for number in range(5)]
    await end(redis, events[:3], settings)
    await redis.xadd(STREAM, {ENDED_FIELD: b"no event"})
    first = await biller.drain()
    assert (first.posted.total(), first.repeated, [each.reason for each in first.held]) == (
        3,
        0,
        ["undecodable"],
    )
    assert await biller.drain() == DrainedStreams()
    await end(redis, events[3:4], settings)
    await EndedStream(redis, "default", "dead").read()
    await end(redis, events[4:], settings)
    await EndedStream(redis, "default", "restore").rewind()
    again = await biller.drain()
    assert (again.posted, len(again.held)) == ({"t1": 2}, 1)
    assert again.repeated >= 3
    assert await row_count(database) == 5
    assert await biller.drain() == DrainedStreams()
