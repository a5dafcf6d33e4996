"""A tenant whose month is closed."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlmodel import col, select

from billing.booking.rollups import rebuild
from billing.closing.period_close import CloseOptions, PeriodClosing, close_period
from billing.ledger.verify import verify_ledger
from billing.periods import Period, PeriodWindow, window_at
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.prices.tiers import Tier, TierMode, TierPrices
from billing.prices.versions import tier_row
from billing.quota.unposted_usage import UnpostedUsage
from billing.tables.ledger import LedgerEntry, RollupHour
from billing.tables.tenants import Price, PriceBook, PriceVersion, Tenant
from billing.tenants.tenancy import create_tenant
from billing.usage import PinnedPrices, UsageEvent, encode
from core.sql.database import Database, insert_rows
from tests.billing.events import an_event

ZONE = ZoneInfo("UTC")

MILLION = 1_000_000

PINNED = PinnedPrices("tiered", 1, 100 * MILLION, 25 * MILLION, 400 * MILLION)

GRADUATED = TierPrices(TierMode.GRADUATED, (Tier(10_000, 400 * MILLION), Tier(None, 100 * MILLION)))


def in_month(month: int, day: int = 10) -> int:
    """Noon of a day of 2025 as Unix ms."""
    return int(datetime(2025, month, day, 12, tzinfo=UTC).timestamp() * 1000)


def window(month: int) -> PeriodWindow:
    """A month of 2025."""
    return window_at(Period.MONTH, ZONE, in_month(month))


async def closed(database: Database, tenant: Tenant, month: int, dry_run: bool = False) -> PeriodClosing:
    """Close a month of 2025."""
    asked = CloseOptions(UnpostedUsage(), dry_run)
    return await close_period(database, tenant, f"2025-{month:02}", window(month), asked)


async def a_tenant(database: Database, *versions: TierPrices, name: str = "acme") -> Tenant:
    """One whose book has these tiers of output, a version each, all in force since long ago."""
    async with database.transaction() as session:
        if await session.get(PriceBook, "tiered") is None:
            await insert_rows(session, [PriceBook(id="tiered", name="Tiered", created_ms=0)])
            for number, tiers in enumerate(versions, 1):
                version = PriceVersion(book_id="tiered", version=number, valid_from_ms=number, created_ms=0)
                await insert_rows(session, [version])
                of: dict[str, Any] = {"book_id": "tiered", "version": number, "model": "*"}
                await insert_rows(session, [Price(**of, **flat())])
                await insert_rows(session, [tier_row(version, ("*", Meter.OUTPUT), tiers)])
    return await create_tenant(database, name, price_book="tiered")


def flat() -> dict[str, Any]:
    """The flat prices that requests are billed with."""
    names = ("input_nano", "cached_input_nano", "output_nano", "request_nano")
    return {name: getattr(PINNED, name) for name in names}


def a_request(number: int, tenant: Tenant, month: int, output: int, version: int = 1) -> UsageEvent:
    """A request that ended in a month."""
    return an_event(
        f"r{number:04}",
        tenant.tenant_id,
        ended_ms=in_month(month) + number,
        prices=msgspec.structs.replace(PINNED, version=version),
        input_uncached=0,
        input_cached=0,
        output_text=output,
    )


async def used(database: Database, *events: UsageEvent) -> None:
    """Post them."""
    await post(database, "default", [encode(event) for event in events])


async def owed(database: Database, tenant: Tenant) -> int:
    """The receivable of books that are right, and whose rollups are made again and are the same."""
    before = await rows(database, RollupHour, tenant)
    await rebuild(database, tenant.tenant_id)
    assert [row.model_dump() for row in await rows(database, RollupHour, tenant)] == [
        row.model_dump() for row in before
    ]
    assert (await verify_ledger(database, tenant.tenant_id)).faults == []
    entries: list[LedgerEntry] = await rows(database, LedgerEntry, tenant)
    return sum(entry.amount_nano for entry in entries if entry.account == "receivable")


async def rows(database: Database, table: Any, tenant: Tenant) -> list[Any]:
    """All of a tenant."""
    async with database.session() as session:
        found = (await session.exec(select(table).where(col(table.tenant_id) == tenant.tenant_id))).all()
    return sorted(found, key=lambda row: str(row))
