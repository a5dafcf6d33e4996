"""Counts, sizes and places that a taken-over worker writes: they are believed as far as what is there bears
them out, and hide nobody's requests."""

from typing import Any

import pytest

from billing.api import Quota
from core.configuration.settings import Settings
from core.errors import Refusal
from engine.api import Enqueued, PriorityClass, TenantTerms
from engine.lifecycle.stale_admissions import release_stale_admissions
from engine.queue.client import PoolQueue
from tests.billing.quota.admissions import an_admission
from tests.engine.builders import FINGERPRINT, HOUR_MS, Pool, pool, request
from tests.support.redis import Redis

CROWD = 10_000
LIVE, RQ = "{t:t1}live", "{t:t1}rq:"


@pytest.mark.parametrize("state", [None, "open", "ended", "other type", "no name"])
async def test_what_a_worker_planted_hides_no_stale_admission(
    state: str | None, redis: Redis, settings: Settings
):
    """However many stand before it; what has no open request is taken out."""
    client: Any = redis
    quota, queue = Quota(redis, settings), PoolQueue(redis, "A", settings)
    await quota.admit(an_admission(id="r1", now_ms=1_000))
    names: list[Any] = [b"\xff%d" % at if state == "no name" else f"x{at}" for at in range(CROWD)]
    await client.zadd(LIVE, dict.fromkeys(names, 1))
    if state in ("open", "ended"):
        fields = {"state": state, "pool": "nowhere", "admitted": "1", "deadline": "1", "hold": "0"}
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.hset(f"{RQ}{name}", mapping=fields)
        await pipeline.execute()
    elif state == "other type":
        await client.mset({f"{RQ}{name}": "x" for name in names})
    assert await release_stale_admissions(queue, quota) >= 1
    assert await client.hget(f"{RQ}r1", "state") == b"released"
    assert await client.zcard(LIVE) == 0


async def test_what_is_open_by_then_is_not_taken_out(redis: Redis, settings: Settings):
    """An id that had no request when it was looked at, and was admitted meanwhile."""
    quota: Any = Quota(redis, settings)
    await quota.admit(an_admission(id="r1"))
    await quota._take_out("t1", ["r1"])
    assert [hold.id for hold in await quota.holds("t1")] == ["r1"]


async def counted(p: Pool) -> None:
    """Looks of reapers, until each has come to its end."""
    for _ in range(12):
        p.clock.advance(5_000)
        await p.queue.reap()


@pytest.mark.parametrize(
    "planted", [{"tokens": 1 << 53}, {"tokens": 900}, {"tokens": "x"}, {"counter": 1 << 53, "credit": -5}]
)
@pytest.mark.parametrize("runs", [False, True])
async def test_a_count_of_tokens_is_what_runs_holds(runs: bool, planted: dict[str, Any], redis: Redis):
    """A tenant under its cap is served again, and one at it is not."""
    p = pool(redis, worker_lease_ms=HOUR_MS)
    await p.worker()
    await p.queue.set_tenant("t1", TenantTerms(slots_max=5, tokens_max=1_000))
    if runs:
        await p.queue.enqueue(request(prompt_tokens=500, granted=0, max_tokens=1))
        assert len(await p.claim()) == 1
    await p.client.hset(p.key("ten:t1"), mapping=planted)
    waits, too_much = (
        request(prompt_tokens=400, granted=0, max_tokens=1),
        request(prompt_tokens=800, max_tokens=1),
    )
    await p.queue.enqueue(waits)
    await p.queue.enqueue(too_much)
    await p.claim(slots=1, kv_tokens=1)  # which may find that it is at its cap
    await counted(p)
    assert [claim.id for claim in await p.claim()] == [waits.id]
    assert await p.client.hget(p.key("ten:t1"), "tokens") == (b"900" if runs else b"400")


