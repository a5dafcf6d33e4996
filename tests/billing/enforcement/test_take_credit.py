"""Money that is being taken out of a wallet is held by no answer, whoever tells limits anew meanwhile."""

import asyncio
from typing import Any

import pytest

from billing.enforcement import limit_push
from billing.enforcement import take_credit as taking
from billing.enforcement.limit_cache import read_rows
from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import set_budget
from billing.enforcement.take_credit import end_take
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.limits import TenantRows
from billing.operations import wallets
from billing.quota.types import Admitted
from billing.wallets.wallets import grant
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database
from tests.billing.enforcement.takes import Meanwhile, pay_out
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.billing.wallets.wallet_tenant import a_tenant, paid, sound
from tests.support.redis import Redis


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


def after_the_commit(patched: pytest.MonkeyPatch, does: Meanwhile) -> None:
    """What happens between the commit and the end of the take."""

    async def slow(*of: Any) -> None:
        await does()
        await end_take(*of)

    patched.setattr(wallets, "end_take", slow)


async def anew(books: QuotaLedger, id: str) -> Admitted | Refusal:
    """What a gateway that has read all anew answers."""
    books.book.changed(books.tenant)
    return await books.ask(id)


async def tell_all(books: QuotaLedger) -> None:
    """Everybody who may set a wallet's limit does."""
    await push_limits(books.db, books.redis, books.tenant)
    await publish_wallet_changed(books.db, books.redis, books.tenant)
    await books.quota.reseed(books.tenant)


async def set_a_budget(books: QuotaLedger) -> None:
    """So does who sets a budget."""
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

    async def later() -> None:
        await set_a_budget(books)
        await meanwhile()

    after_the_commit(monkeypatch, later)
    await pay_out(books, meanwhile=meanwhile)
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
    await pay_out(books)
    go_on.set()
    await late
    assert isinstance(await anew(books, "after"), Refusal)


@pytest.mark.parametrize("booked", [False, True])
@pytest.mark.parametrize("in_time", [True, False])
async def test_a_taker_that_dies_lets_nobody_spend_what_it_may_have_booked(
    books: QuotaLedger, monkeypatch: pytest.MonkeyPatch, booked: bool, in_time: bool
) -> None:
    """For a bounded time the money is nobody's; then the books say whose it is."""

    async def dies() -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(taking, "BOOKED_MS_MAX", 30_000 if in_time else 0)
        after_the_commit(patched, dies)
        with pytest.raises(DiedError):
            await pay_out(books, meanwhile=None if booked else dies)
    await tell_all(books)
    await set_a_budget(books)
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


async def test_of_two_takes_at_once_neither_restores_the_other(books: QuotaLedger) -> None:
    """One after another: who comes second tells limits without what the first took."""
    await asyncio.gather(pay_out(books, 100, "d"), pay_out(books, 900, "c"))
    assert isinstance(await anew(books, "after"), Refusal)
    await sound(books.db, books.tenant)


async def test_what_is_refused_is_given_back_at_once(books: QuotaLedger) -> None:
    """And nothing is booked."""

    async def no() -> None:
        raise bad_request("no")

    with pytest.raises(Refused, match="no"):
        await pay_out(books, meanwhile=no)
    assert isinstance(await anew(books, "a"), Admitted)
    assert await takes(books) == []
    await sound(books.db, books.tenant)


async def test_a_wallet_that_redis_does_not_count_is_counted_before_it_is_taken_from(
    books: QuotaLedger,
) -> None:
    """Else a send between take and booking begins the count with all of the money."""
    await books.redis.flushall()
    answers: list[Admitted | Refusal] = []

    async def meanwhile() -> None:
        answers.append(await anew(books, "a"))

    await pay_out(books, meanwhile=meanwhile)
    assert [type(each) for each in answers] == [Refusal]
