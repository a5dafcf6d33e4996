"""One claim at its edges, on a real Valkey: what it takes to the last token, and what it leaves to whom."""

from typing import Any

import pytest

from engine.api import ClaimOffer, ClaimReply, PriorityClass, TenantTerms
from tests.engine.builders import FINGERPRINT, START_MS, Pool, append_to, pool, request
from tests.support.redis import Redis

BULK, STANDARD, INTERACTIVE = PriorityClass.BULK, PriorityClass.STANDARD, PriorityClass.INTERACTIVE


async def put(p: Pool, **changes: Any) -> str:
    """A request in line: its id."""
    e = request(**{"tenant": "t1", "granted": 10, "prompt_tokens": 10, **changes})
    await p.queue.enqueue(e)
    return e.id


async def claim(p: Pool, worker: str = "w1", lowest: PriorityClass = BULK, **room: int) -> ClaimReply:
    """The worker's next call."""
    p.calls[worker] = p.calls.get(worker, 0) + 1
    slots, kv, prefill = room.get("slots", 16), room.get("kv", 1_000), room.get("prefill", 100_000)
    return await p.queue.claim(worker, p.calls[worker], ClaimOffer(FINGERPRINT, slots, kv, prefill, lowest))


def ids(found: ClaimReply) -> list[str]:
    """Of what it takes."""
    return [each.id for each in found.claims]


async def test_prefill_is_used_up_and_not_passed(redis: Redis):
    """Where none is left nothing more is taken; the worker is told when to ask again only where it got
    nothing."""
    p = pool(redis)
    await p.worker()
    first, second = await put(p), await put(p)
    found = await claim(p, prefill=10)
    assert (ids(found), found.retry_ms) == ([first], 0)
    found = await claim(p, prefill=0)
    assert (ids(found), found.retry_ms) == ([], 50)
    assert ids(await claim(p, prefill=1)) == [second]
    found = await claim(p)
    assert (ids(found), found.retry_ms) == ([], 0), "nothing waits"


async def test_a_worker_whose_lease_ends_now_takes_nothing(redis: Redis):
    """A reaper may already have what it held."""
    p = pool(redis)
    await p.worker()
    await put(p)
    p.clock.advance(p.settings.worker_lease_ms)
    assert ids(await claim(p)) == []


@pytest.mark.parametrize(
    ("waited_ms", "lowest", "eighth"),
    [
        (10_000, BULK, INTERACTIVE),
        (10_001, BULK, BULK),
        (10_001, STANDARD, INTERACTIVE),
        (19_000, BULK, BULK),
        (20_000, BULK, STANDARD),
    ],
)
async def test_the_eighth_pick_is_of_the_class_that_is_most_overdue(
    redis: Redis, waited_ms: int, lowest: PriorityClass, eighth: PriorityClass
):
    """By its own measure, of those that the worker takes at all; what is just due is not overdue. The
    standard one came ten seconds after the bulk one, and waits half as long; of two alike the higher goes."""
    p = pool(redis, age_bulk_ms=10_000, age_standard_ms=5_000, worker_lease_ms=60_000)
    await p.worker()
    waiting = {await put(p, priority=BULK): BULK}
    if waited_ms > 10_001:
        p.clock.advance(10_000)
        waiting[await put(p, priority=STANDARD)] = STANDARD
    for _ in range(9):
        waiting[await put(p)] = INTERACTIVE
    for _ in range(7):
        assert [waiting[id] for id in ids(await claim(p, slots=1))] == [INTERACTIVE]
    p.clock.ms = START_MS + waited_ms
    assert [waiting[id] for id in ids(await claim(p, lowest=lowest, slots=1))] == [eighth]


async def test_what_fits_is_taken_before_room_is_made(redis: Redis):
    """A large interactive request orders work to leave; a small one behind it does not wait for that."""
    p = pool(redis)
    await p.worker(kv_tokens=1_000)
    low = [await put(p, priority=BULK, prompt_tokens=size) for size in (150, 170)]
    held = (await claim(p)).claims
    await p.queue.append("w1", [append_to(held[0], ids=tuple(range(50)))])
    p.clock.advance(2_000)
    await p.queue.renew("w1", 0, {})
    await put(p, prompt_tokens=100, granted=20)
    small = await put(p)
    found = await claim(p, kv=20)
    assert (ids(found), found.victims) == ([small], [("t1", low[1])]), "who costs least to compute again"
    assert (await claim(p, kv=0)).victims == []


async def test_a_slot_that_is_being_given_back_is_not_asked_for_again(redis: Redis):
    """One leaves for one."""
    p = pool(redis)
    await p.worker(kv_tokens=1_000)
    low = [await put(p, priority=BULK) for _ in range(2)]
    await claim(p)
    p.clock.advance(2_000)
    await p.queue.renew("w1", 0, {})
    await put(p)
    assert (await claim(p, slots=0)).victims == [("t1", min(low))]
    assert (await claim(p, slots=0)).victims == []


async def test_what_was_computed_is_kept_warm_as_long_as_it_saves(redis: Redis):
    """Its answer's tokens, too; at most two seconds for bulk, and never past its worker's lease."""
    p = pool(redis)
    await p.queue.register("w1", FINGERPRINT, {"kv_tokens": 10_000, "prefill_tokens_per_second": 1_000})
    await p.worker("w2")
    id = await put(p, priority=BULK, prompt_tokens=100)
    (held,) = (await claim(p)).claims
    await p.queue.append("w1", [append_to(held, ids=tuple(range(20)))])
    await p.queue.unclaim("w1", "t1", id, held.ck, "preempt")
    assert (await claim(p, "w2")).retry_ms == 120
    (held,) = (await claim(p)).claims
    await p.queue.append("w1", [append_to(held, ids=tuple(range(5_000)))])
    await p.queue.renew("w2", 0, {})
    await p.queue.unclaim("w1", "t1", id, held.ck, "preempt")
    assert (await claim(p, "w2", kv=100_000)).retry_ms == 2_000
    p.clock.advance(1_500)
    (held,) = (await claim(p, kv=100_000)).claims
    await p.queue.unclaim("w1", "t1", id, held.ck, "preempt")
    p.clock.advance(1_499)
    await p.queue.renew("w2", 0, {})
    assert (await claim(p, "w2", kv=100_000)).claims == []
    p.clock.advance(1)
    assert ids(await claim(p, "w2", kv=100_000)) == [id]


async def test_a_reserve_that_is_used_in_the_same_call_is_kept_no_more(redis: Redis):
    """Of 500 tokens its tenant takes 200 first: the others leave the rest."""
    p = pool(redis)
    await p.worker(kv_tokens=1_000)
    assert await p.queue.set_tenant("paid", TenantTerms(reserve_tokens=500))
    mine = await put(p, tenant="paid", prompt_tokens=100, granted=100)
    others = [await put(p, prompt_tokens=50, granted=50) for _ in range(8)]
    assert ids(await claim(p)) == [mine, *others[:5]]
