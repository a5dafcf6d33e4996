"""Budgets and wallets in the tenant slot, on a real Valkey: held to the nano, never passed."""

import asyncio
from dataclasses import replace

import pytest
from redis.exceptions import OutOfMemoryError

from billing.limits import Scope
from billing.periods import PeriodWindow
from billing.quota.client import WAIT_MS_MAX, Quota
from billing.quota.money import MoneyCounts
from billing.quota.types import Admitted, AllowanceExtension, Remaining
from billing.usage import PinnedPrices
from core.configuration.settings import Settings
from core.errors import Refusal
from tests.billing.limited import NOW, WINDOW, LimitedTenant, a_budget
from tests.support.redis import Redis

HELD = 100 + 1 + 256 * 2 + 1  # of 100 tokens in and the first 256 out, each line rounded up once


@pytest.fixture
def tenant(redis: Redis, settings: Settings) -> LimitedTenant:
    """A tenant without limits; a token in costs 1 nano, one out 2."""
    return LimitedTenant(redis, settings)


async def limited(tenant: LimitedTenant, limit_nano: int, spent: int = 0, seq: int = 0) -> None:
    """A budget of so much, of which so much is spent."""
    tenant.limit(a_budget(limit_nano))
    await tenant.seed(spent=spent, seq=seq)


async def test_a_request_holds_its_input_and_first_chunk_only(tenant: LimitedTenant) -> None:
    """Not max_tokens, so that what is never used is not held from others. Its own
    prices are held, from the first token on."""
    await limited(tenant, 10_000)
    answer = await tenant.admit("a")
    assert answer.granted == 256
    assert answer.standing.budget == Remaining(10_000, 10_000 - HELD, WINDOW.end_ms)
    assert await tenant.sums() == (0, 0, HELD)


async def test_what_does_not_fit_is_refused_with_all_the_numbers(tenant: LimitedTenant) -> None:
    """At the limit nothing more is let in. Whose limit, and when it ends."""
    await limited(tenant, HELD * 2 + 50, spent=50)
    await tenant.admit("a")
    await tenant.admit("b")
    refusal = await tenant.refused("c")
    assert refusal == Refusal(
        "budget_exceeded",
        "the tenant's budget is used up",
        scope="tenant",
        limit=HELD * 2 + 50,
        dimension="month",
        remaining=0,
        spent=50,
        held=HELD * 2,
        resets_at_ms=WINDOW.end_ms,
    )
    await tenant.settle("a", output=1)
    assert await tenant.sums() == (50, 102, HELD)
    assert (await tenant.refused("c", input=10_000)).spent == 152


async def test_a_budget_of_nothing_names_no_time_to_wait_for(tenant: LimitedTenant) -> None:
    """The next period would refuse just as well."""
    await limited(tenant, 0)
    refusal = await tenant.refused("a")
    assert (refusal.code, refusal.limit, refusal.resets_at_ms) == ("budget_exceeded", 0, None)
    assert refusal.message == "the tenant's budget allows no spending"


@pytest.mark.parametrize(
    ("left", "granted"),
    [(HELD, 256), (HELD - 1, 128), (101 + 2 * 128 + 1, 128), (110, 4), (104, 1), (103, None)],
)
async def test_where_money_is_short_the_first_chunk_is_small(
    tenant: LimitedTenant, left: int, granted: int | None
) -> None:
    """What is left is for use: refused is only who cannot pay for the input and one token."""
    await limited(tenant, 1000, spent=1000 - left)
    answer = await tenant.ask("a")
    if granted is None:
        assert isinstance(answer, Refusal)
        assert (answer.remaining, answer.spent) == (left, 1000 - left)
    else:
        assert isinstance(answer, Admitted)
        assert answer.granted == granted
        assert await tenant.sums() == (1000 - left, 0, 101 + 2 * granted + 1)


