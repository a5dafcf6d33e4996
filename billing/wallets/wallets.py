"""Prepaid tenants' money: grants are put in, posting spends them, and their unused rest ends at its time.

Everything is a transaction of the tenant's books. A grant debits the source of its money and credits its
account `wallet:<kind>:<id>`; expiry debits that account and credits `breakage`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.booking.write import lock_heads, write
from billing.budgets.thresholds import store_alerts, wallet_reached
from billing.ledger.grant_rows import load_wallets
from billing.ledger.grant_spending import GrantKind, account_of
from billing.ledger.transactions import BREAKAGE, TxnKind, post
from billing.limits import LIMIT_NANO_MAX
from billing.periods import LAST_MS
from billing.tables.ledger import LedgerHead
from billing.tables.tenants import Tenant
from billing.tables.wallets import Wallet, WalletGrant
from billing.wallets.owed import OwedTerm, pay_owed
from core.clock import now_ms
from core.errors import bad_request
from core.ids import uuid7
from core.sql.database import Database
from core.sql.selects import select_columns

SOURCES = {GrantKind.PAID: "stripe_clearing", GrantKind.PROMO: "promo_expense"}
PRIORITIES = {GrantKind.PAID: 50, GrantKind.PROMO: 10}
LOW_PERCENTS = (20, 5)
LOW_MAX = 20
PRIORITY_MAX = 100
OPEN_MAX = 1_000
NOTE_CHARS_MAX = 500
KEY = re.compile(r"[\x21-\x7e]{1,200}")
EXPIRED_AT_ONCE = 100


@dataclass(frozen=True)
class NewGrant:
    """A grant to make. `idempotency_key`: the caller's own name for it; `priority` None: the default of its
    kind (the lowest is spent first); `expires_ms` None: never."""

    kind: GrantKind
    amount_nano: int
    idempotency_key: str
    priority: int | None = None
    expires_ms: int | None = None
    author: str = ""
    note: str = ""


@dataclass(frozen=True)
class WalletState:
    """A prepaid tenant's money in one state of its books, whose last line is `line_seq`.

    `posted_nano`: cost of its requests since the wallet was opened. `limit_nano`: that, plus the rest of the
    grants that have not expired; so limit - posted can be spent. `next_expiry_ms`: the time of the limit's
    next fall."""

    limit_nano: int
    posted_nano: int
    line_seq: int
    next_expiry_ms: int | None


async def wallet_state(db: Database, tenant_id: str, at_ms: int) -> WalletState | None:
    """Read the tenant's money at a time (Unix ms, not in the past) in one snapshot; None: it is postpaid."""
    return (await wallet_states(db, [tenant_id], at_ms)).get(tenant_id)


async def wallet_states(db: Database, tenants: Sequence[str], at_ms: int) -> dict[str, WalletState]:
    """Read the money of these tenants' wallets at a time (Unix ms, not in the past) in one snapshot."""
    grants = (
        select_columns(
            col(WalletGrant.tenant_id),
            func.sum(col(WalletGrant.left_nano)).label("left"),
            func.min(col(WalletGrant.expires_ms)).label("expiry"),
        )
        .where(
            col(WalletGrant.tenant_id).in_(tenants),
            col(WalletGrant.left_nano) > 0,
            col(WalletGrant.expires_ms).is_(None) | (col(WalletGrant.expires_ms) > at_ms),
        )
        .group_by(col(WalletGrant.tenant_id))
        .subquery()
    )
    owner = col(Wallet.tenant_id)
    statement = (
        select_columns(
            owner, col(Wallet.posted_nano), grants.c.left, grants.c.expiry, col(LedgerHead.line_seq)
        )
        .outerjoin(grants, grants.c.tenant_id == owner)
        .outerjoin(LedgerHead, col(LedgerHead.tenant_id) == owner)
        .where(owner.in_(tenants))
    )
    async with db.looking() as connection:
        rows: Sequence[Any] = (await connection.execute(statement)).all()
    return {
        tenant: WalletState(posted + int(left or 0), posted, line_seq or 0, expiry)
        for tenant, posted, left, expiry, line_seq in rows
    }


