"""Whose turn it is, on a real Valkey: shares, ageing, caps, and how much of the line one claim reads."""

from collections import Counter
from typing import Any

import pytest

from core.errors import Refusal
from engine.api import Claim, ClaimOffer, Enqueued, PriorityClass, TenantTerms
from tests.engine.builders import FINGERPRINT, Pool, append_to, end_entry, pool, request, usage_event
from tests.support.redis import Redis

PAGE, TENANTS_MAX, IDS_MAX = 16, 64, 4


async def backlog(p: Pool, tenant: str, count: int, **changes: Any) -> None:
    """Waiting requests of one tenant."""
    for _ in range(count):
        await p.queue.enqueue(request(tenant=tenant, **changes))


async def served(p: Pool, claims: int) -> Counter[str]:
    """Tenants of the next claims, one at a time."""
    found: Counter[str] = Counter()
    for _ in range(claims):
        found.update(claim.tenant for claim in await p.claim(slots=1))
        await p.queue.renew("w1", 0, {})
    return found


async def end(p: Pool, claim: Claim, ids: tuple[int, ...] = (), **changes: Any) -> None:
    """Its worker ends it, with these last tokens."""
    entries = [end_entry(claim.o + 1, len(ids))]
    event = usage_event(claim.tenant, claim.id)
    await p.queue.append("w1", [append_to(claim, ids=ids, entries=entries, end=event, **changes)])


async def counter(p: Pool, tenant: str) -> int:
    """In tokens of weight 1."""
    return int(await p.client.hget(p.key(f"ten:{tenant}"), "counter") or 0) // 1000


async def test_backlogged_tenants_share_by_weight(redis: Redis):
    """A flood of one does not delay the others: of 70 equal requests each gets its share."""
    p = pool(redis, fair_delta_tokens=0)
    await p.worker()
    await backlog(p, "flood", 200)
    for tenant, weight in (("two", 2.0), ("four", 4.0)):
        await p.queue.set_tenant(tenant, TenantTerms(weight=weight))
        await backlog(p, tenant, 60)
    found = await served(p, 70)
    assert abs(found["flood"] - 10) <= 1
    assert abs(found["two"] - 20) <= 1
    assert abs(found["four"] - 40) <= 1


async def test_output_counts_as_the_prompt_does(redis: Redis):
    """Tokens are charged as they are logged, twice a prompt token, once even where the append is repeated."""
    p = pool(redis)
    claim = await p.running(tenant="a", prompt_tokens=100)
    assert await counter(p, "a") == 100
    item = append_to(claim, ids=tuple(range(50)))
    for _ in range(2):
        await p.queue.append("w1", [item])
    assert await counter(p, "a") == 200


async def test_computing_again_is_not_charged(redis: Redis):
    """A request that its worker lost costs its tenant one prompt."""
    p = pool(redis)
    claim = await p.running(tenant="a", prompt_tokens=100)
    await p.queue.unclaim("w1", "a", claim.id, claim.ck, "lost")
    assert len(await p.claim()) == 1
    assert await counter(p, "a") == 100


async def test_a_prompt_that_was_cached_is_taken_off_later_charges(redis: Redis):
    """Counters never fall: what was charged too much pays for the next tokens."""
    p = pool(redis)
    claim = await p.running(tenant="a", prompt_tokens=100)
    await p.queue.append("w1", [append_to(claim, ids=tuple(range(10)), input_cached=80)])
    assert await counter(p, "a") == 100
    await p.queue.append("w1", [append_to(claim, ids=tuple(range(40)), n0=10)])
    assert await counter(p, "a") == 100 + 100 - 80


async def test_being_idle_earns_nothing(redis: Redis):
    """Who comes back after an hour shares from now on; it is not paid for the hour."""
    p = pool(redis, fair_delta_tokens=0)
    await p.worker()
    await backlog(p, "busy", 60)
    await served(p, 20)
    await backlog(p, "back", 40)
    assert await counter(p, "back") == 190
    found = await served(p, 20)
    assert abs(found["busy"] - found["back"]) <= 1