async def test_of_many_at_once_no_more_than_the_budget_get_in(tenant: LimitedTenant, redis: Redis) -> None:
    """The check and the hold are one step. One count for all gateways."""
    await limited(tenant, HELD * 7 + 10)
    gateways = [Quota(redis, tenant.quota._settings) for _ in range(3)]
    answers = await asyncio.gather(*(gateways[at % 3].admit(tenant.admission(f"r{at}")) for at in range(60)))
    assert sum(not isinstance(answer, Refusal) for answer in answers) == 7
    assert await tenant.sums() == (0, 0, HELD * 7)


async def test_a_settled_hold_is_gone_to_the_nano(tenant: LimitedTenant) -> None:
    """Nothing is left behind of a hold, and nothing is counted twice."""
    await limited(tenant, 10_000)
    for at in range(20):
        await tenant.admit(f"r{at}", input=at)
        await tenant.extend(f"r{at}", 256 + at)
        await tenant.settle(f"r{at}", input=at, output=at)
        await tenant.settle(f"r{at}", input=at, output=at)
    assert await tenant.sums() == (0, sum(3 * at for at in range(20)), 0)


async def test_an_answer_ends_at_the_exact_limit(tenant: LimitedTenant) -> None:
    """A stream is cut where the budget is, not charged after. The last grants are small."""
    await limited(tenant, HELD + 2 * 700)
    await tenant.admit("a")
    granted, grants = 256, list[int]()
    while (answer := await tenant.extend("a", granted + 256)).refusal is None:
        grants.append(answer.granted - granted)
        granted = answer.granted
    assert granted == 256 + 700
    assert grants == [256, 256, 128, 32, 16, 8, 4]
    assert (answer.refusal.code, answer.refusal.remaining) == ("budget_exceeded", 0)
    assert await tenant.extend("a", granted) == AllowanceExtension(granted), (
        "what it has it may ask for again"
    )
    await tenant.settle("a", output=granted)
    assert await tenant.sums() == (0, 100 + 2 * 956, 0)


async def test_streams_share_what_is_left(tenant: LimitedTenant) -> None:
    """A whole chunk only where every open stream could have one."""
    await limited(tenant, 2 * HELD + 2 * 300)
    await tenant.admit("a")
    await tenant.admit("b")
    assert await tenant.extend("a", 512) == AllowanceExtension(256 + 128)
    assert await tenant.extend("b", 512) == AllowanceExtension(256 + 64)


async def test_a_single_token_is_not_shared(tenant: LimitedTenant) -> None:
    """The last one goes to who asks for it."""
    await limited(tenant, 2 * HELD + 2)
    await tenant.admit("a")
    await tenant.admit("b")
    assert await tenant.extend("a", 512) == AllowanceExtension(257)


async def test_who_finds_nothing_left_waits_for_what_others_hold(tenant: LimitedTenant) -> None:
    """It may come back: an answer that ends early frees it. Not for ever: two seconds at one grant."""
    await limited(tenant, 2 * HELD)
    await tenant.admit("a")
    await tenant.admit("b")
    assert await tenant.extend("a", 512) == AllowanceExtension(256, wait_ms=100)
    tenant.now += WAIT_MS_MAX - 1
    assert (await tenant.extend("a", 512)).wait_ms == 100
    await tenant.settle("b", output=6)
    assert await tenant.extend("a", 512) == AllowanceExtension(256 + 128)
    tenant.now += 10_000
    granted = 384
    while (answer := await tenant.extend("a", granted + 256)).granted > granted:
        granted = answer.granted
    assert answer.refusal is not None


async def test_waiting_ends_in_a_refusal(tenant: LimitedTenant) -> None:
    """Two streams that hold all there is do not wait for one another for ever."""
    await limited(tenant, 2 * HELD)
    await tenant.admit("a")
    await tenant.admit("b")
    assert [(await tenant.extend(id, 512)).wait_ms for id in "ab"] == [100, 100]
    tenant.now += WAIT_MS_MAX
    for id in "ab":
        answer = await tenant.extend(id, 512)
        assert (answer.granted, answer.wait_ms) == (256, None)
        assert answer.refusal is not None
        assert answer.refusal.held == 2 * HELD