async def test_a_tenant_that_a_worker_blocked_is_served(redis: Redis):
    """It has no cap."""
    p = pool(redis, worker_lease_ms=HOUR_MS)
    await p.worker()
    await p.client.sadd(p.key("blocked:interactive"), "t1", *(f"x{at}" for at in range(100)))
    await p.queue.enqueue(request(id="r1"))
    assert await p.claim() == []
    await counted(p)
    assert [claim.id for claim in await p.claim()] == ["r1"]
    assert await p.client.scard(p.key("blocked:interactive")) == 0


async def test_runs_that_a_worker_made_up_take_no_place(redis: Redis):
    """However many there are."""
    p = pool(redis, worker_lease_ms=HOUR_MS)
    await p.worker()
    await p.queue.set_tenant("t1", TenantTerms(slots_max=1))
    await p.client.sadd(p.key("run:t1"), *(f"x{at}" for at in range(CROWD)))
    await p.client.hset(p.key("req:t1:x1"), mapping={"status": "running", "worker": "w1", "held": 1 << 53})
    await p.queue.enqueue(request(id="r1"))
    await counted(p)
    assert [claim.id for claim in await p.claim()] == ["r1"]
    assert await p.client.smembers(p.key("run:t1")) == {b"r1"}


@pytest.mark.parametrize("where", ["pool", "worker", "both"])
async def test_a_size_is_what_registered_workers_say(where: str, redis: Redis):
    """What is too large for them is refused, what one of them can hold is not."""
    p = Pool(redis)
    await p.worker(kv_tokens=10_000)
    if where != "worker":
        await p.client.hset(p.key("sys"), f"size:{FINGERPRINT}", 1)
    if where != "pool":
        await p.client.hset(p.key("worker:w1"), "size", 1)
        await p.queue.renew("w1", 0, {"kv_tokens": 10_000})
    assert isinstance(await p.queue.enqueue(request(max_tokens=5_000)), Enqueued)
    refused = await p.queue.enqueue(request(max_tokens=50_000))
    assert isinstance(refused, Refusal)
    assert refused.limit == 10_000


@pytest.mark.parametrize("place", ["first", "last", "between"])
async def test_names_without_a_request_keep_nobody_out_of_a_line(place: str, redis: Redis):
    """More than may wait there: they go, wherever they stand."""
    p = pool(redis, queue_requests_max=CROWD, worker_lease_ms=HOUR_MS)
    await p.worker()
    await p.queue.enqueue(request(id="r1"))
    at = {"first": 0, "last": 1 << 53, "between": p.clock() * 1_000 + 1}[place]
    await p.client.zadd(p.key("age:interactive"), {f"a:{one}": at for one in range(CROWD)})
    await p.client.zadd(p.key("age:interactive"), {b"\xff": at, "": at})
    assert isinstance(await p.queue.enqueue(request()), Refusal)
    await counted(p)
    assert isinstance(await p.queue.enqueue(request(id="r2")), Enqueued)
    assert [claim.id for claim in await p.claim()] == ["r1", "r2"]


async def test_a_pace_that_nobody_measured_refuses_nobody_for_long(redis: Redis):
    """No request takes longer than a minute to follow another, whatever stands there."""
    p = Pool(redis)
    await p.worker()
    await p.client.hset(p.key("sys"), "pace", 1 << 53)
    assert isinstance(await p.queue.enqueue(request(id="r1")), Enqueued)
    assert isinstance(await p.queue.enqueue(request(id="r2", tenant="t2")), Enqueued)


async def test_an_order_of_the_future_keeps_nobody_waiting_for_a_worker(redis: Redis):
    """Before one whose model no worker runs any more: that one ends."""
    p = Pool(redis)
    await p.queue.enqueue(request(id="good", priority=PriorityClass.STANDARD))
    fields = {"status": "queued", "order": 1 << 53, "fingerprint": "evil"}
    for at in range(64):
        await p.client.hset(p.key(f"req:evil:{at}"), mapping=fields)
        await p.client.zadd(p.key("age:standard"), {f"evil:{at}": 1})
    await p.client.hset(p.key("sys"), "seen:evil", 1 << 53)
    p.clock.advance(300_000)
    found = [each.id for _ in range(3) for each in (await p.queue.reap()).expired]
    assert "good" in found
