"""Writes tenants' books: everything of one batch inside the caller's transaction.

The row of a tenant's `ledger_head` is the lock. Locks are taken in the order of tenant ids, so that writers
cannot deadlock.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import update
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.budgets.thresholds import alert_on
from billing.ledger.declared_tags import tag_spans
from billing.ledger.grant_rows import load_wallets, save_wallets
from billing.ledger.rows import PriceRollupRow, RollupRow, TagRollupRow, UsageEventRow
from billing.ledger.tag_rollups import tag_rollups
from billing.ledger.transactions import (
    AnyLine,
    AnyRequest,
    CostCenterOf,
    Posting,
    PricedUsage,
    post_usage,
    price_rollups,
    rollups,
)
from billing.prices.rating import PricedQuantity
from billing.tables.ledger import (
    LedgerEntry,
    LedgerHead,
    LedgerTxn,
    ProjectCostCenter,
    RollupHour,
    RollupPrice,
    RollupTag,
    UsageLine,
)
from core.sql.database import insert_ignore, insert_of, insert_rows


class BookedBatch(NamedTuple):
    """`line_seqs`: the seq of each request's last line, by tenant and request. `revived`: tenants whose ended
    grants paid, so that their other money allows more than was thought."""

    line_seqs: dict[tuple[str, str], int]
    revived: set[str]


async def book_usage(
    session: AsyncSession, requests: Sequence[tuple[UsageEventRow, Sequence[PricedQuantity]]], now_ms: int
) -> BookedBatch:
    """Write lines, ledger and rollups of requests whose rows this transaction has just inserted."""
    by_tenant: dict[str, list[PricedUsage]] = {}
    for row, lines in requests:
        by_tenant.setdefault(row.tenant_id, []).append(PricedUsage(row, lines))
    heads = await lock_heads(session, by_tenant)
    centers = await cost_centers_of(session, by_tenant)
    since_ms = min(row.accepted_ms for row, _ in requests)
    wallets = await load_wallets(session, by_tenant, now_ms, since_ms)
    postings = [
        post_usage(heads[tenant], by_tenant[tenant], centers, now_ms, wallets.get(tenant))
        for tenant in sorted(by_tenant)
    ]
    await write(session, postings, [row for row, _ in requests])
    seqs = {(line.tenant_id, line.request_id): line.seq for posting in postings for line in posting.lines}
    return BookedBatch(seqs, {tenant for tenant, wallet in wallets.items() if wallet.revived})


async def lock_heads(session: AsyncSession, tenants: Iterable[str]) -> dict[str, LedgerHead]:
    """Lock the ends of these tenants' books until the transaction ends, and return them."""
    ordered = sorted(tenants)
    if not ordered:
        return {}
    await insert_ignore(session, [LedgerHead(tenant_id=tenant) for tenant in ordered])
    statement = (
        select(LedgerHead)
        .where(col(LedgerHead.tenant_id).in_(ordered))
        .order_by(col(LedgerHead.tenant_id))
        .with_for_update()
    )
    found = (await session.exec(statement)).all()
    for head in found:
        session.expunge(head)
    return {head.tenant_id: head for head in found}


async def write(session: AsyncSession, postings: Sequence[Posting], requests: Sequence[AnyRequest]) -> None:
    """Add the postings' rows (at least one posting) and what follows from them: wallets, budgets and their
    alerts. Rollups that are up to date get the lines too; others get them from their rebuild."""
    await insert_rows(session, [line for posting in postings for line in posting.lines], UsageLine)
    await insert_rows(session, [txn for posting in postings for txn in posting.txns], LedgerTxn)
    await insert_rows(session, [entry for posting in postings for entry in posting.entries], LedgerEntry)
    by_tenant: dict[str, list[AnyRequest]] = {}
    for row in requests:
        by_tenant.setdefault(row.tenant_id, []).append(row)
    current = [
        (by_tenant.get(posting.head.tenant_id, []), posting.lines)
        for posting in postings
        if posting.head.rolled_seq == posting.head.line_seq
    ]
    await add_rollups(session, current)
    for posting in postings:
        await advance_head(session, posting.head)
    await save_wallets(session, [(each.txns[-1].seq, each.wallet) for each in postings if each.wallet])
    await alert_on(session, postings, requests)


async def add_rollups(
    session: AsyncSession, posted: Sequence[tuple[Sequence[AnyRequest], Sequence[AnyLine]]]
) -> None:
    """Add lines (of tenants of their own, with their requests) to the rollups of all kinds."""
    await _add_sums(session, [delta for each in posted for delta in rollups(*each)], RollupHour)
    await _add_sums(session, [delta for each in posted for delta in price_rollups(*each)], RollupPrice)
    tenants = {row.tenant_id for rows, _ in posted for row in rows}
    spans = await tag_spans(session, tenants) if tenants else {}
    tagged = [each for each in posted if each[0] and each[0][0].tenant_id in spans]
    deltas = [delta for each in tagged for delta in tag_rollups(*each, spans[each[0][0].tenant_id])]
    await _add_sums(session, deltas, RollupTag)


async def _add_sums(
    session: AsyncSession,
    deltas: Sequence[RollupRow | PriceRollupRow | TagRollupRow],
    of: type[RollupHour | RollupPrice | RollupTag],
) -> None:
    """Add sums to existing rollups, or make them."""
    if not deltas:
        return
    connection = await session.connection()
    table: Any = getattr(of, "__table__")  # noqa: B009  (SQLModel does not type it)
    keys = [column.name for column in table.primary_key.columns]
    statement = insert_of(connection.dialect.name, table)
    sums = [column.name for column in table.columns if column.name not in keys]
    statement = statement.on_conflict_do_update(
        index_elements=keys, set_={name: table.c[name] + statement.excluded[name] for name in sums}
    )
    ordered = sorted(deltas, key=attrgetter(*keys))
    await connection.execute(statement, [msgspec.structs.asdict(delta) for delta in ordered])


async def advance_head(session: AsyncSession, head: LedgerHead) -> None:
    """Store the new end of a tenant's books. The caller holds its lock."""
    statement = (
        update(LedgerHead)
        .where(col(LedgerHead.tenant_id) == head.tenant_id)
        .values(**head.model_dump(exclude={"tenant_id"}))
    )
    await (await session.connection()).execute(statement)


async def cost_centers_of(session: AsyncSession, tenants: Mapping[str, object]) -> CostCenterOf:
    """Return a look-up of the cost center of a project at a time, for these tenants' projects."""
    statement = select(ProjectCostCenter).where(col(ProjectCostCenter.tenant_id).in_(sorted(tenants)))
    moves: dict[str, list[tuple[int, str]]] = {}
    for row in (await session.exec(statement)).all():
        moves.setdefault(row.project_id, []).append((row.valid_from_ms, row.cost_center_id or ""))
    for each in moves.values():
        each.sort()
    return lambda project, at_ms: center_at(moves.get(project, []), at_ms)


def center_at(moves: Sequence[tuple[int, str]], at_ms: int) -> str:
    """The cost center that holds at a time, from (from, cost center) in order of time; empty before the
    first and where nobody pays."""
    found = bisect_right(moves, at_ms, key=lambda move: move[0])
    return moves[found - 1][1] if found else ""
