"""Who gets a worker's room, on a real Valkey: reserves, large requests, warm workers, who leaves for whom."""

from typing import Any

import msgspec

from core.errors import Refusal
from engine.api import ClaimOffer, ClaimReply, Control, Enqueued, PriorityClass, TenantTerms
from engine.queue.types import ReleaseWhy
from tests.engine.builders import FINGERPRINT, Pool, append_to, pool, request
from tests.support.redis import Redis

BULK, STANDARD, INTERACTIVE = PriorityClass.BULK, PriorityClass.STANDARD, PriorityClass.INTERACTIVE


async def put(p: Pool, count: int = 1, **changes: Any) -> list[str]:
    """Requests in line: their ids."""
    sent = [request(**changes) for _ in range(count)]
    for e in sent:
        assert isinstance(await p.queue.enqueue(e), Enqueued)
    return [e.id for e in sent]


async def claim(p: Pool, worker: str = "w1", **room: int) -> ClaimReply:
    """The worker's next call."""
    p.calls[worker] = p.calls.get(worker, 0) + 1
    offer = ClaimOffer(
        FINGERPRINT, room.get("slots", 16), room.get("kv", 1_000), room.get("prefill", 100_000)
    )
    return await p.queue.claim(worker, p.calls[worker], offer)


async def ids(p: Pool, worker: str = "w1", **room: int) -> list[str]:
    """The ids that a call gets."""
    return [found.id for found in (await claim(p, worker, **room)).claims]


async def test_a_class_leaves_free_what_higher_ones_have_reserved(redis: Redis):
    """Of each worker its part; what the higher class uses counts, so it is not reserved twice."""
    p = pool(redis)
    await p.worker("w1", kv_tokens=1_000)
    await p.worker("w2", kv_tokens=1_000)
    await p.queue.set_reserve(INTERACTIVE, 800)
    bulk = await put(p, 8, priority=BULK, prompt_tokens=50, granted=50)
    assert await ids(p) == bulk[:6]
    assert await ids(p, kv=400) == []
    urgent = await put(p, 2, prompt_tokens=50, granted=50)
    assert await ids(p, kv=400) == urgent
    assert await ids(p, kv=400) == bulk[6:7]
    await p.queue.set_reserve(INTERACTIVE, 0)
    assert await ids(p, kv=300) == bulk[7:]


async def test_a_tenants_reserve_binds_the_others_only(redis: Redis):
    """Whatever their class; its own work takes it."""
    p = pool(redis)
    await p.worker("w1", kv_tokens=1_000)
    assert await p.queue.set_tenant("paid", TenantTerms(reserve_tokens=500))
    await put(p, 8, tenant="other", prompt_tokens=50, granted=50)
    mine = await put(p, 1, tenant="paid", priority=BULK, prompt_tokens=100, granted=100)
    assert len(await ids(p)) == 6
    assert await p.client.hget(p.key("ten:paid"), "tokens") == b"200"
    assert await p.client.smismember(p.key("run:paid"), mine) == [1]


async def test_so_many_tenants_have_a_reserve(redis: Redis):
    """Each claim reads them all. One that has a reserve may change it."""
    p = pool(redis, tenant_reserves_max=1)
    assert await p.queue.set_tenant("a", TenantTerms(reserve_tokens=10))
    assert not await p.queue.set_tenant("b", TenantTerms(reserve_tokens=10))
    assert await p.queue.set_tenant("a", TenantTerms(reserve_tokens=20))
    assert await p.queue.set_tenant("a", TenantTerms())
    assert await p.queue.set_tenant("b", TenantTerms(reserve_tokens=10))


async def test_at_most_two_large_prefills_run_on_a_worker(redis: Redis):
    """Over a quarter of a worker's KV is large; the smaller ones behind go on. A first token makes room."""
    p = pool(redis)
    await p.worker("w1", kv_tokens=1_000)
    large = await put(p, 3, prompt_tokens=200, granted=60)
    (small,) = await put(p, 1, prompt_tokens=200, granted=50)
    assert await p.places("t1", large[0]) == {"line:interactive", "big:interactive"}
    first = await claim(p, kv=10_000)
    assert [found.id for found in first.claims] == [*large[:2], small]
    assert (await claim(p, kv=10_000)).retry_ms > 0
    await p.queue.append("w1", [append_to(first.claims[0], ids=(1,))])
    assert await ids(p, kv=10_000) == large[2:]


async def test_a_preempted_request_waits_for_the_worker_that_has_it_cached(redis: Redis):
    """For no longer than the prefill that this saves, at most 300 ms, and not for a worker that is gone."""
    p = pool(redis)
    await p.queue.register("w1", FINGERPRINT, {"kv_tokens": 1_000, "prefill_tokens_per_second": 1_000})
    await p.worker("w2", kv_tokens=1_000)
    (id,) = await put(p, prompt_tokens=100)
    (held,) = (await claim(p)).claims
    await p.queue.unclaim("w1", "t1", id, held.ck, "preempt")
    answer = await claim(p, "w2")
    assert (answer.claims, answer.retry_ms) == ([], 100)
    p.clock.advance(99)
    assert (await claim(p, "w2")).retry_ms == 1
    p.clock.advance(1)
    (held,) = (await claim(p, "w2")).claims
    await p.queue.unclaim("w2", "t1", id, held.ck, "preempt")
    await p.queue.deregister("w2")
    assert await ids(p) == [id]


