"""Getting into the pool's queue and out of it, on a real Valkey: enqueue and claim."""

import asyncio
import re

import msgspec
import pytest

from core.errors import Refusal
from engine.api import (
    AppendCode,
    ClaimOffer,
    Control,
    Enqueued,
    PriorityClass,
    RequestStatus,
    TenantTerms,
)
from engine.queue.lua_scripts import FOLDER
from tests.engine.builders import (
    FINGERPRINT,
    START_MS,
    append_to,
    pool,
    request,
    request_input,
)
from tests.support.redis import Redis


def refusal_of(reply: object) -> Refusal:
    assert isinstance(reply, Refusal)
    return reply


async def test_a_request_is_enqueued_once(redis: Redis):
    """The same id again returns the request there is, and adds nothing."""
    p = pool(redis)
    e = request(gateway="g1")
    first = await p.queue.enqueue(e)
    again = await p.queue.enqueue(e)
    assert first == Enqueued(True, RequestStatus.QUEUED, 1, 1, 0, 0)
    assert again == Enqueued(False, RequestStatus.QUEUED, 1, 1, 0, 0)
    assert await p.kinds(e.tenant, e.id) == ["queued"]
    assert await p.places(e.tenant, e.id) == {"line:interactive", "ids:interactive"}
    assert await redis.hgetall(p.key(f"rd:{e.tenant}:{e.id}")) == {b"g1": b"reading"}


async def test_the_same_id_with_another_body_is_refused(redis: Redis):
    """A client that reuses an id for something else is told so."""
    p = pool(redis)
    e = request()
    await p.queue.enqueue(e)
    again = await p.queue.enqueue(msgspec.structs.replace(e, body_hash="another"))
    assert refusal_of(again).code == "id_conflict"


async def test_a_full_pool_is_overloaded(redis: Redis):
    """At the pool's bound a request is refused with a time to wait; a known one is still returned."""
    p = pool(redis, queue_requests_max=2)
    known = request()
    await p.queue.enqueue(known)
    await p.queue.enqueue(request())
    refused = refusal_of(await p.queue.enqueue(request()))
    assert (refused.code, refused.retry, refused.scope) == ("overloaded", True, None)
    assert refused.after_ms is not None
    assert refused.after_ms >= 1000
    assert isinstance(await p.queue.enqueue(known), Enqueued)


async def test_a_tenant_with_too_many_waiting_is_rate_limited(redis: Redis):
    """The bound is per tenant: another one's request is taken. Large ones count as others do."""
    p = pool(redis, queue_requests_per_tenant_max=2)
    await p.worker(kv_tokens=2_000)
    for prompt_tokens in (10, 300):
        await p.queue.enqueue(request(prompt_tokens=prompt_tokens))
    refused = refusal_of(await p.queue.enqueue(request(priority=PriorityClass.BULK)))
    assert (refused.code, refused.scope, refused.retry) == ("rate_limited", "tenant", True)
    assert isinstance(await p.queue.enqueue(request(tenant="t2")), Enqueued)


@pytest.mark.parametrize(("weight", "seconds"), [(1.0, 5), (4.0, 3)])
async def test_a_rate_limited_tenant_is_told_its_own_pace(redis: Redis, weight: float, seconds: int):
    """A request a second leaves the line, and four others wait beside it: its next turn takes as long as
    its share says."""
    p = pool(redis, queue_requests_per_tenant_max=2)
    await p.queue.set_tenant("t1", TenantTerms(weight=weight))
    for tenant in ("t1", "t2", "t3", "t4", "t5"):
        for _ in range(2):
            await p.queue.enqueue(request(tenant=tenant, deadline_ms=START_MS + 10**9))
    await p.client.hset(p.key("sys"), "pace", "1000")
    refused = refusal_of(await p.queue.enqueue(request(deadline_ms=START_MS + 10**9)))
    assert refused.after_ms == 1000 * seconds