async def test_a_raised_or_overridden_limit_reaches_a_running_answer(
    tenant: LimitedTenant, redis: Redis
) -> None:
    """The count has the newest limit that any admission brought, and the override until its time."""
    await limited(tenant, HELD)
    await tenant.admit("a")
    assert (await tenant.extend("a", 512)).refusal is not None
    tenant.limit(a_budget(HELD + 512, revision=2))
    assert (await tenant.refused("b", input=10_000)).limit == HELD + 512
    assert (await tenant.extend("a", 512)).refusal is not None  # a refusal writes nothing
    await tenant.admit("c", input=0, chunk=0)
    assert await tenant.extend("a", 512) == AllowanceExtension(256 + 128)
    tenant.limit(a_budget(1, revision=1))  # a gateway that has not heard
    await tenant.admit("d", input=0, chunk=0)
    assert (await tenant.extend("a", 512)).granted > 384
    tenant.limit(a_budget(1, revision=3, override_nano=99_999, override_until_ms=tenant.now + 5))
    await tenant.admit("e", input=0, chunk=0)
    assert (await tenant.extend("a", 2048)).granted == 2048
    tenant.now += 5
    assert (await tenant.extend("a", 4096)).refusal is not None


async def test_an_edit_of_everything_reaches_a_running_answer(tenant: LimitedTenant) -> None:
    """Of what the count has nothing is as it was."""
    tenant.limit(a_budget(1_000_000, hard=False))
    await tenant.seed()
    await tenant.admit("a")
    facts = {"override_nano": HELD + 2, "override_until_ms": tenant.now + 5}
    tenant.limit(a_budget(1, revision=1, **facts))
    await tenant.admit("b", input=0, chunk=0)
    assert await tenant.extend("a", 512) == AllowanceExtension(257)


async def test_soft_and_shadow_budgets_count_and_refuse_nothing(tenant: LimitedTenant) -> None:
    """A soft one alerts (elsewhere); a shadow one says what it would have answered."""
    tenant.limit(a_budget(1, hard=False), a_budget(1, shadow=True))
    await tenant.seed()
    answer = await tenant.admit("a")
    (shadowed,) = answer.shadowed
    assert (shadowed.code, shadowed.limit, answer.granted) == ("budget_exceeded", 1, 256)
    assert await tenant.extend("a", 512) == AllowanceExtension(512)
    assert [each.held_nano for each in await tenant.quota.budget_sums("t1")] == [HELD + 512] * 2
    assert (await tenant.admit("b")).standing.budget is None


async def test_the_wallet_is_one_more_limit(tenant: LimitedTenant) -> None:
    """Refused with its own code. Credit that is put in counts at once."""
    wallet = a_budget(HELD, period="wallet", window=PeriodWindow(0, WINDOW.end_ms))
    tenant.limit(a_budget(10_000), wallet)
    await tenant.seed(wallet, spent=HELD - 102)
    await tenant.seed(spent=0)
    refusal = await tenant.refused("a")
    assert (refusal.code, refusal.dimension, refusal.resets_at_ms) == ("insufficient_quota", "wallet", None)
    tenant.limit(a_budget(10_000), replace(wallet, limit_nano=2 * HELD - 102, revision=5))
    await tenant.admit("a")
    answer = await tenant.extend("a", 512)
    assert answer.refusal is not None
    assert (answer.refusal.code, answer.refusal.resets_at_ms) == ("insufficient_quota", None)


