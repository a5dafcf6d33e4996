"""Pools, and a dedicated one with ready time."""

from typing import Any

from sqlmodel import col, select

from billing.dedicated_pools.hours import HOUR_MS, ReadyInterval
from billing.dedicated_pools.posting import SETTLE_MS
from billing.money import NANO
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import gpu_second_nano
from billing.tables.dedicated_pools import PoolOwner
from billing.tables.ledger import LedgerEntry
from billing.tables.pools import PoolRow
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.sql.database import Database, insert_rows

DOLLAR = NANO

NOW_HOUR = now_ms() - now_ms() % HOUR_MS

HOUR = NOW_HOUR + HOUR_MS  # prices and commitments begin now or later


def after(hours: int) -> int:
    """A time at which that many hours from HOUR on are over."""
    return HOUR + hours * HOUR_MS + SETTLE_MS


def a_pool(pool: str = "a", **columns: Any) -> PoolRow:
    """A shared pool with two workers."""
    facts: dict[str, Any] = {"model": "m", "version": "v1", "workers": 2, "labels": {}, "made_ms": 1}
    return PoolRow(pool=pool, **(facts | columns))


def an_interval(hour: int, start_s: int, end_s: int, worker: str = "w", pool: str = "a") -> ReadyInterval:
    """Seconds of the hour with that number in which a GPU was ready, half of them with requests."""
    at = HOUR + hour * HOUR_MS
    start, end = at + start_s * 1000, at + end_s * 1000
    return ReadyInterval(pool, worker, start, end, (end - start) // 2, 1, "ready", f"GPU-{worker}", "h200")


async def a_tenant(database: Database, name: str = "acme", priced: bool = True) -> Tenant:
    """One that pays 3.60 dollars for an hour of an H200, a tenth of a cent a second."""
    prices = {"*": FlatPrices(1, 1, 1, 0)}
    gpus = {"h200": gpu_second_nano(18 * DOLLAR // 5)} if priced else {}
    await add_version(database, NewVersion(f"book of {name}", prices, gpus=gpus))
    return await create_tenant(database, name, price_book=f"book of {name}")


async def dedicate(database: Database, pool: str, tenant_id: str, at_ms: int = HOUR) -> None:
    """The pool is the tenant's from a time on."""
    async with database.transaction() as session:
        row = PoolOwner(pool=pool, from_ms=at_ms, tenant_id=tenant_id, created_ms=0)
        await insert_rows(session, [row])


async def balance(database: Database, tenant: Tenant, account: str) -> int:
    """The sum of an account."""
    async with database.session() as session:
        own = select(LedgerEntry).where(col(LedgerEntry.tenant_id) == tenant.tenant_id)
        return sum(entry.amount_nano for entry in (await session.exec(own)).all() if entry.account == account)