async def test_its_own_worker_takes_it_at_once(redis: Redis):
    """Nobody waits for himself; and a drained worker is not waited for."""
    p = pool(redis)
    await p.worker("w1")
    await p.worker("w2")
    (id,) = await put(p, prompt_tokens=5_000, granted=1)
    whys: tuple[ReleaseWhy, ...] = ("preempt", "drain")
    for why in whys:
        (held,) = (await claim(p, kv=10_000)).claims
        await p.queue.unclaim("w1", "t1", id, held.ck, why)
    assert await ids(p, "w2", kv=10_000) == [id]


async def busy(p: Pool) -> tuple[list[str], list[str]]:
    """A worker full of bulk and standard work that has run for two seconds: the ids of both."""
    await p.worker("w1", kv_tokens=1_000)
    bulk = await put(p, 2, priority=BULK, prompt_tokens=100, granted=100)
    standard = await put(p, 3, priority=STANDARD, prompt_tokens=100, granted=100)
    assert len(await ids(p)) == 5
    p.clock.advance(2_000)
    await p.queue.renew("w1", 0, {})
    return bulk, standard


async def test_lower_work_leaves_for_interactive_work(redis: Redis):
    """The lowest class first, no more than it takes; each hears of it once, and nothing lower is taken."""
    p = pool(redis)
    bulk, standard = await busy(p)
    (urgent,) = await put(p, prompt_tokens=150, granted=150, tenant="t2")
    (tiny,) = await put(p, priority=BULK, prompt_tokens=1, granted=1)
    answer = await claim(p, kv=10)
    assert (answer.claims, answer.retry_ms > 0) == ([], True)
    assert {id for _, id in answer.victims} == set(bulk)
    assert (await claim(p, kv=10)).victims == []
    told = (await p.queue.renew("w1", 0, {})).control
    assert {(id, flag) for _, id, flag in told} == {(id, Control.PREEMPT) for id in bulk}
    for id in bulk:
        ck = await p.client.hget(p.key(f"req:t1:{id}"), "ck")
        assert await p.queue.unclaim("w1", "t1", id, ck.decode(), "preempt")
    assert await ids(p, kv=410) == [urgent, tiny]
    assert {id for id in standard if await p.places("t1", id) == {"run", "claims:w1"}} == set(standard)


async def test_a_slot_is_freed_too(redis: Redis):
    """A worker without slots asks all the same."""
    p = pool(redis)
    bulk, _ = await busy(p)
    assert (await claim(p, slots=0)).victims == []
    await put(p, prompt_tokens=1, granted=1)
    assert [id for _, id in (await claim(p, slots=0)).victims] == [min(bulk)]


async def test_nobody_leaves_in_vain(redis: Redis):
    """Where all that may leave would not make room, and what left three times stays, none is told to."""
    p = pool(redis)
    bulk, standard = await busy(p)
    await p.client.hset(p.key(f"req:t1:{bulk[0]}"), "preempts", 3)
    (large,) = await put(p, prompt_tokens=900, granted=100, max_tokens=100)
    assert (await claim(p, kv=0)).victims == []
    await p.client.hset(p.key(f"req:t1:{bulk[0]}"), "preempts", 2)
    answer = await claim(p, kv=0)
    assert {id for _, id in answer.victims} == {*bulk, *standard}
    assert await p.places("t1", large) == {"line:interactive", "big:interactive"}


async def test_what_has_just_begun_is_left_alone(redis: Redis):
    """For two seconds, or claims and orders to leave would chase each other."""
    p = pool(redis)
    await p.worker("w1", kv_tokens=1_000)
    await put(p, 1, priority=BULK, prompt_tokens=100, granted=100)
    await ids(p)
    await put(p, prompt_tokens=50, granted=50)
    p.clock.advance(1_999)
    assert (await claim(p, kv=0)).victims == []
    p.clock.advance(1)
    assert len((await claim(p, kv=0)).victims) == 1


async def test_a_tenants_highest_class_bounds_what_it_asks_for(redis: Redis):
    """A lower one it may choose."""
    p = pool(redis)
    await p.queue.set_tenant("t1", TenantTerms(highest=STANDARD))
    found = [(await put(p, priority=asked))[0] for asked in (INTERACTIVE, STANDARD, BULK)]
    classes = [view.priority for id in found if (view := await p.queue.view("t1", id))]
    assert classes == [STANDARD, STANDARD, BULK]


async def test_a_flood_does_not_lengthen_anothers_predicted_wait(redis: Redis):
    """The prediction is of the fair turn: what is refused to the flood is promised to the quiet tenant."""
    p = pool(redis)
    await p.worker()
    await put(p, 100, tenant="flood")
    for _ in range(10):
        p.clock.advance(1_000)
        await p.queue.renew("w1", 0, {})
        await ids(p, slots=1, kv=100_000)
    soon = request(tenant="quiet", deadline_ms=p.clock.ms + 10_000)
    late = msgspec.structs.replace(soon, tenant="flood")
    assert isinstance(await p.queue.enqueue(late), Refusal)
    reply = await p.queue.enqueue(soon)
    assert isinstance(reply, Enqueued)
    assert reply.position == 1
    assert 500 <= reply.wait_ms <= 2_000
