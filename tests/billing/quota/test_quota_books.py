"""What the tenant slot reads from the books: cold counts, lost Redis, corrections; SQLite and Postgres."""

import asyncio

import msgspec
import pytest
from sqlalchemy.exc import OperationalError

from billing.booking.adjustments import Correction, correct
from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import end_budget, override_budget
from billing.ledger.grant_spending import GrantKind
from billing.limits import WALLET_MODULUS_NANO, MoneyLimit, Scope, wallet_limit
from billing.periods import PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.quota import money
from billing.quota.client import Quota
from billing.quota.money import MoneyCounts
from billing.quota.posted_spending import last_line, posted_of_limit
from billing.quota.redis_keys import posted_key, tag
from billing.quota.types import Admitted, AllowanceExtension
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.run import EVERYTHING, Reconciliation
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageOwner, encode
from billing.wallets.ledger_check import wallet_faults
from billing.wallets.wallets import NewGrant, grant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.sql.database import Database
from tests.billing.limited import NANO
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.support.redis import Redis


@pytest.fixture
async def books(database: Database, redis: Redis, settings: Settings) -> QuotaLedger:
    """A tenant's."""
    return QuotaLedger(database, redis, settings, (await create_tenant(database, "acme")).tenant_id)


HELD = 12 + 1 + 2 * 256 + 1


async def test_a_cold_count_begins_with_what_the_books_say(books: QuotaLedger) -> None:
    """A restart of Redis resets nothing. Many at once write one amount."""
    for at in range(3):
        await books.booked(f"old{at}")
    await books.budget(10_000)
    gateways = [Quota(books.redis, books.quota._settings, books.db) for _ in range(3)]
    await asyncio.gather(*(books.ask(f"r{at}", gateways[at % 3]) for at in range(9)))
    assert await books.posted() == [(3 * COST, 0, 9 * HELD)]
    await books.redis.flushall()
    assert isinstance(await books.ask("again"), Admitted)
    assert await books.posted() == [(3 * COST, 0, HELD)]


@pytest.mark.parametrize("mark", [9 * 10**15, 2**53, 9 * 10**17, 10**30, "inf", "x"])
async def test_a_mark_that_the_books_do_not_bear_out_locks_nobody_out(
    mark: int | str, books: QuotaLedger
) -> None:
    """Whoever writes Redis may put it there: the count begins with what the books say, and lines count on."""
    await books.booked("old")
    await books.budget(10_000)
    await books.redis.hset(posted_key(books.tenant), "line_seq", str(mark))
    assert isinstance(await books.ask("r1"), Admitted)
    assert await books.posted() == [(COST, 0, HELD)]
    booked = await books.booked("new")
    await books.quota.settle(booked, await last_line(books.db, books.tenant))
    assert [posted for posted, _, _ in await books.posted()] == [2 * COST]


@pytest.mark.parametrize("seed", [9 * 10**15, 2**53, 1_000])
@pytest.mark.parametrize("posted", [0, 10**12])
async def test_a_seed_that_the_books_do_not_bear_out_is_none(
    seed: int, posted: int, books: QuotaLedger
) -> None:
    """Whoever may write the count claims lines that there are not, so that none is ever added, or all of the
    budget is spent: counted anew it is what the books say, and later lines count on."""
    await books.booked("old")
    await books.budget(10_000)
    assert isinstance(await books.ask("r1"), Admitted)
    (count,) = await MoneyCounts(books.redis).counted(books.tenant)
    await books.redis.hset(tag(books.tenant) + count.key, mapping={"seed": seed, "posted": posted})
    await books.quota.reseed(books.tenant)
    assert await books.posted() == [(COST, 0, HELD)]
    booked = await books.booked("new")
    await books.quota.settle(booked, await last_line(books.db, books.tenant))
    assert [amount for amount, _, _ in await books.posted()] == [2 * COST]


async def test_a_seed_that_is_newer_than_what_was_read_stays(books: QuotaLedger) -> None:
    """Another has read the books later: its seed is true, and is not taken back."""
    await books.booked("old")
    await books.budget(10_000)
    assert isinstance(await books.ask("r1"), Admitted)
    counts = MoneyCounts(books.redis)
    (count,) = await counts.counted(books.tenant)
    newer = await last_line(books.db, books.tenant) + 3
    await books.redis.hset(tag(books.tenant) + count.key, mapping={"seed": newer, "posted": 2 * COST})
    assert await counts.put(books.tenant, [(count, COST, newer - 3)], anew=True)
    assert await books.posted() == [(2 * COST, 0, HELD)]


