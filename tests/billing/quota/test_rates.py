"""Rates and concurrency in the tenant slot, on a real Valkey; times are given, nothing waits."""

import asyncio

import pytest

from billing.limits import Dimension, Scope
from billing.quota.client import Quota
from billing.quota.types import Remaining
from core.configuration.settings import Settings
from core.errors import Refusal
from tests.billing.limited import NOW, LimitedTenant, a_rate, places
from tests.support.redis import Redis


@pytest.fixture
def tenant(redis: Redis, settings: Settings) -> LimitedTenant:
    """A tenant without limits."""
    return LimitedTenant(redis, settings)


async def test_a_burst_is_let_in_and_then_as_much_as_flows_back(tenant: LimitedTenant) -> None:
    """60 a minute, three at once: after the third one a second. When to come again is said."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=3))
    for id in "abc":
        await tenant.admit(id)
    refusal = await tenant.refused("d")
    assert (refusal.code, refusal.retry, refusal.after_ms) == ("rate_limited", True, 1000)
    assert (refusal.scope, refusal.dimension) == ("tenant", "requests_per_minute")
    assert (refusal.limit, refusal.remaining, refusal.resets_at_ms) == (60, 0, NOW + 1000)
    tenant.now += 999
    assert (await tenant.refused("d")).after_ms == 1
    tenant.now += 1
    await tenant.admit("d")
    await tenant.refused("e")


async def test_a_refused_request_takes_nothing(tenant: LimitedTenant, redis: Redis) -> None:
    """Of two limits one refuses: the other is as it was, and no key is written."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60), a_rate(Dimension.INPUT, 50, burst=50), places(5))
    await tenant.admit("a", input=50)
    before = {key: await redis.dump(key) for key in await redis.keys("*")}
    await tenant.refused("b", input=1)
    assert {key: await redis.dump(key) for key in await redis.keys("*")} == before


async def test_input_counts_exactly_and_output_as_it_is_granted_and_used(tenant: LimitedTenant) -> None:
    """The first chunk is held; what was not used comes back at the end, into the bucket it was taken from.

    Parallel calls do not pass a token rate. Returns are credited where they came
    from."""
    limits = (
        a_rate(Dimension.INPUT, 1000),
        a_rate(Dimension.OUTPUT, 1000),
        a_rate(Dimension.TOKENS, 2000),
        a_rate(Dimension.OUTPUT, 500, scope=Scope.KEY, scope_id="other"),
    )
    tenant.limit(*limits[:3])
    await tenant.admit("a", input=100, chunk=256)

    async def left() -> list[int]:
        use = await tenant.quota.use("t1", tenant.limits, tenant.now)
        return [each.remaining for each in use]

    assert await left() == [900, 744, 1644]
    await tenant.extend("a", 512)
    assert await left() == [900, 488, 1388]
    await tenant.settle("a", input=100, output=300)
    assert await left() == [900, 700, 1600]
    await tenant.settle("a", input=100, output=300)
    assert await left() == [900, 700, 1600]
    tenant.limit(limits[3])
    assert await left() == [500]


async def test_an_answer_is_never_cut_by_a_rate(tenant: LimitedTenant) -> None:
    """It goes into debt, and those who come next wait until it is paid."""
    tenant.limit(a_rate(Dimension.OUTPUT, 600, burst=600))
    await tenant.admit("a", chunk=256)
    for target in (512, 768, 1024):
        extension = await tenant.extend("a", target)
        assert (extension.granted, extension.refusal) == (target, None)
    refusal = await tenant.refused("b", chunk=256)
    assert refusal.remaining == 0
    assert refusal.after_ms == (1024 - (600 - 256)) * 100


async def test_a_request_above_the_burst_is_not_impossible_for_ever(tenant: LimitedTenant) -> None:
    """A bucket of which nothing is used lets it in, and is in debt after."""
    tenant.limit(a_rate(Dimension.INPUT, 1000))
    await tenant.admit("a", input=5000)
    refusal = await tenant.refused("b", input=1)
    assert refusal.after_ms == 4001 * 60
    tenant.now += 4001 * 60
    await tenant.admit("b", input=1)
    assert (await tenant.refused("c", input=5000)).after_ms == 1000 * 60


async def test_a_limit_of_nothing_refuses_for_good(tenant: LimitedTenant) -> None:
    """And does not ask to come again."""
    for limit in (a_rate(Dimension.REQUESTS, 0), a_rate(Dimension.TOKENS, 0, 9), places(0)):
        tenant.limit(limit)
        refusal = await tenant.refused("a")
        assert (refusal.code, refusal.retry, refusal.after_ms) == ("insufficient_quota", False, None)
        assert refusal.message.endswith("lets nothing in")


