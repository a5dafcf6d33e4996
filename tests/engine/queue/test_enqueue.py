"""The line's entrance at its edges, on a real Valkey: who is let in, and what is said of the wait."""

import msgspec
import pytest

from core.errors import Refusal
from engine.api import Enqueued, PriorityClass, RequestStatus
from engine.queue import packing
from tests.engine.builders import START_MS, append_to, end_entry, pool, request, usage_event
from tests.support.redis import Redis


def refusal_of(reply: object) -> Refusal:
    """It must be one."""
    assert isinstance(reply, Refusal)
    return reply


async def test_who_sends_again_is_told_where_it_stands(redis: Redis):
    """In line: how many are before it, whatever their class and size. Once it runs nothing is; what has ended
    gets no reader any more."""
    p = pool(redis, readers_per_request_max=2)
    await p.worker("w1", kv_tokens=2_000)
    for facts in ({}, {"prompt_tokens": 300}, {"priority": PriorityClass.BULK}, {"tenant": "t2"}):
        await p.queue.enqueue(request(**facts))
    last, bulk = request(), request(priority=PriorityClass.BULK)
    for gateway, created in (("g1", True), ("g2", False), ("g3", False)):
        found = await p.queue.enqueue(msgspec.structs.replace(last, gateway=gateway))
        assert found == Enqueued(created, RequestStatus.QUEUED, 1, 1, 3, 0)
    assert await redis.hkeys(p.key(f"rd:{last.tenant}:{last.id}")) == [b"g1", b"g2"], "no more than it may"
    found = await p.queue.enqueue(bulk)
    assert isinstance(found, Enqueued)
    assert found.position == 4 + 1
    claim = next(each for each in await p.claim() if each.id == last.id)
    found = await p.queue.enqueue(last)
    assert found == Enqueued(False, RequestStatus.RUNNING, 1, 2, 0, 0)
    p.clock.advance(p.settings.gateway_lease_ms - 1)
    assert (await p.queue.reap()).dead_readers == 0, "with its first request a gateway has a lease"
    ended = append_to(claim, entries=[end_entry(3, 0)], end=usage_event(claim.tenant, claim.id))
    await p.queue.append("w1", [ended])
    found = await p.queue.enqueue(msgspec.structs.replace(last, gateway="g1"))
    assert found == Enqueued(False, RequestStatus.ENDED, 1, 3, 0, 0)
    assert await redis.exists(p.key(f"rd:{last.tenant}:{last.id}")) == 0


async def test_a_pool_whose_ends_nobody_reads_is_overloaded(redis: Redis, monkeypatch: pytest.MonkeyPatch):
    """The stream of ends is bounded by this alone: the biller is away."""
    monkeypatch.setattr(packing, "ENDED_UNREAD_MAX", 2)
    p = pool(redis)
    await p.client.xadd(p.key("ended"), {"e": b""})
    assert isinstance(await p.queue.enqueue(request()), Enqueued)
    await p.client.xadd(p.key("ended"), {"e": b""})
    assert refusal_of(await p.queue.enqueue(request())).code == "overloaded"


async def test_what_was_cancelled_before_it_came_is_named_at_once(redis: Redis):
    """It waits for its end, not for a worker; whatever its deadline is."""
    p = pool(redis)
    await p.worker()
    cancelled, goes_on = request(cancelled=True), request()
    for e in (cancelled, goes_on):
        await p.queue.enqueue(e)
    assert [(e.id, e.reason) for e in (await p.queue.reap()).expired] == [(cancelled.id, "cancelled")]
    assert [claim.id for claim in await p.claim()] == [goes_on.id]


async def test_what_was_accepted_as_it_was_buried_comes_too_late(redis: Redis):
    """What is sent again a moment later does not."""
    p = pool(redis)
    e = request()
    assert await p.queue.refuse_late_enqueue(e.tenant, [e.id]) == [e.id]
    assert refusal_of(await p.queue.enqueue(e)).message == "it was admitted too long ago: send it again"
    again = msgspec.structs.replace(e, accepted_ms=START_MS + 1)
    assert isinstance(await p.queue.enqueue(again), Enqueued)


async def test_a_pool_that_was_idle_has_no_pace_of_it(redis: Redis):
    """Only between two that were taken while others waited there is one; who comes meanwhile changes
    nothing."""
    p = pool(redis)
    await p.worker()
    paces: list[float] = []
    for waiting, pause_ms in ((3, 0), (1, 1_000), (0, 1_000), (0, 1_000), (1, 50_000)):
        for _ in range(waiting):
            await p.queue.enqueue(request())
        p.clock.advance(pause_ms)
        await p.queue.renew("w1", 0, {})
        await p.worker()
        assert len(await p.claim(slots=1)) == 1
        paces.append(float(await p.client.hget(p.key("sys"), "pace") or 0))
    assert paces == [0, 1_000, 1_000, 1_000, 1_000]
