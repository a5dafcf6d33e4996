"""Loads wallets under the lock of the tenant's books and saves them in the transaction that spent from
them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, or_, select, update
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.grant_spending import Grant, SpendableWallet, TopUp
from billing.ledger.rows import UseRow
from billing.tables.wallets import Wallet, WalletGrant, WalletOwed, WalletUse
from core.sql.database import insert_of, insert_rows

_WALLET = (
    col(Wallet.tenant_id),
    col(Wallet.opened_line_seq),
    col(Wallet.top_up_grant_id),
    col(Wallet.top_up_nano),
    col(Wallet.low_percents),
)
_GRANT: tuple[Any, ...] = (
    col(WalletGrant.id),
    col(WalletGrant.kind),
    col(WalletGrant.priority),
    col(WalletGrant.left_nano),
    col(WalletGrant.expires_ms),
    col(WalletGrant.created_ms),
    col(WalletGrant.lapsed_nano),
)


async def load_wallets(
    session: AsyncSession, tenants: Iterable[str], now_ms: int, since_ms: int | None = None
) -> dict[str, SpendableWallet]:
    """Load the wallets of the prepaid ones among these tenants, with the grants that can be spent now, or for
    requests accepted from `since_ms` on. The caller holds the heads of their books."""
    connection = await session.connection()
    ordered = sorted(tenants)
    of_wallets = select(*_WALLET).where(col(Wallet.tenant_id).in_(ordered))
    wallets = (await connection.execute(of_wallets)).all()
    if not wallets:
        return {}
    since_ms = now_ms if since_ms is None else min(since_ms, now_ms)
    whose = col(WalletGrant.tenant_id).in_([wallet[0] for wallet in wallets])
    of_grants = select(col(WalletGrant.tenant_id), *_GRANT).where(whose)
    ended = col(WalletGrant.expires_ms) > since_ms
    has_left = of_grants.where(
        col(WalletGrant.left_nano) > 0, or_(col(WalletGrant.expires_ms).is_(None), ended)
    )
    lapsed = of_grants.where(col(WalletGrant.left_nano) == 0, col(WalletGrant.lapsed_nano) > 0, ended)
    grants: dict[str, list[Grant]] = {}
    for tenant, *facts in (await connection.execute(has_left.union_all(lapsed))).all():
        grants.setdefault(tenant, []).append(Grant(*facts))
    return {wallet[0]: _spendable(wallet, grants.get(wallet[0], []), now_ms) for wallet in wallets}


async def load_whole_wallet(session: AsyncSession, tenant_id: str, now_ms: int) -> SpendableWallet | None:
    """Load a prepaid tenant's wallet with all grants it ever had, for money that goes back to them."""
    connection = await session.connection()
    wallet = (await connection.execute(select(*_WALLET).where(col(Wallet.tenant_id) == tenant_id))).first()
    if wallet is None:
        return None
    statement = select(*_GRANT).where(col(WalletGrant.tenant_id) == tenant_id)
    found = (await connection.execute(statement)).all()
    return _spendable(wallet, [Grant(*facts) for facts in found], now_ms)


def _spendable(wallet: Sequence[Any], grants: Sequence[Grant], now_ms: int) -> SpendableWallet:
    tenant_id, opened_line_seq, top_up_grant_id, top_up_nano, low_percents = wallet
    top_up = TopUp(top_up_grant_id, top_up_nano)
    return SpendableWallet(tenant_id, opened_line_seq, top_up, low_percents, grants, now_ms)


async def uses_of(session: AsyncSession, tenant_id: str, request_id: str) -> dict[str, int]:
    """Sums that each grant paid of a request so far, corrections included, in nano-USD by grant id."""
    statement = select(col(WalletUse.grant_id), col(WalletUse.amount_nano)).where(
        col(WalletUse.tenant_id) == tenant_id, col(WalletUse.request_id) == request_id
    )
    used: dict[str, int] = {}
    for grant_id, amount in (await (await session.connection()).execute(statement)).all():
        used[grant_id] = used.get(grant_id, 0) + amount
    return used


async def save_wallets(session: AsyncSession, spent: Sequence[tuple[int, SpendableWallet]]) -> None:
    """Write the grants used, costs and owed amounts of these wallets, each with the seq of its
    transaction."""
    uses = [
        UseRow(
            tenant_id=wallet.tenant_id,
            request_id=use.request_id,
            txn_seq=txn_seq,
            grant_id=use.grant_id,
            amount_nano=use.amount_nano,
        )
        for txn_seq, wallet in spent
        for use in wallet.uses
    ]
    await insert_rows(session, uses, WalletUse)
    connection = await session.connection()
    left = [
        {
            "of_tenant": wallet.tenant_id,
            "of_grant": grant.id,
            "left": grant.left_nano,
            "lapsed": grant.lapsed_nano,
        }
        for _, wallet in spent
        for grant in wallet.touched
    ]
    if left:
        await connection.execute(_SET_LEFT, left)
    costs = [
        {"of_tenant": wallet.tenant_id, "cost": wallet.cost_nano} for _, wallet in spent if wallet.cost_nano
    ]
    if costs:
        await connection.execute(_ADD_COST, costs)
    await add_owed(
        session, {(wallet.tenant_id, id): owed for _, wallet in spent for id, owed in wallet.owed.items()}
    )


async def add_owed(session: AsyncSession, owed: Mapping[tuple[str, str], int]) -> None:
    """Add to what requests owe, by tenant and request. A request that owes nothing any more loses its row."""
    if not owed:
        return
    connection = await session.connection()
    table: Any = getattr(WalletOwed, "__table__")  # noqa: B009  (SQLModel does not type it)
    statement = insert_of(connection.dialect.name, table)
    added = {"owed_nano": table.c.owed_nano + statement.excluded.owed_nano}
    rows = [
        {"tenant_id": tenant, "request_id": request, "owed_nano": nano}
        for (tenant, request), nano in sorted(owed.items())
    ]
    keys = ["tenant_id", "request_id"]
    await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=added), rows)
    less = [
        {"of_tenant": tenant, "of_request": request}
        for (tenant, request), nano in sorted(owed.items())
        if nano < 0
    ]
    if less:
        await connection.execute(_NO_LONGER_OWED, less)


_NO_LONGER_OWED = delete(WalletOwed).where(
    col(WalletOwed.tenant_id) == bindparam("of_tenant"),
    col(WalletOwed.request_id) == bindparam("of_request"),
    col(WalletOwed.owed_nano) == 0,
)
_SET_LEFT = (
    update(WalletGrant)
    .where(col(WalletGrant.tenant_id) == bindparam("of_tenant"), col(WalletGrant.id) == bindparam("of_grant"))
    .values(left_nano=bindparam("left"), lapsed_nano=bindparam("lapsed"))
)
_ADD_COST = (
    update(Wallet)
    .where(col(Wallet.tenant_id) == bindparam("of_tenant"))
    .values(posted_nano=col(Wallet.posted_nano) + bindparam("cost"))
)