async def test_a_release_gives_everything_back(tenant: LimitedTenant, redis: Redis) -> None:
    """The queue refused it: nothing that a limit counts is left of it."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60), a_rate(Dimension.TOKENS, 1000), places(1))
    await tenant.admit("a")
    assert await tenant.quota.release("t1", "a", tenant.now)
    left = await redis.keys("{t:t1}[rc][ao]*")
    assert left == []
    await tenant.admit("b")


async def test_places_are_taken_until_the_end_or_the_deadline(tenant: LimitedTenant) -> None:
    """Neither a client that is gone, nor a process that died, keeps a place for ever: only
    settle and release free it earlier, nobody renews it, and a minute after the deadline it is free by
    itself."""
    tenant.limit(places(2))
    await tenant.admit("a")
    await tenant.admit("b")
    refusal = await tenant.refused("c")
    assert (refusal.code, refusal.dimension, refusal.limit, refusal.remaining) == (
        "rate_limited",
        "concurrency",
        2,
        0,
    )
    assert (refusal.after_ms, refusal.retry) == (1000, True)
    await tenant.settle("a")
    await tenant.admit("c")
    tenant.now += 600_000 + 59_999
    await tenant.refused("d")
    tenant.now += 1
    await tenant.admit("d")
    await tenant.admit("e")
    await tenant.refused("f")


async def test_of_many_at_once_no_more_than_the_limit_get_in(tenant: LimitedTenant, redis: Redis) -> None:
    """Nothing comes between the check and the count. The count is one for all
    gateways, not one for each."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=10), places(50))
    gateways = [Quota(redis, tenant.quota._settings) for _ in range(4)]
    answers = await asyncio.gather(*(gateways[at % 4].admit(tenant.admission(f"r{at}")) for at in range(100)))
    assert sum(not isinstance(answer, Refusal) for answer in answers) == 10


async def test_an_edit_never_resets_what_was_used(tenant: LimitedTenant) -> None:
    """More or less is left, by the difference, from the next request on; the flow is the new one."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=10))
    for at in range(10):
        await tenant.admit(f"r{at}")
    tenant.limit(a_rate(Dimension.REQUESTS, 120, burst=12))
    await tenant.admit("s0")
    await tenant.admit("s1")
    refusal = await tenant.refused("s2")
    assert refusal.after_ms == 500
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=5))
    assert (await tenant.refused("s2")).after_ms == 8000


async def test_who_came_before_an_edit_gives_back_at_the_new_flow(tenant: LimitedTenant) -> None:
    """The end of a request admitted under the old limit does not bring that back."""
    for id, limit in (("a", 600), ("b", 1200)):
        tenant.limit(a_rate(Dimension.OUTPUT, limit))
        await tenant.admit(id, chunk=256)
    await tenant.settle("a", output=56)
    (use,) = await tenant.quota.use("t1", tenant.limits, tenant.now)
    assert (use.spent, use.resets_at_ms) == (312, NOW + 312 * 50)


async def test_places_that_lapsed_are_put_away(tenant: LimitedTenant, redis: Redis) -> None:
    """By those that come after, or a tenant whose requests never end would fill the memory."""
    tenant.limit(places(1))
    for id in "abc":
        await tenant.admit(id)
        tenant.now += 660_000
    assert await redis.zcard("{t:t1}" + tenant.limits.units[0].key) == 1


async def test_a_limit_made_while_requests_are_open_counts_what_comes_after(tenant: LimitedTenant) -> None:
    """What was admitted before holds nothing of it, and gives nothing back to it."""
    await tenant.admit("old")
    tenant.limit(a_rate(Dimension.OUTPUT, 1000), places(1))
    await tenant.admit("new", chunk=256)
    await tenant.settle("old", output=900)
    assert [each.remaining for each in await tenant.quota.use("t1", tenant.limits, tenant.now)] == [744, 0]


async def test_a_limit_that_is_gone_gets_back_what_it_holds(tenant: LimitedTenant) -> None:
    """The request remembers what it took of whom, whatever the limits are by then."""
    tenant.limit(a_rate(Dimension.OUTPUT, 1000), places(1))
    before = tenant.limits
    await tenant.admit("a", chunk=256)
    tenant.limit()
    await tenant.settle("a", output=56)
    assert [each.remaining for each in await tenant.quota.use("t1", before, tenant.now)] == [944, 1]


async def test_shadow_limits_are_counted_and_reported_and_refuse_nothing(tenant: LimitedTenant) -> None:
    """What they would have answered comes with the admission; the enforced limit beside them is another
    count."""
    tenant.limit(
        a_rate(Dimension.REQUESTS, 60, burst=1, shadow=True),
        a_rate(Dimension.REQUESTS, 60),
        places(1, shadow=True),
    )
    assert (await tenant.admit("a")).shadowed == []
    found = (await tenant.admit("b")).shadowed
    assert [(each.code, each.dimension, each.limit) for each in found] == [
        ("rate_limited", "requests_per_minute", 60),
        ("rate_limited", "concurrency", 1),
    ]
    use = await tenant.quota.use("t1", tenant.limits, tenant.now)
    assert [(each.shadow, each.remaining) for each in use] == [(True, 0), (False, 58), (True, 0)]


async def test_a_shadow_limit_of_nothing_is_counted_as_others_are(tenant: LimitedTenant) -> None:
    """Nothing flows back into it: it is forgotten after an hour."""
    tenant.limit(a_rate(Dimension.REQUESTS, 0, shadow=True))
    for id in "ab":
        (found,) = (await tenant.admit(id)).shadowed
        assert (found.limit, found.retry, found.after_ms) == (0, False, None)
    (use,) = await tenant.quota.use("t1", tenant.limits, tenant.now)
    assert (use.spent, use.remaining) == (2, 0)


async def test_who_refuses_is_named_and_the_longest_wait_is_said(tenant: LimitedTenant) -> None:
    """One's own limit can be told from everybody's."""
    tenant.limit(
        a_rate(Dimension.REQUESTS, 60, burst=1),
        a_rate(Dimension.REQUESTS, 6, burst=1, scope=Scope.USER, scope_id="u1"),
    )
    await tenant.admit("a")
    refusal = await tenant.refused("b")
    assert (refusal.scope, refusal.after_ms) == ("user", 10_000)
    assert "user" in refusal.message
    user = a_rate(Dimension.REQUESTS, 6, burst=1, scope=Scope.USER, scope_id="u1")
    tenant.limit(user, a_rate(Dimension.REQUESTS, 6, burst=1))
    refusal = await tenant.refused("b")
    assert (refusal.scope, refusal.after_ms) == ("user", 10_000), "of two that last as long the first"


async def test_an_admission_says_where_it_stands(tenant: LimitedTenant) -> None:
    """The least that is left of requests and of tokens, and when all of it is there again."""
    tenant.limit(
        a_rate(Dimension.REQUESTS, 60),
        a_rate(Dimension.TOKENS, 1000),
        a_rate(Dimension.INPUT, 6000, scope=Scope.KEY, scope_id="k1"),
        a_rate(Dimension.REQUESTS, 1, shadow=True),
    )
    standing = (await tenant.admit("a", input=100, chunk=256)).standing
    assert standing.requests == Remaining(60, 59, NOW + 1000)
    assert standing.tokens == Remaining(1000, 644, NOW + 356 * 60)
    assert standing.budget is None


async def test_a_second_sending_takes_nothing(tenant: LimitedTenant) -> None:
    """A retry, a resend and a resume are the same request."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=1), places(1))
    await tenant.admit("a")
    assert (await tenant.admit("a")).dup
    await tenant.settle("a")
    assert (await tenant.admit("a")).dup