async def set_low_percents(db: Database, tenant_id: str, percents: Sequence[int]) -> bool:
    """Set the per cents of the last top-up at which the wallet alerts; False: there is no wallet."""
    if len(percents) > LOW_MAX or not all(1 <= each <= 100 for each in percents):
        raise bad_request(
            f"a wallet alerts at {LOW_MAX} per cents at most, each from 1 to 100", field="thresholds"
        )
    async with db.transaction() as session:
        wallet = await session.get(Wallet, tenant_id, with_for_update=True)
        if wallet is None:
            return False
        before = wallet.model_dump()
        wallet.low_percents = sorted(set(percents), reverse=True)
        await record(session, tenant_id, "wallet.alert", tenant_id, before, wallet)
    return True


async def grant(db: Database, tenant_id: str, new: NewGrant) -> tuple[WalletGrant, bool]:
    """Put money into a tenant's wallet, which the first grant opens; False: this grant was made before.

    Raises Refused where it is not possible, or where its key was that of another grant."""
    now = now_ms()
    _check(new)
    async with db.transaction() as session:
        if await session.get(Tenant, tenant_id) is None:
            raise bad_request("there is no such tenant")
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        known = await _with_key(session, tenant_id, new)
        if known is not None:
            return known, False
        await _check_room(session, tenant_id, new, now)
        row = await _add(session, head, new, now)
        await record(session, tenant_id, "wallet.grant", row.id, None, row)
    return row, True


async def _add(session: AsyncSession, head: LedgerHead, new: NewGrant, now: int) -> WalletGrant:
    row = WalletGrant(
        tenant_id=head.tenant_id,
        id=uuid7(now),
        kind=new.kind.value,
        priority=PRIORITIES[new.kind] if new.priority is None else new.priority,
        amount_nano=new.amount_nano,
        left_nano=new.amount_nano,
        expires_ms=new.expires_ms,
        idempotency_key=new.idempotency_key,
        author=new.author,
        note=new.note,
        created_ms=now,
    )
    wallet = await session.get(Wallet, head.tenant_id, with_for_update=True) or Wallet(
        tenant_id=head.tenant_id,
        opened_line_seq=head.line_seq,
        low_percents=list(LOW_PERCENTS),
        created_ms=now,
    )
    if new.kind is GrantKind.PAID or not wallet.top_up_nano:
        wallet.top_up_grant_id, wallet.top_up_nano = row.id, row.amount_nano
    session.add(wallet)
    await session.flush()
    session.add(row)
    await session.flush()
    entries = [
        (SOURCES[new.kind], new.amount_nano, "", ""),
        (account_of(row.kind, row.id), -new.amount_nano, "", ""),
    ]
    posting = post(head, TxnKind.GRANT, f"grant:{new.idempotency_key}", [], entries, now)
    await write(session, [posting], [])
    if wallet.owed_term == OwedTerm.NEXT_GRANT:
        await pay_owed(session, posting.head, row, now)
    return row


async def expire(db: Database, tenant_id: str, at_ms: int) -> list[tuple[WalletGrant, int]]:
    """Book the unused rest of a tenant's expired grants as breakage; return these grants with their amounts.

    A repetition books nothing more. At most EXPIRED_AT_ONCE grants."""
    async with db.transaction() as session:
        head = (await lock_heads(session, [tenant_id]))[tenant_id]
        grants = await _expired(session, tenant_id, at_ms)
        ended: list[tuple[WalletGrant, int]] = []
        for row in grants:
            unused = row.left_nano
            entries = [(account_of(row.kind, row.id), unused, "", ""), (BREAKAGE, -unused, "", "")]
            # Money that a correction gives back later expires again: the seq keeps the name unique.
            name = f"expire:{row.id}:{head.txn_seq + 1}"
            posting = post(head, TxnKind.EXPIRE, name, [], entries, at_ms)
            row.left_nano, row.lapsed_nano = 0, row.lapsed_nano + unused
            await session.flush()
            await write(session, [posting], [])
            head = posting.head
            ended.append((row, unused))
        if ended:
            wallets = await load_wallets(session, [tenant_id], at_ms)
            await store_alerts(session, wallet_reached(wallets[tenant_id]), at_ms)
    return ended


