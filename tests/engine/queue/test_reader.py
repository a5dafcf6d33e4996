"""What it changes that somebody looks at a request, on a real Valkey: only who follows it is counted."""

from engine.api import RequestStatus
from tests.engine.builders import append_to, end_entry, pool, request, usage_event
from tests.support.redis import Redis


async def test_a_look_changes_nothing(redis: Redis):
    """It registers nobody and unparks nothing, and says from where on the log can be read."""
    p = pool(redis)
    e = request()
    at = (e.tenant, e.id)
    await p.queue.enqueue(e)
    await p.queue.park(*at)
    for _ in range(2):
        view = await p.queue.view(*at)
        assert view is not None
        assert (view.status, view.following, view.first, view.head) == (RequestStatus.PARKED, False, 1, 2)
    readers = p.key(f"rd:{e.tenant}:{e.id}")
    assert await redis.exists(readers) == 0
    for from_, first in (("2", 2), ("3", 3)):  # an old part of the log is gone, then all of it
        await p.client.xtrim(p.key(f"log:{e.tenant}:{e.id}"), minid=from_, approximate=False)
        view = await p.queue.view(*at)
        assert view is not None
        assert view.first == first


async def test_what_has_ended_has_no_readers(redis: Redis):
    """Nobody would ever take them out again."""
    p = pool(redis)
    claim = await p.running()
    ended = append_to(claim, entries=[end_entry(claim.o + 1, 0)], end=usage_event(claim.tenant, claim.id))
    await p.queue.append("w1", [ended])
    view = await p.queue.reader(claim.tenant, claim.id, "g1", "reading")
    assert view is not None
    assert (view.status, view.following, view.ended) == (RequestStatus.ENDED, False, True)
    assert await redis.keys(p.key("rd:*")) == await redis.keys(p.key("reads:*")) == []


async def test_a_gateway_that_begins_to_follow_has_a_lease(redis: Redis):
    """Else the next round of a reaper would drop it."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    await p.queue.reader(e.tenant, e.id, "g1", "reading")
    p.clock.advance(p.settings.gateway_lease_ms - 1)
    assert (await p.queue.reap()).dead_readers == 0
    p.clock.advance(1)
    assert (await p.queue.reap()).dead_readers == 1
