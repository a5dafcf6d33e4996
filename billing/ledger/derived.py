"""Checks what is stored beside a tenant's chain: rows outside the books, and rollups, key by key. Reads
only."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import literal_column
from sqlmodel import and_, case, col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.derived_prices import price_rollup_faults
from billing.ledger.transactions import MEASURES
from billing.periods import HOUR_MS
from billing.tables.ledger import LedgerEntry, LedgerHead, LedgerTxn, RollupHour, RollupPrice, UsageLine
from billing.tables.prices import Charge
from billing.tables.tenants import UsageRow
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

HOURS_AT_ONCE = 24
WHO = ("project_id", "cost_center_id", "user_id", "key_id", "model", "pool")
SUMS = ("requests", "errors", *MEASURES.values(), "amount_nano")

Key = tuple[Any, ...]  # hour and WHO
Rollups = Mapping[Key, Sequence[int]]  # in the order of SUMS


async def rows_beyond_head(db: Database, tenant_id: str, most: int) -> list[str]:
    """Find rows with numbers outside the books, which no writer leaves. Reads one snapshot."""
    faults: list[str] = []
    async with db.snapshot() as session:
        head = await session.get(LedgerHead, tenant_id) or LedgerHead(tenant_id=tenant_id)
        for name, table, seq, last in (
            ("transaction", LedgerTxn, col(LedgerTxn.seq), head.txn_seq),
            ("an entry of transaction", LedgerEntry, col(LedgerEntry.txn_seq), head.txn_seq),
            ("line", UsageLine, col(UsageLine.seq), head.line_seq),
        ):
            outside = select(seq).where(col(table.tenant_id) == tenant_id, or_(seq > last, seq < 1))
            found = (await session.exec(outside.order_by(seq).limit(most))).all()
            faults += [f"{name} {each}: nobody booked it, the books end at {last}" for each in found]
    return faults[:most]


async def forged_events(db: Database, tenant_id: str, most: int) -> list[str]:
    """Find requests without a line."""
    booked = and_(
        col(UsageLine.tenant_id) == col(UsageRow.tenant_id),
        col(UsageLine.request_id) == col(UsageRow.request_id),
        col(UsageLine.number) == 0,
    )
    forged = (
        select(UsageRow.request_id)
        .outerjoin(UsageLine, booked)
        .where(col(UsageRow.tenant_id) == tenant_id, col(UsageLine.seq).is_(None))
        .limit(most)
    )
    async with db.session() as session:
        found = (await session.exec(forged)).all()
    return [f"request {each}: it was never booked, or booked for another" for each in sorted(found)]


async def rollup_faults(db: Database, tenant_id: str, most: int) -> list[str]:
    """Find rollups that are not the sums of their lines, by hour, project, cost center, user, key, model and
    pool, and by price version. Reads some hours at a time, each in one snapshot."""
    faults = await _behind(db, tenant_id)
    hour = -1
    while len(faults) < most:
        async with db.snapshot() as session:
            first = await _first_behind(session, tenant_id, hour)
            if first is None:
                break
            hour = first + (HOURS_AT_ONCE - 1) * HOUR_MS
            lines = await _of_lines(session, tenant_id, first, hour)
            kept = await _kept(session, tenant_id, first, hour)
            priced = await price_rollup_faults(session, tenant_id, first, hour)
        faults += [*rollup_differences(kept, lines), *priced]
    return faults[:most]


async def _behind(db: Database, tenant_id: str) -> list[str]:
    """Report lines that, by the head's watermark, are in no rollup: reports lack them, so a lowered watermark
    hides lines."""
    async with db.session() as session:
        head = await session.get(LedgerHead, tenant_id)
    if head is None or head.rolled_seq == head.line_seq:
        return []
    told = f"rollups go up to line {head.rolled_seq}, the books up to {head.line_seq}"
    return [f"{told}: make them again (`parley usage rebuild`)"]


def rollup_differences(kept: Rollups, lines: Rollups) -> list[str]:
    """Differences between rollups and the sums of their lines. Pure. A changed fact in a rollup's key leaves
    one rollup too many and one missing; the two are reported as one fault."""
    faults: list[str] = []
    extra = {key: kept[key] for key in sorted(kept.keys() - lines.keys()) if any(kept[key])}
    for key in sorted(lines.keys() - kept.keys()):
        if not any(lines[key]):
            continue
        moved = next((other for other, sums in extra.items() if _moved(key, other, sums, lines[key])), None)
        if moved is None:
            faults.append(f"{_named(key)}: its rollup is missing")
            continue
        del extra[moved]
        named = [f"{name} is {now!r}, not {then!r}" for name, now, then in _apart(moved, key)]
        faults.append(f"{_named(key)}: in its rollup {', '.join(named)}")
    faults += [f"{_named(key)}: there is a rollup and no lines" for key in extra]
    for key in sorted(kept.keys() & lines.keys()):
        told = [
            f"{name} {now}, not {then}"
            for name, now, then in zip(SUMS, kept[key], lines[key], strict=True)
            if now != then
        ]
        if told:
            faults.append(f"{_named(key)}: its rollup says {', '.join(told)}")
    return faults


def _moved(key: Key, other: Key, sums: Sequence[int], wanted: Sequence[int]) -> bool:
    return sums == wanted and len(_apart(key, other)) == 1


def _apart(one: Key, other: Key) -> list[tuple[str, Any, Any]]:
    names = ("hour_ms", *WHO)
    return [(name, a, b) for name, a, b in zip(names, one, other, strict=True) if a != b]


def _named(key: Key) -> str:
    who = " ".join(f"{name.removesuffix('_id')}={value}" for name, value in zip(WHO, key[1:], strict=True))
    return f"hour {key[0]} {who}"


async def _first_behind(session: AsyncSession, tenant_id: str, hour: int) -> int | None:
    """The next hour after this one that has rollups or lines."""
    of_lines = select(func.min(UsageLine.ended_ms)).where(
        col(UsageLine.tenant_id) == tenant_id, col(UsageLine.ended_ms) >= hour + HOUR_MS
    )
    found: list[int | None] = [(await session.exec(of_lines)).one()]
    for table in (RollupHour, RollupPrice):
        of_rollups = select(func.min(table.hour_ms)).where(
            col(table.tenant_id) == tenant_id, col(table.hour_ms) > hour
        )
        found.append((await session.exec(of_rollups)).one())
    known = [each for each in found if each is not None]
    return min(known) - min(known) % HOUR_MS if known else None


async def _of_lines(session: AsyncSession, tenant_id: str, first: int, last: int) -> Rollups:
    """Sum the lines of these hours as their rollups should."""
    rolled = select(LedgerHead.rolled_seq).where(col(LedgerHead.tenant_id) == tenant_id).scalar_subquery()
    hour = col(UsageLine.ended_ms) - col(UsageLine.ended_ms) % HOUR_MS
    who = [col(UsageLine.cost_center_id) if name == "cost_center_id" else _either(name) for name in WHO]
    zero = col(UsageLine.number) == 0
    sums = [
        func.sum(case((zero, 1), else_=0)),
        func.sum(case((and_(zero, col(UsageRow.reason) == "error"), 1), else_=0)),
        *(
            func.sum(case((col(UsageLine.meter) == meter, col(UsageLine.quantity)), else_=0))
            for meter in MEASURES
        ),
        func.sum(col(UsageLine.amount_nano)),
    ]
    columns: list[Any] = [
        each.label(f"by_{name}") for name, each in (("hour", hour), *zip(WHO, who, strict=True))
    ]
    inner = (
        select_columns(*columns, *sums)
        .select_from(UsageLine)
        .outerjoin(UsageRow, _same(UsageRow.tenant_id, UsageRow.request_id))
        .outerjoin(Charge, _same(Charge.tenant_id, Charge.id))
        .where(
            col(UsageLine.tenant_id) == tenant_id,
            col(UsageLine.seq) <= func.coalesce(rolled, 0),
            col(UsageLine.ended_ms).between(first, last + HOUR_MS - 1),
        )
        .group_by(*(literal_column(each.name) for each in columns))
    )
    rows = (await untyped(session).exec(inner)).all()
    size = 1 + len(WHO)
    return {tuple(row[:size]): tuple(int(value) for value in row[size:]) for row in rows}


def _either(name: str) -> Any:
    """A column of the request or the charge that a line belongs to."""
    return func.coalesce(col(getattr(UsageRow, name)), col(getattr(Charge, name)), "")


def _same(tenant: Any, id: Any) -> Any:
    return and_(col(tenant) == col(UsageLine.tenant_id), col(id) == col(UsageLine.request_id))


async def _kept(session: AsyncSession, tenant_id: str, first: int, last: int) -> Rollups:
    statement = select(RollupHour).where(
        col(RollupHour.tenant_id) == tenant_id, col(RollupHour.hour_ms).between(first, last)
    )
    key, sums = attrgetter("hour_ms", *WHO), attrgetter(*SUMS)
    return {key(row): sums(row) for row in (await session.exec(statement)).all()}
