"""Prepaid tenants' money: what is left, and until when."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlmodel import col, func

from billing.ledger_tables import LedgerHead
from billing.wallet_tables import Wallet, WalletGrant
from core.database import Database


@dataclass(frozen=True)
class WalletState:
    """A prepaid tenant's money as of one state of its books, whose last line is `line_seq`.

    `posted_nano`: what its requests cost since the wallet was opened. `limit_nano`: that, and what is left
    of the grants that have not expired; so limit - posted can be spent. `next_expiry_ms`: when the limit
    falls next."""

    limit_nano: int
    posted_nano: int
    line_seq: int
    next_expiry_ms: int | None


async def wallet_state(db: Database, tenant_id: str, at_ms: int) -> WalletState | None:
    """The tenant's money at a time (Unix ms, not in the past), all of one snapshot; None: it is postpaid."""
    spendable = (
        col(WalletGrant.tenant_id) == tenant_id,
        col(WalletGrant.left_nano) > 0,
        col(WalletGrant.expires_ms).is_(None) | (col(WalletGrant.expires_ms) > at_ms),
    )
    left = select(func.coalesce(func.sum(WalletGrant.left_nano), 0)).where(*spendable).scalar_subquery()
    expiry = select(func.min(WalletGrant.expires_ms)).where(*spendable).scalar_subquery()
    last = select(col(LedgerHead.line_seq)).where(col(LedgerHead.tenant_id) == tenant_id).scalar_subquery()
    statement = select(col(Wallet.posted_nano), left, last, expiry).where(col(Wallet.tenant_id) == tenant_id)
    async with db.engine.connect() as connection:
        found = (await connection.execute(statement)).first()
    if found is None:
        return None
    posted, left_nano, line_seq, next_expiry_ms = found
    return WalletState(posted + int(left_nano), posted, line_seq or 0, next_expiry_ms)