@pytest.mark.parametrize("revision", [9 * 10**15, 2**53])
async def test_a_revision_from_the_future_holds_no_limit(revision: int, books: QuotaLedger) -> None:
    """Whoever may write the count says that its limit is newer than all that will ever be read: the next
    request brings the rows' limit all the same, and so does a push."""
    await books.budget(HELD + 1)
    assert isinstance(await books.ask("r1"), Admitted)
    (count,) = await MoneyCounts(books.redis).counted(books.tenant)
    key = tag(books.tenant) + count.key
    await books.redis.hset(key, mapping={"rev": revision, "limit": 10**12})
    assert isinstance(await books.ask("r2"), Refusal)
    await books.redis.hset(key, mapping={"rev": revision, "limit": 10**12})
    await push_limits(books.db, books.redis, books.tenant)
    pushed, limit = (int(each or -1) for each in await books.redis.hmget(key, "rev", "limit"))
    assert 0 <= pushed <= now_ms()
    assert limit == HELD + 1


async def test_each_scope_and_window_counts_its_own(books: QuotaLedger) -> None:
    """The sum of the lines of requests that were accepted in the window, by whom."""
    now = now_ms()
    await books.booked("a")
    await books.booked("b", owner=UsageOwner(project="p2", key="k1", user="u2"))
    await books.booked("c", model="big")
    old = books.event("d")
    await post(books.db, "A", [encode(msgspec.structs.replace(old, accepted_ms=now - 1_000_000))])
    window = PeriodWindow(now - 1000, now + 1_000_000)
    expected = {
        (Scope.TENANT, ""): 3,
        (Scope.PROJECT, "p1"): 2,
        (Scope.PROJECT, "p3"): 0,
        (Scope.KEY, "k1"): 3,
        (Scope.USER, "u2"): 1,
        (Scope.MODEL, "big"): 1,
        (Scope.MODEL, "smollm2"): 2,
    }
    for (scope, id), count in expected.items():
        found = await posted_of_limit(books.db, books.tenant, MoneyLimit(scope, id, "month", window, 0))
        assert found == (count * COST, 4 * 3)
    assert (
        await posted_of_limit(books.db, "stranger", MoneyLimit(Scope.TENANT, "", "month", window, 0))
    ) == (0, 0)


async def test_a_settlement_that_redis_lost_is_counted_once_by_the_books(books: QuotaLedger) -> None:
    """Redis was emptied while requests ran. Whether their lines were counted nobody could tell from Redis."""
    await books.budget(10_000)
    await books.ask("a")
    await books.ask("b")
    event = await books.booked("a")
    await books.redis.flushall()
    await books.ask("c")
    assert await books.posted() == [(COST, 0, HELD)]
    assert await books.quota.settle(event, 3) == "unknown"
    assert await books.posted() == [(COST, 0, HELD)]
    late = await books.booked("b")
    for _ in range(3):
        assert await books.quota.settle(late, 6) == "unknown"
        assert await books.posted() == [(2 * COST, 0, HELD)]


async def test_a_correction_reaches_the_count(books: QuotaLedger) -> None:
    """What an administrator gives back can be spent at once; what is held stays held."""
    await books.booked("a")
    await books.budget(10_000)
    await books.ask("b")
    await correct(books.db, books.tenant, Correction("a", {Meter.OUTPUT: 0}, "c1"))
    await books.quota.reseed(books.tenant)
    assert await books.posted() == [(12, 0, HELD)]
    for _ in range(2):
        await books.quota.reseed(books.tenant)
    assert await books.posted() == [(12, 0, HELD)]