async def test_a_window_s_end_begins_another_count(tenant: LimitedTenant) -> None:
    """A request counts where it was accepted, whenever it ends. No reset is missed, since
    nothing is reset."""
    day = PeriodWindow(NOW - 1000, NOW + 1000)
    today, tomorrow = a_budget(HELD, window=day), a_budget(HELD, window=PeriodWindow(NOW + 1000, NOW + 3000))
    tenant.limit(today)
    await tenant.seed()
    await tenant.admit("a")
    assert (await tenant.refused("b")).resets_at_ms == NOW + 1000
    tenant.now += 1000
    tenant.limit(tomorrow)
    await tenant.seed()
    await tenant.admit("b")
    event = tenant.event("a", output=5, accepted_ms=NOW)
    assert await tenant.quota.settle(event, 1, tenant.now) == "settled"
    sums = {each.window_start_ms: each for each in await tenant.quota.budget_sums("t1")}
    assert (sums[day.start_ms].posted_nano, sums[day.start_ms].held_nano) == (110, 0)
    assert (sums[day.end_ms].posted_nano, sums[day.end_ms].held_nano) == (0, HELD)
    assert await tenant.settle("b", output=5, line_seq=2) == "settled"  # accepted as the window began
    posted = {each.window_start_ms: each.posted_nano for each in await tenant.quota.budget_sums("t1")}
    assert posted == {day.start_ms: 110, day.end_ms: 110}


async def test_the_worker_s_end_counts_until_the_books_have_it(tenant: LimitedTenant) -> None:
    """Spent at once, posted once: whoever comes first, however often, in whatever order."""
    await limited(tenant, 10_000)
    await tenant.admit("a")
    assert await tenant.settle("a", output=5) == "settled"
    assert await tenant.sums() == (0, 110, 0)
    assert [await tenant.settle("a", output=5, line_seq=4) for _ in range(3)] == ["dup"] * 3
    assert await tenant.sums() == (110, 0, 0)
    await tenant.admit("b")
    assert await tenant.settle("b", output=5, line_seq=8) == "settled"
    assert await tenant.settle("b", output=5) == "dup"
    assert await tenant.sums() == (220, 0, 0)
    sums = await tenant.quota.posted("t1")
    assert sums is not None
    assert (sums.cost_nano, sums.requests) == (220, 2)


async def test_a_line_that_was_in_the_seed_is_not_counted_again(tenant: LimitedTenant) -> None:
    """The books were read after the line and before its settlement."""
    await limited(tenant, 10_000)
    await tenant.admit("a")
    counts = MoneyCounts(tenant.redis)
    assert await counts.put("t1", [(tenant.limits.money[0], 110, 4)], anew=True)
    assert await tenant.settle("a", output=5, line_seq=4) == "settled"
    assert await tenant.sums() == (110, 0, 0)


async def test_a_seed_older_than_what_was_booked_is_not_taken(tenant: LimitedTenant) -> None:
    """The line was booked between the look at the books and the writing: it would be lost."""
    await limited(tenant, 10_000)
    await tenant.admit("a")
    await tenant.settle("a", output=5, line_seq=4)
    counts = MoneyCounts(tenant.redis)
    assert not await counts.put("t1", [(tenant.limits.money[0], 0, 3)], anew=True)
    assert not await counts.put("t1", [(a_budget(5, scope=Scope.MODEL, scope_id="m1"), 0, 3)], anew=False)
    for amount in (999, 500):  # what was wrong is put right, though no line has come
        assert await counts.put("t1", [(tenant.limits.money[0], amount, 4)], anew=True)
        assert await tenant.sums() == (amount, 0, 0)


async def test_many_seeds_at_once_write_one_amount(tenant: LimitedTenant) -> None:
    """A cold count is set, never added to, however many gateways find it cold."""
    tenant.limit(a_budget(10_000))
    await asyncio.gather(*(tenant.seed(spent=500, seq=3) for _ in range(20)))
    assert await tenant.sums() == (500, 0, 0)
    await tenant.admit("a")
    await tenant.seed(spent=500, seq=3)
    assert await tenant.sums() == (500, 0, HELD)