@pytest.mark.parametrize("amount", [2**63, 2**53, -1])
async def test_quantities_that_nobody_can_use_are_refused(tenant: LimitedTenant, amount: int) -> None:
    """Before they reach a script, which counts to 2^53."""
    for refusal in (await tenant.refused("a", input=amount), await tenant.refused("a", chunk=amount)):
        assert refusal.code == "bad_request"
    with pytest.raises(ValueError, match="range"):
        await tenant.quota.settle(tenant.event("a", cost_nano=amount))


async def test_unlimited_requests_are_granted_all_at_once(tenant: LimitedTenant) -> None:
    """Where nothing counts output, no worker has to ask again."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60), places(3))
    assert (await tenant.admit("a")).granted >= 1_000_000


async def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing(tenant: LimitedTenant) -> None:
    """A failover to a machine whose clock is behind."""
    tenant.limit(a_rate(Dimension.REQUESTS, 60, burst=2))
    await tenant.admit("a")
    tenant.now -= 30_000
    await tenant.admit("b")
    await tenant.refused("c")
    tenant.now += 31_000
    await tenant.admit("c")


async def test_open_requests_can_be_found_by_their_age(tenant: LimitedTenant) -> None:
    """What the sweep asks for: whom to ask, and about what."""
    tenant.now = 1_000_000
    await tenant.admit("a")
    tenant.now += 100_000
    await tenant.admit("b", pool="B")
    assert await tenant.quota.open_tenants() == {"t1"}
    holds = await tenant.quota.holds("t1", 1_050_000)
    assert [(hold.id, hold.pool, hold.admitted_ms) for hold in holds] == [("a", "A", 1_000_000)]
    assert [id for id, _ in await tenant.quota.stale("t1")] == ["a", "b"]
    await tenant.settle("a")
    await tenant.quota.release("t1", "b")
    assert await tenant.quota.holds("t1") == []
