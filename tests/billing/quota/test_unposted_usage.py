"""What Redis has of a tenant's usage that may not be in the books: read page by page, by what it says."""

import hashlib
from typing import Any

import pytest

from billing.posting import usage_stream
from billing.posting.usage_stream import Delivery, EndedStream
from billing.quota import unposted_usage
from billing.quota.unposted_usage import EndedRequest, UnpostedUsage
from billing.usage import ENDED_FIELD, UsageEvent, encode, ended_stream
from tests.billing.events import an_event
from tests.support.redis import Redis

BEFORE_MS = 1_500
EARLY: dict[str, Any] = {"accepted_ms": 1_000, "ended_ms": 2_000}
NOBODYS_REDIS = "redis://127.0.0.1:1"


async def leave(redis: Redis, *events: UsageEvent, pool: str = "default") -> None:
    """On a pool's stream."""
    for event in events:
        await redis.xadd(ended_stream(pool), {ENDED_FIELD: encode(event)})


def as_ended(event: UsageEvent, pool: str = "default") -> EndedRequest:
    """What is said of it."""
    return EndedRequest(event.request, pool, event.accepted_ms, hashlib.sha256(encode(event)).hexdigest())


async def found(redis: Redis) -> list[str]:
    """The requests of t1 that are said to have ended, in order."""
    told = await unposted_usage.unposted_usage(redis, ["default"], "t1", BEFORE_MS)
    assert (told.open, told.unreachable, told.more) == ([], False, False)
    return [each.request for each in told.ended]


async def test_what_was_accepted_or_ended_before_a_time_counts(redis: Redis) -> None:
    """Whichever is earlier, as clocks differ; of other tenants, and of what is no event, nothing."""
    over = an_event("over", accepted_ms=1_499, ended_ms=1_500)
    turned = an_event("turned", accepted_ms=1_500, ended_ms=1_499)
    late = an_event("late", accepted_ms=1_500, ended_ms=1_500)
    await leave(redis, over, turned, late, an_event("other", tenant="t2", **EARLY))
    await redis.xadd(ended_stream("default"), {ENDED_FIELD: b"\xc1"})
    await redis.xadd(ended_stream("default"), {"another": b"field"})
    told = await unposted_usage.unposted_usage(redis, ["default", "empty"], "t1", BEFORE_MS)
    assert told == UnpostedUsage([], [as_ended(over), as_ended(turned)])