async def test_a_correction_is_counted_and_holds_stay(tenant: LimitedTenant) -> None:
    """What is posted becomes what the books say; what is open or not booked is untouched."""
    await limited(tenant, 10_000, spent=500, seq=3)
    await tenant.admit("a")
    await tenant.admit("b")
    await tenant.settle("b", output=5)
    assert await MoneyCounts(tenant.redis).put("t1", [(tenant.limits.money[0], 300, 5)], anew=True)
    assert await tenant.sums() == (300, 110, HELD)


async def test_requests_count_in_every_budget_that_is_theirs(tenant: LimitedTenant) -> None:
    """Also in one that was made while they ran; never in another user's. A user's default budget
    holds from the first request on."""
    await tenant.admit("a")
    own, other = (a_budget(10_000, scope=Scope.USER, scope_id=user) for user in ("u1", "u2"))
    tenant.limit(own, other, a_budget(10_000, scope=Scope.MODEL, scope_id="m1"))
    await tenant.seed()
    await tenant.settle("a", output=5, line_seq=1)
    sums = {each.scope_id: each.posted_nano for each in await tenant.quota.budget_sums("t1")}
    assert sums == {"u1": 110, "u2": 0, "m1": 110}


async def test_a_release_frees_the_hold(tenant: LimitedTenant) -> None:
    """The queue refused the request: as if it had never been."""
    await limited(tenant, HELD)
    await tenant.admit("a")
    await tenant.quota.release("t1", "a")
    assert await tenant.sums() == (0, 0, 0)
    await tenant.admit("b")
    assert await tenant.settle("a", output=5) == "settled"  # another gateway had enqueued it after all
    assert await tenant.sums() == (0, 110, HELD)


async def test_a_limit_that_was_lowered_below_what_is_spent_refuses(tenant: LimitedTenant) -> None:
    """Also the running answer's next grant."""
    await limited(tenant, 10_000)
    await tenant.admit("a")
    tenant.limit(a_budget(1, revision=9))
    refusal = await tenant.refused("b")
    assert (refusal.limit, refusal.remaining, refusal.held) == (1, 0, HELD)


async def test_free_requests_are_not_refused_by_money(tenant: LimitedTenant) -> None:
    """A model without a price, on a budget that is more than used up."""
    await limited(tenant, 5, spent=6)
    free = PinnedPrices(book="b", version=1, input_nano=0, cached_input_nano=0, output_nano=0)
    await tenant.admit("a", prices=free)
    assert await tenant.extend("a", 512) == AllowanceExtension(512)


async def test_without_the_books_a_hard_budget_fails_closed(tenant: LimitedTenant) -> None:
    """Nobody knows what was spent: 503, to be tried again. What only alerts lets the request through."""
    tenant.limit(a_budget(10_000))
    refusal = await tenant.refused("a")
    assert (refusal.code, refusal.retry, refusal.after_ms) == ("overloaded", True, 1000)
    tenant.limit(a_budget(10_000, hard=False))
    await tenant.admit("a")


async def test_what_ends_works_when_redis_is_full(tenant: LimitedTenant) -> None:
    """Admissions are refused; extend, settle and release give memory back, and always may."""
    await limited(tenant, 10_000)
    await tenant.admit("a")
    await tenant.admit("b")
    await tenant.redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await tenant.ask("c")
        assert await tenant.extend("a", 512) == AllowanceExtension(512)
        assert await tenant.settle("a", output=5) == "settled"
        assert await tenant.settle("a", output=5, line_seq=3) == "dup"
        assert await tenant.quota.release("t1", "b")
    finally:
        await tenant.redis.config_set("maxmemory", 0)
    assert await tenant.sums() == (110, 0, 0)


async def test_old_windows_are_forgotten(tenant: LimitedTenant) -> None:
    """A week after their end; what is counted stays bounded."""
    old = PeriodWindow(1_000, 2_000)
    tenant.limit(a_budget(10, window=old))
    await tenant.seed()
    assert len(await tenant.quota.budget_sums("t1")) == 1
    tenant.limit(a_budget(10))
    await tenant.seed()
    assert [each.window_start_ms for each in await tenant.quota.budget_sums("t1")] == [WINDOW.start_ms]