async def test_a_request_that_no_worker_can_hold_is_too_large(redis: Redis):
    """The bound is the largest worker that runs its model, and goes when that worker goes."""
    p = pool(redis)
    await p.worker("small", kv_tokens=100)
    await p.worker("big", kv_tokens=200)
    assert isinstance(await p.queue.enqueue(request(prompt_tokens=100, max_tokens=100)), Enqueued)
    assert refusal_of(await p.queue.enqueue(request(prompt_tokens=101, max_tokens=100))).limit == 200
    await p.queue.deregister("big")
    assert refusal_of(await p.queue.enqueue(request(prompt_tokens=100, max_tokens=100))).code == "too_large"


async def test_a_model_that_nobody_runs_is_refused(redis: Redis):
    """Two minutes after its last worker was there or expected: at once, and only what is new."""
    p = pool(redis)
    await p.worker("w1")
    known = request(deadline_ms=START_MS + 10_000_000)
    await p.queue.enqueue(known)
    await p.queue.deregister("w1")
    p.clock.advance(120_000)
    assert isinstance(await p.queue.enqueue(request()), Enqueued)
    p.clock.advance(1)
    answer = await p.queue.enqueue(request())
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.retry, answer.message) == (
        "overloaded",
        True,
        "no worker runs this model now",
    )
    again = await p.queue.enqueue(known)
    assert isinstance(again, Enqueued)
    assert not again.created
    assert isinstance(await p.queue.enqueue(request(fingerprint="another")), Enqueued)
    await p.queue.starting(FINGERPRINT)
    assert isinstance(await p.queue.enqueue(request()), Enqueued)


async def test_another_version_never_continues_an_answer(redis: Redis):
    """Begun under one fingerprint it waits for a worker of that one, which goes on with it, or ends."""
    p = pool(redis)
    begun, left = [await p.running("old", deadline_ms=START_MS + 10_000_000) for _ in range(2)]
    for claim in (begun, left):
        await p.queue.append("old", [append_to(claim, ids=(1, 2), x="ab")])
    await p.queue.deregister("old", "lost")
    await p.worker("new", "smollm2@2")
    assert await p.claim("new", fingerprint="smollm2@2") == []
    await p.worker("old again")
    (claim,) = await p.claim("old again", slots=1)
    assert (claim.id, claim.n) == (begun.id, 2)
    await p.queue.deregister("old again", "drain")
    for _ in range(121):
        p.clock.advance(1_000)
        await p.queue.renew("new", 0, {"kv_tokens": 100_000})
        assert await p.claim("new", fingerprint="smollm2@2") == []
    expired = {(each.id, each.reason, each.code) for each in (await p.queue.reap()).expired}
    assert expired == {(claim.id, "error", "engine_lost") for claim in (begun, left)}


async def test_a_passed_deadline_is_refused(redis: Redis):
    """What would be over before it starts does not wait."""
    p = pool(redis)
    refused = refusal_of(await p.queue.enqueue(request(deadline_ms=START_MS)))
    assert refused.code == "overloaded"


async def test_a_deadline_inside_the_predicted_wait_is_refused(redis: Redis):
    """The pace at which a full pool takes requests predicts the wait of the next one."""
    p = pool(redis)
    await p.worker()
    for _ in range(20):
        await p.queue.enqueue(request())
    for _ in range(10):
        p.clock.advance(1000)
        assert len(await p.claim(slots=1)) == 1
        await p.queue.renew("w1", 0, {})
    reply = await p.queue.enqueue(request(deadline_ms=p.clock.ms + 60_000))
    assert isinstance(reply, Enqueued)
    assert 9_000 <= reply.wait_ms <= 11_000
    refused = refusal_of(await p.queue.enqueue(request(deadline_ms=p.clock.ms + 5_000)))
    assert refused.code == "overloaded"
    assert refused.after_ms is not None
    assert 4_000 <= refused.after_ms <= 7_000, "by then it would come in time"