async def test_without_the_books_hard_budgets_fail_closed(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 for what may refuse; what only alerts refuses nobody."""
    hard = await books.budget(10_000)

    async def broken(*_: object) -> tuple[int, int]:
        raise OperationalError("select", {}, OSError("gone"))

    monkeypatch.setattr(money, "posted_of_limit", broken)
    refusal = await books.ask("a")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.retry) == ("overloaded", True)
    await end_budget(books.db, books.redis, books.tenant, hard)
    await books.budget(10_000, hard=False)
    assert isinstance(await books.ask("a"), Admitted)
    monkeypatch.undo()
    assert isinstance(await books.ask("b"), Admitted)
    assert await books.posted() == [(0, 0, HELD)]


async def test_an_edit_reaches_answers_that_run(books: QuotaLedger) -> None:
    """Raised, overridden, lowered and ended: the next grant knows, without any admission between."""
    budget = await books.budget(HELD)
    await books.ask("a")

    async def more(tokens: int) -> AllowanceExtension:
        return await books.quota.extend(books.tenant, "a", tokens)

    assert (await more(512)).refusal is not None
    budget = await books.budget(HELD + 512)
    assert (await more(512)).granted == 512
    assert (await more(513)).refusal is not None
    later = await override_budget(books.db, books.redis, books.tenant, budget, 1 << 40, now_ms() + 600_000)
    assert later is not None
    assert (await more(1024)).granted == 1024
    back = await override_budget(books.db, books.redis, books.tenant, later.id, None)
    assert back is not None
    assert (await more(1025)).refusal is not None
    await end_budget(books.db, books.redis, books.tenant, back.id)
    assert (await more(2048)).granted == 2048
    await push_limits(books.db, books.redis, books.tenant)
    await books.budget(HELD)
    assert (await more(2049)).refusal is not None
    assert await books.posted() == [(0, 0, HELD + 2 * (2048 - 256))]


async def test_a_budget_that_was_away_counts_what_was_spent_meanwhile(books: QuotaLedger) -> None:
    """Ended and set again: every line that was booked is in it."""
    budget = await books.budget(10_000)
    await books.ask("a")
    await end_budget(books.db, books.redis, books.tenant, budget)
    books.book.changed(books.tenant)
    assert isinstance(await books.ask("b"), Admitted)
    for id, line in (("a", 3), ("b", 6)):
        await books.quota.settle(await books.booked(id), line)
    await books.budget(10_000)
    assert isinstance(await books.ask("c"), Admitted)
    assert await books.posted() == [(2 * COST, 0, HELD)]


async def test_the_seed_is_one_state_of_the_books(books: QuotaLedger) -> None:
    """Lines are booked and settled while counts are read again and again: none is lost or counted twice."""
    await books.budget(1 << 40)
    await books.ask("first")
    lines = 0
    for at in range(8):
        await books.ask(f"r{at}")
    for at in range(8):
        lines += 3
        event = await books.booked(f"r{at}")
        await asyncio.gather(
            books.quota.settle(event, lines), books.quota.reseed(books.tenant), books.quota.settle(event)
        )
    assert await books.posted() == [(8 * COST, 0, HELD)]


async def test_a_prepaid_tenant_spends_its_credit_and_no_more(books: QuotaLedger) -> None:
    """The wallet has its own code; credit that is put in reaches the answer that waits for it."""
    credit = NewGrant(GrantKind.PAID, HELD + COST, "first")
    await grant(books.db, books.tenant, credit)
    await books.booked("old")
    assert isinstance(await books.ask("a"), Admitted)
    refusal = await books.ask("b")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.dimension, refusal.spent, refusal.held, refusal.remaining) == (
        "insufficient_quota",
        "wallet",
        COST,
        HELD,
        0,
    )
    answer = await books.quota.extend(books.tenant, "a", 512)
    assert answer.refusal is not None
    assert answer.refusal.code == "insufficient_quota"
    await grant(books.db, books.tenant, NewGrant(GrantKind.PROMO, 2 * 100, "second"))
    await push_limits(books.db, books.redis, books.tenant)
    assert (await books.quota.extend(books.tenant, "a", 256 + 64)).granted == 256 + 64


MILLIONS = 3_999_999_999_999_000  # nearly all that a wallet can hold
DEAR = msgspec.structs.replace(NANO, input_nano=MILLIONS // 1_000)


async def test_a_wallet_that_has_spent_millions_is_granted_and_spends_again(
    books: QuotaLedger, settings: Settings
) -> None:
    """Of all that was ever spent only what is open is bounded. To the nano, past 2^53 and across the end of
    the modulus that scripts count in; after Redis lost everything too, and all books agree."""
    spent_nano = 0
    for at in range(5):
        await grant(books.db, books.tenant, NewGrant(GrantKind.PAID, MILLIONS, f"big-{at}"))
        await push_limits(books.db, books.redis, books.tenant)
        books.book.changed(books.tenant)
        assert isinstance(await books.ask(f"small {at}"), Admitted)
        await books.spend(f"small {at}")
        await books.spend(f"dear {at}", prices=DEAR, input_uncached=10**9, output_text=0, cost_nano=MILLIONS)
        spent_nano += MILLIONS + COST
        assert (await books.posted())[0] == (spent_nano, 0, 0)
        await books.is_out_of_money(f"no {at}")
    assert spent_nano > 2 * WALLET_MODULUS_NANO
    await books.redis.flushall()
    books.book.changed(books.tenant)
    await books.is_out_of_money("after the loss")
    owed_nano = 5 * COST  # of the small ones: the next grant pays it first
    await grant(books.db, books.tenant, NewGrant(GrantKind.PAID, HELD + owed_nano, "last"))
    books.book.changed(books.tenant)
    assert isinstance(await books.ask("a"), Admitted)
    await books.is_out_of_money("b")
    assert await books.quota.release(books.tenant, "a")
    repaired = await Reconciliation(books.db, books.redis, settings).repair(books.tenant)
    assert {each.state for each in repaired} == {ComparisonState.EQUAL}
    compared = await Reconciliation(books.db, books.redis, settings).run(EVERYTHING, books.tenant, True)
    assert [each for each in compared if each.difference] == []
    assert await wallet_faults(books.db, books.tenant) == []


@pytest.mark.parametrize("wallet", [False, True])
async def test_counts_of_books_that_are_gone_lock_nobody_out(books: QuotaLedger, wallet: bool) -> None:
    """Redis survived the database: its last line is beyond what a restored one has, so no count could be
    seeded. Forgotten, the next admission begins with what the books say; what is held stays held."""
    await books.budget(10_000)
    if wallet:
        await grant(books.db, books.tenant, NewGrant(GrantKind.PAID, 10_000, "g"))
        books.book.changed(books.tenant)
    await books.booked("old")
    assert isinstance(await books.ask("running"), Admitted)
    await books.redis.hset(posted_key(books.tenant), mapping={"line_seq": 900, "requests": 70})
    for each in await MoneyCounts(books.redis).counted(books.tenant):
        await books.redis.hset(f"{{t:{books.tenant}}}{each.key}", mapping={"posted": 9_990, "seed": 900})
    refused = await books.ask("refused")
    assert isinstance(refused, Refusal), "as the lost books say it"
    for _ in range(2):
        await books.quota.forget_posted(books.tenant, 2)
    assert isinstance(await books.ask("new"), Admitted)
    assert await books.posted() == [(COST, 0, 2 * HELD)] * (2 if wallet else 1)
    assert await books.quota.posted(books.tenant) is None


async def test_a_count_of_a_wallet_that_the_books_lack_is_seeded(books: QuotaLedger) -> None:
    """It was opened after the backup: its count begins at nothing, and keeps no other from being read."""
    await books.booked("old")
    assert await MoneyCounts(books.redis).put(books.tenant, [(wallet_limit(9, 1), 7, 900)], anew=False)
    await books.quota.forget_posted(books.tenant, 2)
    await books.quota.reseed(books.tenant)
    assert await books.posted() == [(0, 0, 0)]


async def test_a_key_that_is_no_count_is_deleted(books: QuotaLedger) -> None:
    """Whoever may write in the slot keeps nobody from forgetting; names of other kinds are left alone."""
    tag = f"{{t:{books.tenant}}}"
    await books.redis.set(f"{tag}money:tenant::month:1", "text")
    await books.redis.set(f"{tag}sess:1", "text")
    await books.redis.zadd(f"{tag}moneys", {"money:tenant::month:1": 1, "sess:1": 2, b"\xff": 3})
    await books.quota.forget_posted(books.tenant, 5)
    assert await books.redis.get(f"{tag}sess:1") == b"text"
    assert not await books.redis.exists(f"{tag}money:tenant::month:1")


async def test_a_name_that_is_no_count_hides_no_other(books: QuotaLedger) -> None:
    """Whoever may write the list of counts plants bytes and words there: they are passed over."""
    await books.budget(10_000)
    await books.booked("one")
    assert isinstance(await books.ask("two"), Admitted)
    before = await MoneyCounts(books.redis).counted(books.tenant)
    moneys = f"{{t:{books.tenant}}}moneys"
    await books.redis.zadd(moneys, {b"\xff\xfe": 1, "money:nobody": 1, "money:a:b:c:d": 9e15})
    assert await MoneyCounts(books.redis).counted(books.tenant) == before
    await MoneyCounts(books.redis).forget_user(books.tenant, "u")
    await books.quota.forget_posted(books.tenant, 2)