async def test_who_comes_to_a_flooded_pool_is_next(redis: Redis):
    """As the settings are by default: none of the flood's older requests goes before it."""
    p = pool(redis)
    await p.worker()
    await backlog(p, "flood", 60)
    await served(p, 20)
    await backlog(p, "quiet", 1)
    assert await served(p, 1) == Counter(quiet=1)


async def test_a_share_is_over_all_classes(redis: Redis):
    """Two classes do not give a double share: what was served as interactive counts as standard."""
    p = pool(redis, fair_delta_tokens=0)
    await p.worker()
    for tenant in ("a", "b"):
        await backlog(p, tenant, 10, priority=PriorityClass.STANDARD)
    await backlog(p, "a", 5)
    assert await served(p, 5) == Counter(a=5)
    assert (await served(p, 5))["b"] >= 4


async def test_within_delta_who_came_first_is_served_first(redis: Redis):
    """Small differences do not reorder: the next is the oldest of those near the least counter."""
    p = pool(redis, fair_delta_tokens=25)
    await p.worker()
    for tenant in ("b", "b", "b", "b", "a"):
        await backlog(p, tenant, 1)
    assert [claim.tenant for claim in await p.claim()] == ["b", "b", "b", "a", "b"]


async def test_an_overdue_class_gets_one_of_eight(redis: Redis):
    """Bulk is not starved by a stream of interactive work, and takes no more than its turn."""
    p = pool(redis, age_bulk_ms=1_000, queue_requests_per_tenant_max=100)
    await p.worker()
    await backlog(p, "a", 10, priority=PriorityClass.BULK)
    await backlog(p, "a", 60)
    lines = [(await p.queue.view("a", c.id)) for c in await p.claim(slots=16)]
    assert {view.priority for view in lines if view} == {PriorityClass.INTERACTIVE}
    p.clock.advance(1_001)
    await p.queue.renew("w1", 0, {})
    picks = [view for c in await p.claim(slots=16) if (view := await p.queue.view("a", c.id))]
    assert [at for at, view in enumerate(picks) if view.priority is PriorityClass.BULK] == [0, 8]


async def test_an_overdue_class_takes_no_turns_from_an_empty_one(redis: Redis):
    """Its picks while nothing higher waits are in order, and do not count."""
    p = pool(redis, age_bulk_ms=1_000)
    await p.worker()
    await backlog(p, "a", 20, priority=PriorityClass.BULK)
    p.clock.advance(2_000)
    assert len(await p.claim(slots=8)) == 8
    await backlog(p, "a", 10)
    picks = [view for c in await p.claim(slots=2) if (view := await p.queue.view("a", c.id))]
    assert [view.priority for view in picks] == [PriorityClass.BULK, PriorityClass.INTERACTIVE]


async def blocked(p: Pool, tenant: str) -> bool:
    """Whether a cap holds the tenant's interactive requests back."""
    stopped = await p.client.sismember(p.key("blocked:interactive"), tenant)
    active = await p.client.zscore(p.key("act:interactive"), tenant) is not None
    assert stopped != active
    return bool(stopped)


async def test_a_cap_on_slots_holds_and_frees(redis: Redis):
    """At its cap a tenant is out of the race, while others are served; one ends and it is back."""
    p = pool(redis)
    await p.worker()
    await p.queue.set_tenant("a", TenantTerms(slots_max=2))
    await backlog(p, "a", 5)
    await backlog(p, "b", 1)
    claims = await p.claim()
    assert Counter(claim.tenant for claim in claims) == Counter(a=2, b=1)
    assert await blocked(p, "a")
    await end(p, next(claim for claim in claims if claim.tenant == "a"))
    assert not await blocked(p, "a")
    assert len(await p.claim()) == 1
    await p.queue.set_tenant("a", TenantTerms())
    assert len(await p.claim()) == 2