async def test_a_full_redis_refuses_new_work_and_finishes_old(redis: Redis):
    """Above 85 % of maxmemory, and at all of it, enqueue is overloaded while claims and appends go on."""
    p = pool(redis)
    claim = await p.running()
    used = (await redis.info("memory"))["used_memory"]
    try:
        await redis.config_set("maxmemory", int(used / 0.9))
        assert refusal_of(await p.queue.enqueue(request())).code == "overloaded"
        await redis.config_set("maxmemory", 1_000_000)
        assert refusal_of(await p.queue.enqueue(request())).code == "overloaded"
        answer = await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
        assert answer[0].code is AppendCode.OK
        assert await p.queue.control(claim.tenant, claim.id, Control.CANCEL) is RequestStatus.RUNNING
        assert await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")
    finally:
        await redis.config_set("maxmemory", 0)


async def test_classes_are_served_in_order_and_requests_first_come_first_served(redis: Redis):
    """Interactive before standard before bulk, whoever's they are; within a class by arrival."""
    p = pool(redis)
    await p.worker()
    names: dict[str, str] = {}
    arrivals = ("bulk", "interactive", "standard", "interactive", "bulk", "standard")
    for at, class_ in enumerate(arrivals):
        e = request(priority=PriorityClass(class_), tenant=f"t{at % 2}")
        names[e.id] = f"{class_}{at}"
        await p.queue.enqueue(e)
    first = [names[claim.id] for claim in await p.claim(slots=4)]
    rest = [names[claim.id] for claim in await p.claim()]
    assert first + rest == ["interactive1", "interactive3", "standard2", "standard5", "bulk0", "bulk4"]


async def test_many_of_one_millisecond_keep_their_order(redis: Redis):
    """Arrival order is strict even where the clock stands still."""
    p = pool(redis, claim_picks_max=100)
    await p.worker()
    sent = [request(tenant=f"t{at % 7}") for at in range(60)]
    for e in sent:
        await p.queue.enqueue(e)
    assert [c.id for c in await p.claim(slots=60)] == [e.id for e in sent]


async def test_a_claim_hands_over_what_a_worker_needs(redis: Redis):
    """A fresh claim token, the input, and the log's state, with `running` logged by the first claim."""
    p = pool(redis)
    e = request()
    await p.worker()
    await p.queue.enqueue(e)
    p.clock.advance(70)
    (claim,) = await p.claim()
    assert (claim.tenant, claim.id, claim.cn, claim.epoch, claim.n, claim.o) == (e.tenant, e.id, 1, 1, 0, 2)
    assert (claim.input, claim.tokens, claim.granted, claim.control) == (e.input, b"", 256, Control(0))
    assert claim.claimed_ms == START_MS + 70
    assert len(claim.ck) > 16
    assert await p.kinds(e.tenant, e.id) == ["queued", "running"]
    assert await p.places(e.tenant, e.id) == {"run", "claims:w1"}


async def test_a_repeated_claim_call_gets_the_same_answer(redis: Redis):
    """A lost reply strands nothing: the same call number repeats its picks, an older one gets none."""
    p = pool(redis)
    await p.worker()
    for _ in range(3):
        await p.queue.enqueue(request())
    offer = ClaimOffer(FINGERPRINT, 2, 100_000, 100_000)
    first = await p.queue.claim("w1", 1, offer)
    assert len(first.claims) == 2
    assert await p.queue.claim("w1", 1, offer) == first
    assert len((await p.queue.claim("w1", 2, offer)).claims) == 1
    assert (await p.queue.claim("w1", 1, offer)).claims == []


async def test_a_repeated_claim_leaves_out_what_was_released_meanwhile(redis: Redis):
    """A pick that lives under another claim token by now is not handed out again."""
    p = pool(redis)
    await p.worker()
    await p.queue.enqueue(request())
    offer = ClaimOffer(FINGERPRINT, 2, 100_000, 100_000)
    (claim,) = (await p.queue.claim("w1", 1, offer)).claims
    await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")
    assert (await p.queue.claim("w1", 1, offer)).claims == []