async def test_nothing_is_passed_over_between_pages(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the oldest that the biller may need: what it has not acknowledged, and all that follows."""
    monkeypatch.setattr(unposted_usage, "ENTRIES_AT_ONCE", 2)
    await leave(redis, *(an_event(f"r{at}", **EARLY) for at in range(5)))
    assert await found(redis) == [f"r{at}" for at in range(5)]
    stream = EndedStream(redis, "default", "b")
    await stream.ensure_groups()
    monkeypatch.setattr(usage_stream, "EVENTS_MAX", 3)
    given = await stream.read()
    assert await found(redis) == [f"r{at}" for at in range(5)]
    await stream.acknowledge(given[:2])
    assert await found(redis) == ["r2", "r3", "r4"]
    await stream.acknowledge(given[2:])
    assert await found(redis) == ["r3", "r4"]


async def test_what_is_acknowledged_meanwhile_does_not_hide_the_rest(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The biller acknowledges the last that was pending between the two questions."""
    await leave(redis, an_event("r0", **EARLY))
    stream = EndedStream(redis, "default", "b")
    await stream.ensure_groups()
    given = await stream.read()
    await leave(redis, an_event("r1", **EARLY))
    asks = redis.xpending

    async def late(*asked: Any) -> Any:
        await stream.acknowledge(given)
        return await asks(*asked)

    monkeypatch.setattr(redis, "xpending", late)
    assert await found(redis) == ["r1"]


async def test_as_many_as_are_looked_at_are_not_more(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is."""
    monkeypatch.setattr(unposted_usage, "ENTRIES_MAX", 2)
    await leave(redis, an_event("r0", **EARLY), an_event("r1", **EARLY))
    assert await found(redis) == ["r0", "r1"]
    await leave(redis, an_event("r2", **EARLY), pool="second")
    told = await unposted_usage.unposted_usage(redis, ["second", "default"], "t1", BEFORE_MS)
    assert [each.request for each in told.ended] == ["r0", "r1"]
    assert told.more


async def test_a_redis_that_is_away_is_said_to_be() -> None:
    """Nothing is known then: not that there is nothing."""
    redis = Redis.from_url(NOBODYS_REDIS)
    assert await unposted_usage.unposted_usage(redis, ["default"], "t1", BEFORE_MS) == UnpostedUsage(
        unreachable=True
    )
    await redis.aclose()


async def test_a_batch_has_a_bound_read_anew_and_taken_over(redis: Redis) -> None:
    """Five hundred: of those that are new, that are its own, and that it takes from a dead one. Of a stream
    that is emptied meanwhile nothing comes."""
    first, second = (EndedStream(redis, "default", name, claim_idle_ms=0) for name in ("first", "second"))
    for _ in range(2):
        await first.ensure_groups()  # which are there: nothing happens
    async with redis.pipeline() as pipeline:
        for at in range(502):
            pipeline.xadd(ended_stream("default"), {ENDED_FIELD: str(at)})
        await pipeline.execute()
    assert await first.own_pending() == await first.claim() == []
    new = await first.read()
    assert [each.data for each in new] == [str(at).encode() for at in range(500)]
    assert [each.data for each in await first.read()] == [b"500", b"501"]
    assert await first.own_pending() == new
    assert await second.own_pending() == []
    assert await second.claim() == new
    await redis.xtrim(ended_stream("default"), maxlen=0)
    assert await second.own_pending() == []


async def test_a_stream_is_trimmed_behind_who_needs_most_of_it(redis: Redis) -> None:
    """Nothing before both groups are there; an entry that one was given is needed, and one that is new."""
    stream = EndedStream(redis, "default", "b")
    client: Any = redis
    await leave(redis, *(an_event(f"r{at}") for at in range(4)))
    await client.xgroup_create(ended_stream("default"), "biller", id="0")
    assert await stream.trim() == 0
    await stream.ensure_groups()
    assert await stream.trim() == 0
    given = await stream.read()
    assert await stream.trim() == 0
    await client.xgroup_setid(ended_stream("default"), "recorder", given[2].id)
    assert await stream.trim() == 0
    await stream.acknowledge(given[:1])
    assert await stream.trim() == 1
    await stream.acknowledge(given[1:])
    assert await stream.trim() == 2
    await stream.acknowledge([])
    assert [id for id, _ in await client.xrange(ended_stream("default"))] == [given[3].id]


@pytest.mark.parametrize(("idle_ms_max", "left"), [(3_600_000, 3), (-1, 2)])
async def test_only_consumers_that_hold_nothing_are_forgotten(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, idle_ms_max: int, left: int
) -> None:
    """Once they were not seen for an hour: a new one may be at work."""
    assert usage_stream.CONSUMER_IDLE_MS_MAX == 3_600_000
    monkeypatch.setattr(usage_stream, "CONSUMER_IDLE_MS_MAX", idle_ms_max)
    streams = [EndedStream(redis, "default", name) for name in "abc"]
    await streams[0].ensure_groups()
    await leave(redis, an_event("r0"), an_event("r1"))
    monkeypatch.setattr(usage_stream, "EVENTS_MAX", 1)
    given = [await streams[0].read(), await streams[1].read()]
    await streams[2].claim()
    await streams[0].forget_dead_consumers()
    consumers = await redis.xinfo_consumers(ended_stream("default"), "biller")
    assert len(consumers) == left
    assert [await each.own_pending() for each in streams[:2]] == given
    assert isinstance(given[0][0], Delivery)