async def test_being_stopped_by_a_cap_earns_nothing(redis: Redis):
    """On its return a tenant's counter is where its class is."""
    p = pool(redis, fair_delta_tokens=0)
    await p.worker()
    await p.queue.set_tenant("a", TenantTerms(slots_max=1))
    await backlog(p, "a", 3)
    await backlog(p, "b", 30)
    (first,) = [claim for claim in await p.claim(slots=2) if claim.tenant == "a"]
    await served(p, 20)
    await end(p, first)
    assert await counter(p, "a") == await counter(p, "b") - 10


async def test_a_cap_on_tokens_in_flight_holds(redis: Redis):
    """Counted as the KV that prompt and granted answer take; a smaller request may still go."""
    p = pool(redis)
    await p.worker()
    await p.queue.set_tenant("a", TenantTerms(tokens_max=1_000))
    for granted in (490, 490, 100, 5):
        await backlog(p, "a", 1, granted=granted)
    assert len(await p.claim()) == 2
    assert await blocked(p, "a")
    assert await p.client.hget(p.key("ten:a"), "tokens") == b"1000"


async def test_a_refused_first_request_does_not_hide_a_smaller_one(redis: Redis):
    """What exceeds the rest of the cap is passed over while something else of the tenant fits."""
    p = pool(redis)
    await p.worker()
    await p.queue.set_tenant("a", TenantTerms(tokens_max=1_000))
    for granted in (490, 600, 100):
        await backlog(p, "a", 1, granted=granted, max_tokens=990)
    assert len(await p.claim()) == 2
    assert await blocked(p, "a")


async def test_what_exceeds_a_cap_by_itself_is_too_large(redis: Redis):
    """It would wait for ever."""
    p = pool(redis)
    await p.queue.set_tenant("a", TenantTerms(tokens_max=100))
    refused = await p.queue.enqueue(request(tenant="a", prompt_tokens=50, max_tokens=51))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.limit) == ("too_large", 100)
    assert isinstance(
        await p.queue.enqueue(request(tenant="a", prompt_tokens=50, max_tokens=50, granted=50)), Enqueued
    )


async def test_tenants_behind_many_that_do_not_fit_are_reached(redis: Redis):
    """One call reads at most 64 tenants; the next one reads on, and the worker is told to ask."""
    p = pool(redis)
    await p.worker()
    for at in range(2 * TENANTS_MAX + 5):
        await backlog(p, f"a{at:03}", 1, prompt_tokens=5_000)
    await backlog(p, "b", 1)
    offer = ClaimOffer(FINGERPRINT, 4, 1_000, 100_000)
    answers = [await p.queue.claim("w1", call, offer) for call in range(1, 4)]
    assert [len(answer.claims) for answer in answers] == [0, 0, 1]
    assert all(answer.retry_ms > 0 for answer in answers[:2])


async def test_requests_behind_many_that_do_not_fit_are_reached(redis: Redis):
    """One call reads at most four of a tenant's requests; the next one reads on."""
    p = pool(redis)
    await p.worker()
    await backlog(p, "a", 2 * IDS_MAX, prompt_tokens=5_000)
    await backlog(p, "a", 1)
    assert [len(await p.claim(kv_tokens=1_000)) for _ in range(3)] == [0, 0, 1]


async def test_many_tenants_are_served_in_one_call(redis: Redis):
    """More than a page, each in its turn."""
    p = pool(redis, claim_picks_max=48, fair_delta_tokens=0)
    await p.worker()
    for at in range(3 * PAGE):
        await backlog(p, f"t{at}", 2)
    found = Counter(claim.tenant for claim in await p.claim(slots=3 * PAGE))
    assert set(found.values()) == {1}


async def test_a_weight_is_above_zero():
    """Else a tenant would wait for ever, or pay nothing."""
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight"):
            TenantTerms(weight=weight)