async def test_only_a_live_worker_with_the_right_model_claims(redis: Redis):
    """Strangers, expired workers and other models get nothing; other models' requests block nobody."""
    p = pool(redis)
    await p.queue.enqueue(request(fingerprint="other@1"))
    e = request()
    await p.queue.enqueue(e)
    assert await p.claim("stranger") == []
    await p.worker()
    p.clock.advance(3_001)
    assert await p.claim() == []
    await p.worker("w2")
    assert [c.id for c in await p.claim("w2")] == [e.id]


async def test_what_does_not_fit_is_skipped(redis: Redis):
    """A large request does not end the scan; with nothing taken the worker is told when to ask again."""
    p = pool(redis)
    await p.worker()
    await p.queue.enqueue(request(prompt_tokens=5_000))
    small = request(prompt_tokens=10)
    await p.queue.enqueue(small)
    assert [c.id for c in await p.claim(kv_tokens=1_000)] == [small.id]
    claims = await p.queue.claim("w1", 99, ClaimOffer(FINGERPRINT, 16, 1_000, 100_000))
    assert (claims.claims, claims.retry_ms > 0) == ([], True)


async def test_prefill_is_bounded_but_one_prompt_always_goes(redis: Redis):
    """A prompt above the whole prefill budget is taken alone, else it would starve."""
    p = pool(redis)
    await p.worker()
    for _ in range(2):
        await p.queue.enqueue(request(prompt_tokens=5_000))
    assert len(await p.claim(prefill_tokens=512)) == 1
    assert len(await p.claim(prefill_tokens=512)) == 1


async def test_expired_and_cancelled_requests_are_never_claimed(redis: Redis):
    """They wait for their end, not for a worker."""
    p = pool(redis)
    await p.worker()
    late, cancelled = request(deadline_ms=START_MS + 100), request()
    await p.queue.enqueue(late)
    await p.queue.enqueue(cancelled)
    assert await p.queue.control(cancelled.tenant, cancelled.id, Control.CANCEL) is RequestStatus.QUEUED
    p.clock.advance(100)
    assert await p.claim() == []
    reaped = await p.queue.reap()
    assert {(e.id, e.reason) for e in reaped.expired} == {(late.id, "deadline"), (cancelled.id, "cancelled")}


async def test_idle_workers_are_woken(redis: Redis):
    """Waiting ends with the first request put in line, or with time."""
    p = pool(redis)
    assert not await p.queue.wait_for_work(0.01)
    waiting = asyncio.ensure_future(p.queue.wait_for_work(5))
    await p.queue.enqueue(request())
    assert await waiting


async def test_workers_are_listed(redis: Redis):
    """With model, load and whether the lease holds."""
    p = pool(redis)
    await p.running()
    await p.queue.renew("w1", 0, {"waiting": 2})
    (view,) = await p.queue.workers()
    assert (view.worker, view.fingerprint, view.alive) == ("w1", FINGERPRINT, True)
    assert (view.claims, view.info) == (1, {"waiting": 2})
    p.clock.advance(3_000)
    assert [view.alive for view in await p.queue.workers()] == [False]


async def test_the_servers_own_time_is_used_without_a_clock(redis: Redis):
    """In production scripts go by Redis' clock."""
    p = pool(redis)
    p.queue._clock = None
    now = await p.queue.now_ms()
    e = request(deadline_ms=now + 60_000, input=request_input())
    await p.queue.enqueue(e)
    await p.worker()
    (claim,) = await p.claim()
    assert now <= claim.claimed_ms <= now + 5_000


def test_all_but_an_enqueue_work_in_a_full_redis():
    """What is accepted goes on and ends."""
    first = {path.stem: path.read_text().partition("\n")[0] for path in FOLDER.glob("*.lua")}
    assert [
        name for name, line in first.items() if not {"allow-oom", "no-writes"} & set(re.split("[=,]", line))
    ] == ["enqueue"]
