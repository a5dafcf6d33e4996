"""A tenant that pays from wallets."""

from billing.ledger.grant_spending import GrantKind
from billing.posting.biller import post
from billing.tables.ledger import LedgerEntry
from billing.tables.wallets import WalletGrant
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from billing.wallets.ledger_check import wallet_faults
from billing.wallets.wallets import (
    NewGrant,
)
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import proven, read

COST = 3_700  # of an_event(), in nano-USD


async def a_tenant(database: Database) -> str:
    """A tenant without a wallet."""
    return (await create_tenant(database, "acme")).tenant_id


def promo(amount_nano: int, key: str, *, expires_ms: int | None = None, priority: int = 10) -> NewGrant:
    """A grant of promo money."""
    return NewGrant(GrantKind.PROMO, amount_nano, key, priority, expires_ms)


def paid(amount_nano: int, key: str, expires_ms: int | None = None) -> NewGrant:
    """A top-up."""
    return NewGrant(GrantKind.PAID, amount_nano, key, expires_ms=expires_ms)


async def balances(database: Database, tenant: str) -> dict[str, int]:
    """What each account of the ledger holds, the grants' by their kind; empty ones left out."""
    sums: dict[str, int] = {}
    for entry in await read(database, LedgerEntry, tenant):
        account = ":".join(entry.account.split(":")[:2])
        sums[account] = sums.get(account, 0) + entry.amount_nano
    return {account: amount for account, amount in sums.items() if amount}


async def sound(database: Database, tenant: str) -> None:
    """The chain holds, every transaction balances, and wallet, ledger and lines say the same."""
    await proven(database, tenant)
    assert await wallet_faults(database, tenant) == []
    rows: list[WalletGrant] = await read(database, WalletGrant, tenant)
    in_books = sum(amount for name, amount in (await balances(database, tenant)).items() if "wallet" in name)
    assert -in_books == sum(row.left_nano for row in rows)
    assert all(0 <= row.left_nano <= row.amount_nano for row in rows)


async def use(database: Database, tenant: str, *requests: str) -> None:
    """Post one batch of requests that cost COST each."""
    await post(database, "default", [encode(an_event(request, tenant)) for request in requests])