async def tenants_with_expired(db: Database, at_ms: int) -> Sequence[str]:
    """Tenants with an expired grant whose rest is not booked. For the biller."""
    statement = select(col(WalletGrant.tenant_id)).where(
        col(WalletGrant.left_nano) > 0, col(WalletGrant.expires_ms) <= at_ms
    )
    async with db.looking() as connection:
        return sorted((await connection.execute(statement.distinct())).scalars())


async def list_grants(db: Database, tenant_id: str) -> Sequence[WalletGrant]:
    """All grants of a tenant in spending order; spent and expired ones last."""
    statement = select(WalletGrant).where(col(WalletGrant.tenant_id) == tenant_id)
    async with db.session() as session:
        found = (await session.exec(statement)).all()
    forever = 1 << 62
    return sorted(
        found,
        key=lambda row: (
            row.left_nano == 0,
            row.priority,
            row.expires_ms or forever,
            row.created_ms,
            row.id,
        ),
    )


async def _with_key(session: AsyncSession, tenant_id: str, new: NewGrant) -> WalletGrant | None:
    """The grant made under a key. Raises Refused where it differs from this one."""
    key = new.idempotency_key
    statement = select(WalletGrant).where(
        col(WalletGrant.tenant_id) == tenant_id, col(WalletGrant.idempotency_key) == key
    )
    known = (await session.exec(statement)).first()
    if known is not None and _facts(known) != _wanted(new):
        raise bad_request(f"the key {key!r} was that of another grant")
    return known


async def _expired(session: AsyncSession, tenant_id: str, at_ms: int) -> Sequence[WalletGrant]:
    statement = (
        select(WalletGrant)
        .where(
            col(WalletGrant.tenant_id) == tenant_id,
            col(WalletGrant.left_nano) > 0,
            col(WalletGrant.expires_ms) <= at_ms,
        )
        .order_by(col(WalletGrant.expires_ms), col(WalletGrant.id))
        .limit(EXPIRED_AT_ONCE)
    )
    return (await session.exec(statement)).all()


def _check(new: NewGrant) -> None:
    if not 0 < new.amount_nano <= LIMIT_NANO_MAX:
        raise bad_request("a grant is above 0 and at most 4,000,000 USD", field="amount")
    if new.priority is not None and not 0 <= new.priority <= PRIORITY_MAX:
        raise bad_request(
            f"a priority is from 0 to {PRIORITY_MAX}; the lowest is spent first", field="priority"
        )
    if not KEY.fullmatch(new.idempotency_key):
        raise bad_request("an idempotency key has 1 to 200 visible ASCII characters", field="key")
    if max(len(new.note), len(new.author)) > NOTE_CHARS_MAX:
        raise bad_request(f"a note or an author has at most {NOTE_CHARS_MAX} characters", field="note")


async def _check_room(session: AsyncSession, tenant_id: str, new: NewGrant, now: int) -> None:
    """Check a new grant's expiry and the wallet's limits. Raises Refused."""
    if new.expires_ms is not None and not now < new.expires_ms < LAST_MS:
        raise bad_request("a grant expires in the future")
    statement = select(func.count(), func.coalesce(func.sum(WalletGrant.left_nano), 0)).where(
        col(WalletGrant.tenant_id) == tenant_id, col(WalletGrant.left_nano) > 0
    )
    number, left_nano = (await session.exec(statement)).one()
    if number >= OPEN_MAX:
        raise bad_request(f"{OPEN_MAX} grants are open already: let some be spent first")
    if int(left_nano) + new.amount_nano > LIMIT_NANO_MAX:
        raise bad_request("what a wallet has left is at most 4,000,000 USD: spend some of it first")


def _facts(row: WalletGrant) -> tuple[object, ...]:
    return (row.kind, row.amount_nano, row.priority, row.expires_ms)


def _wanted(new: NewGrant) -> tuple[object, ...]:
    priority = PRIORITIES[new.kind] if new.priority is None else new.priority
    return (new.kind.value, new.amount_nano, priority, new.expires_ms)
