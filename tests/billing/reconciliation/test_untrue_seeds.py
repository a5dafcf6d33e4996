"""Counts of money that claim lines which the books do not have are counted anew without anybody's asking."""

from dataclasses import replace

import pytest

from billing.quota.money import MoneyCounts
from billing.quota.posted_spending import last_line
from billing.quota.redis_keys import tag
from billing.quota.types import Admitted
from billing.reconciliation.comparison import Check
from billing.reconciliation.run import Reconciliation
from billing.reconciliation.untrue_seeds import reseed_untrue
from billing.tenants.tenancy import create_tenant
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.support.redis import Redis

AHEAD = 9 * 10**15


@pytest.fixture
async def books(database: Database, redis: Redis, settings: Settings) -> QuotaLedger:
    """A tenant's, whose one request is booked and counted in its budget."""
    books = QuotaLedger(database, redis, settings, (await create_tenant(database, "acme")).tenant_id)
    await books.budget(10_000)
    assert isinstance(await books.ask("r1"), Admitted)
    await books.spend("r1")
    return books


async def count_of(books: QuotaLedger) -> str:
    """Key of its count."""
    (count,) = await MoneyCounts(books.redis).counted(books.tenant)
    return tag(books.tenant) + count.key


async def looked_at(books: QuotaLedger, settings: Settings) -> list[str]:
    """The tenants whose counts one look counts anew."""
    compared = await Reconciliation(books.db, books.redis, settings).run({Check.R4})
    return await reseed_untrue(books.db, books.quota, compared)


@pytest.mark.parametrize("posted", [0, 10**12])
async def test_a_count_that_claims_lines_of_the_future_is_counted_anew(
    posted: int, books: QuotaLedger, settings: Settings
) -> None:
    """Within a minute the tenant has the budget that the books leave it, no more and no less."""
    await books.redis.hset(await count_of(books), mapping={"seed": AHEAD, "posted": posted})
    assert await looked_at(books, settings) == [books.tenant]
    assert [amount for amount, _, _ in await books.posted()] == [COST]
    assert await looked_at(books, settings) == []
    await books.spend("r2")
    assert [amount for amount, _, _ in await books.posted()] == [2 * COST]


async def test_what_the_seed_does_not_explain_is_left_for_people(
    books: QuotaLedger, settings: Settings
) -> None:
    """A count that claims no more than the books have differs for another reason, which somebody finds."""
    seed = await last_line(books.db, books.tenant)
    await books.redis.hset(await count_of(books), mapping={"seed": seed, "posted": 7})
    assert await looked_at(books, settings) == []
    assert [amount for amount, _, _ in await books.posted()] == [7]


async def test_counts_that_cannot_be_read_hold_up_nobody(books: QuotaLedger, settings: Settings) -> None:
    """A list of counts of another type: the others' counts are looked at, and nothing is raised."""
    await books.redis.hset(await count_of(books), mapping={"seed": AHEAD, "posted": 1})
    compared = await Reconciliation(books.db, books.redis, settings).run({Check.R4})
    await books.redis.set(tag("nobody") + "moneys", "x")
    of_another = [replace(each, tenant_id="nobody") for each in compared]
    assert await reseed_untrue(books.db, books.quota, [*of_another, *compared]) == [books.tenant]
