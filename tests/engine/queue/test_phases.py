"""Phases of a request's life in its record, as the scripts of a real Valkey write them."""

import pytest

from billing.api import Quota
from billing.usage import ENDED_FIELD, PHASES_MAX, Phase, decode, ended_stream
from engine.api import EndReason, TenantTerms, end_unclaimed
from engine.queue.phases import read_phases
from tests.engine.builders import TENANT, Pool, append_to, end_entry, pool, request, usage_event
from tests.engine.pair_of_pools import Pair
from tests.support.redis import Redis


async def phases(p: Pool, id: str) -> list[Phase]:
    """Those of a record."""
    return read_phases((await p.client.hget(p.key(f"req:{TENANT}:{id}"), "phases")).decode())


async def test_a_life_without_trouble_has_four_phases(redis: Redis):
    """In line, claimed, decoding from the first append on, ended. Further appends add none."""
    p, e = pool(redis), request()
    await p.worker()
    p.clock.advance(3)
    await p.queue.enqueue(e)
    p.clock.advance(500)
    (claim,) = await p.claim()
    assert claim.phases == [("queued", 3), ("claimed", 503)]
    p.clock.advance(40)
    await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    p.clock.advance(40)
    await p.queue.append("w1", [append_to(claim, ids=(2,), n0=1, o0=claim.o + 1, x="b", visible=2)])
    assert await phases(p, e.id) == [("queued", 3), ("claimed", 503), ("decode", 543)]
    last = append_to(
        claim, n0=2, o0=claim.o + 2, entries=[end_entry(claim.o + 3, 2)], end=usage_event(TENANT, e.id)
    )
    await p.queue.append("w1", [last])
    assert (await phases(p, e.id))[3:] == [("ended", 583)]


async def test_a_killed_worker_and_a_parked_answer_show(redis: Redis):
    """A lost claim is followed by the next one, parking by the place in line after it. The end that nobody's
    worker writes has them all."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    p.clock.advance(3_000)
    await p.queue.reap()
    await p.worker("w2")
    p.clock.advance(100)
    (again,) = await p.claim("w2")
    assert again.phases == [("queued", 0), ("claimed", 0), ("decode", 0), ("lost", 3000), ("claimed", 3100)]
    await p.queue.unclaim("w2", TENANT, claim.id, again.ck, "drain")
    p.clock.advance(10)
    await p.queue.park(TENANT, claim.id)
    p.clock.advance(10)
    await p.queue.unpark(TENANT, claim.id)
    await end_unclaimed(p.queue, Quota(p.redis, p.settings), TENANT, claim.id, EndReason.CANCELLED)
    later = [("drain", 3100), ("parked", 3110), ("queued", 3120), ("ended", 3120)]
    ((_, fields),) = await p.client.xrange(ended_stream(p.name))
    assert decode(fields[ENDED_FIELD.encode()]).phases == [*again.phases, *later]


@pytest.mark.parametrize(
    ("why", "kind"), [("lost", "lost"), ("preempt", "preempt"), ("grant", "grant"), ("error", "lost")]
)
async def test_what_a_claim_is_given_back_for_shows(redis: Redis, why: str, kind: str):
    """Each has a kind of its own."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.unclaim("w1", TENANT, claim.id, claim.ck, why)  # pyright: ignore[reportArgumentType]
    assert (await phases(p, claim.id))[-1][0] == kind


async def test_a_move_shows_in_the_other_pool(redis: Redis):
    """From when it left until it stood in line there: the record brings along what came before."""
    pair = Pair(redis)
    claim = await pair.running()
    pair.clock.advance(70)
    await pair.mover.migrate("a", TENANT, claim.id, "b")
    pair.clock.advance(20)
    (taken,) = await pair.b.claim("wb")
    assert taken.phases[2:] == [("decode", 0), ("moved", 70), ("queued", 70), ("claimed", 90)]
    pair.clock.advance(5)
    await pair.b.queue.append("wb", [append_to(taken, ids=(3,), x="c")])
    assert (await phases(pair.b, claim.id))[-1] == ("decode", 95)


async def test_it_says_what_it_waits_for(redis: Redis):
    """Room at a worker, or its tenant's cap; said once, however often a worker looks at it."""
    p = pool(redis)
    await p.worker()
    large, capped = request(prompt_tokens=200), request(tenant="t2")
    await p.queue.enqueue(large)
    p.clock.advance(10)
    for _ in range(3):
        assert await p.claim(kv_tokens=100) == []
    assert await phases(p, large.id) == [("queued", 0), ("room", 10)]
    await p.queue.set_tenant("t2", TenantTerms(slots_max=1))
    await p.queue.enqueue(request(tenant="t2"))
    assert len(await p.claim()) == 2
    await p.queue.enqueue(capped)
    record = await p.client.hget(p.key(f"req:t2:{capped.id}"), "phases")
    assert read_phases(record.decode()) == [("queued", 10), ("cap", 10)]


async def test_a_full_worker_is_what_the_next_one_waits_for(redis: Redis):
    """It has no slot to offer, and asks all the same."""
    p, e = pool(redis), request()
    await p.worker()
    await p.queue.enqueue(e)
    await p.claim(slots=0)
    assert await phases(p, e.id) == [("queued", 0), ("room", 0)]


async def test_more_than_there_may_be(redis: Redis):
    """The last one gives way, so that the present state is always there; what it waits for takes half of
    them at most."""
    p = pool(redis)
    claim = await p.running()
    for _ in range(10):
        p.clock.advance(1)
        await p.queue.unclaim("w1", TENANT, claim.id, claim.ck, "drain")
        (claim,) = await p.claim()
    found = await phases(p, claim.id)
    assert len(found) == PHASES_MAX
    assert found[-2:] == [("drain", 7), ("claimed", 10)]
    await p.queue.unclaim("w1", TENANT, claim.id, claim.ck, "drain")
    await p.claim(kv_tokens=1)
    assert (await phases(p, claim.id))[-1] == ("drain", 10)


@pytest.mark.parametrize(
    "written", [b"\xff" * 20, b"x" * 5000, b"queued:1:2 \n", b"claimed:" + b"9" * 40, b""]
)
async def test_what_a_worker_wrote_there_stops_nobody(redis: Redis, written: bytes):
    """The request is claimed and goes on; its phases begin anew, or hold what can be read."""
    p, e = pool(redis), request()
    await p.worker()
    await p.queue.enqueue(e)
    await p.client.hset(p.key(f"req:{TENANT}:{e.id}"), "phases", written)
    (claim,) = await p.claim()
    assert claim.phases[-1] == ("claimed", 0)
    assert len(claim.phases) <= 2


def test_what_is_no_phase_is_left_out():
    """Nor are there more than may be."""
    assert read_phases("queued:1 nonsense:2 moved:x -3 lost:4") == [("queued", 1), ("lost", 4)]
    assert len(read_phases(" ".join(["lost:1"] * 40))) == PHASES_MAX
