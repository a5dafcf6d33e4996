"""Money that is being taken out of a wallet is held by no answer, whoever tells limits anew meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from billing.enforcement import limit_push
from billing.enforcement import take_credit as taking
from billing.enforcement.limit_cache import read_rows
from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import set_budget
from billing.enforcement.take_credit import take_credit
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.limits import TenantRows
from billing.quota.types import Admitted
from billing.wallets.undo import Undo, UndoKind, UndoResult, book_undo
from billing.wallets.wallets import grant
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.billing.wallets.wallet_tenant import a_tenant, paid, sound
from tests.support.redis import Redis

PAY_OUT = Undo(UndoKind.PAY_OUT, "", 1_000, "c", "r")
Meanwhile = Callable[[], Awaitable[None]]


class DiedError(BaseException):
    """The taker's process is killed."""


@pytest.fixture
async def books(database: Database, redis: Redis, settings: Settings) -> QuotaLedger:
    """A tenant who paid 1,000 nano, counted in Redis."""
    tenant = await a_tenant(database)
    await grant(database, tenant, paid(1_000, "p"))
    found = QuotaLedger(database, redis, settings, tenant)
    assert isinstance(await found.ask("first"), Admitted)
    await found.quota.release(tenant, "first")
    return found


def booking(patched: pytest.MonkeyPatch, before: Meanwhile | None = None, after: Meanwhile | None = None):
    """What happens beside a booking, before and after."""

    async def slow(db: Database, tenant_id: str, undo: Undo, check: object = None) -> UndoResult:
        if before is not None:
            await before()
        booked = await book_undo(db, tenant_id, undo)
        if after is not None:
            await after()
        return booked

    patched.setattr(taking, "book_undo", slow)


async def anew(books: QuotaLedger, id: str) -> Admitted | Refusal:
    """What a gateway that has read all anew answers."""
    books.book.changed(books.tenant)
    return await books.ask(id)


async def tell_all(books: QuotaLedger) -> None:
    """Everybody who may set a wallet's limit does."""
    await push_limits(books.db, books.redis, books.tenant)
    await publish_wallet_changed(books.db, books.redis, books.tenant)
    await books.quota.reseed(books.tenant)
    await set_budget(
        books.db, books.redis, books.tenant, scope="tenant", period="day", limit_nano=10**9, hard=False
    )


async def test_limits_that_are_told_between_take_and_booking_do_not_restore_the_money(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No send is let in by what is being paid out, and the wallet owes nothing afterwards."""
    answers: list[Admitted | Refusal] = []

    async def meanwhile() -> None:
        await tell_all(books)
        answers.append(await anew(books, f"r{len(answers)}"))

    booking(monkeypatch, before=meanwhile, after=meanwhile)
    await take_credit(books.db, books.redis, books.tenant, PAY_OUT)
    answers.append(await anew(books, "after"))
    assert [type(each) for each in answers] == [Refusal] * 3
    await sound(books.db, books.tenant)
    await grant(books.db, books.tenant, paid(1_000, "q"))
    await publish_wallet_changed(books.db, books.redis, books.tenant)
    assert isinstance(await anew(books, "granted"), Admitted)


async def test_limits_that_were_read_before_a_take_do_not_restore_what_it_booked(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order: the look is older than the take, the news of it come after."""
    seen, go_on = asyncio.Event(), asyncio.Event()

    async def slow(db: Database, tenant_id: str, now: int) -> TenantRows:
        rows = await read_rows(db, tenant_id, now)
        if not seen.is_set():
            seen.set()
            await go_on.wait()
        return rows

    monkeypatch.setattr(limit_push, "read_rows", slow)
    late = asyncio.create_task(push_limits(books.db, books.redis, books.tenant))
    await seen.wait()
    await take_credit(books.db, books.redis, books.tenant, PAY_OUT)
    go_on.set()
    await late
    assert isinstance(await anew(books, "after"), Refusal)


@pytest.mark.parametrize("booked", [False, True])
@pytest.mark.parametrize("in_time", [True, False])
async def test_a_taker_that_dies_lets_nobody_spend_what_it_may_have_booked(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch, booked: bool, in_time: bool
) -> None:
    """For a bounded time the money is nobody's; then the books say whose it is."""

    async def dies(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(taking, "publish_wallet_changed", dies)
        patched.setattr(taking, "BOOKED_MS_MAX", 30_000 if in_time else 0)
        booking(patched, **{"after" if booked else "before": dies})
        with pytest.raises(DiedError):
            await take_credit(books.db, books.redis, books.tenant, PAY_OUT)
    await tell_all(books)
    assert type(await anew(books, "a")) is (Refusal if booked or in_time else Admitted)
    assert len(await takes(books)) == in_time
    await sound(books.db, books.tenant)


async def takes(books: QuotaLedger) -> list[bytes]:
    """Fields of the wallet's hash that are takes."""
    fields = await books.redis.hkeys(taking._wallet_key(books.tenant))
    return [field for field in fields if field.startswith(b"take:")]


async def test_marks_of_the_future_hold_no_limit_back(books: QuotaLedger) -> None:
    """A worker may write what it likes there: neither a take nor a look that ends never stops a push."""
    key = taking._wallet_key(books.tenant)
    await books.redis.hset(key, mapping={"read": 1 << 52, "take:x": f"1:{1 << 52}", "take:y": "z"})
    await books.redis.hset(key, "limit", 7)
    await push_limits(books.db, books.redis, books.tenant)
    assert await takes(books) == []
    limit, read = await books.redis.hmget(key, "limit", "read")
    assert limit == b"1000"
    assert int(read or 0) < 1 << 52


async def test_of_two_takes_the_first_that_is_booked_does_not_restore_the_other(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells limits without what is not in the books yet."""
    answers: list[Admitted | Refusal] = []

    async def the_other() -> None:
        monkeypatch.setattr(taking, "book_undo", book_undo)
        await take_credit(books.db, books.redis, books.tenant, Undo(UndoKind.PAY_OUT, "", 100, "d", "r"))
        answers.append(await anew(books, "between"))

    booking(monkeypatch, before=the_other)
    await take_credit(books.db, books.redis, books.tenant, Undo(UndoKind.PAY_OUT, "", 900, "c", "r"))
    answers.append(await anew(books, "after"))
    assert [type(each) for each in answers] == [Refusal, Refusal]
    await sound(books.db, books.tenant)


async def test_what_is_refused_is_given_back_at_once(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another's take losing its own."""

    async def no() -> None:
        raise bad_request("no")

    booking(monkeypatch, before=no)
    with pytest.raises(Refused, match="no"):
        await take_credit(books.db, books.redis, books.tenant, PAY_OUT)
    assert isinstance(await anew(books, "a"), Admitted)


async def test_a_wallet_that_redis_does_not_count_is_counted_before_it_is_taken_from(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a send between take and booking begins the count with all of the money."""
    await books.redis.flushall()
    answers: list[Admitted | Refusal] = []

    async def meanwhile() -> None:
        answers.append(await anew(books, "a"))

    booking(monkeypatch, before=meanwhile)
    await take_credit(books.db, books.redis, books.tenant, PAY_OUT)
    assert [type(each) for each in answers] == [Refusal]
