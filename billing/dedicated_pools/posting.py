"""Books the hours of dedicated pools: for each tenant and hour f(ready time, commitments) - posted. So it may
run again at any time, by any number of billers, and late heartbeats add their difference.

An hour is booked when it has been over for SETTLE_MS, at the prices in force when it began, and keeps these
prices. An hour with an unpriced GPU waits until there is a price: nothing is ever billed for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.write import cost_centers_of, lock_heads, write
from billing.dedicated_pools.commitment_rates import (
    HourCharge,
    HourLine,
    UnpricedError,
    charge_hour,
    covers_hour,
)
from billing.dedicated_pools.hours import GpuHour, hours_of
from billing.dedicated_pools.owners import owners_of
from billing.dedicated_pools.store import interval_of
from billing.ledger.proofs import charge_proof
from billing.ledger.rows import LineRow
from billing.ledger.transactions import CostCenterOf, LineKind, TxnKind, entries_of, post
from billing.periods import HOUR_MS
from billing.prices.book import gpu_price
from billing.prices.rating import Meter
from billing.tables.dedicated_pools import Commitment, PoolInterval
from billing.tables.ledger import LedgerHead, UsageLine
from billing.tables.prices import Charge, GpuPrice
from core.observability.telemetry import logger
from core.sql.database import Database, insert_ignore
from core.sql.selects import select_columns, untyped

log = logger(__name__)

SETTLE_MS = 120_000
DEFERRED = "deferred"
MODEL_PREFIX = "GPU "  # prefix of the type of GPU, in the place of a model

LineKey = tuple[str, str, int, int]  # meter, book, version, price
Posted = Mapping[str, Mapping[LineKey, tuple[int, int]]]  # charge -> line -> quantity, amount


@dataclass(frozen=True)
class _Due:
    """An hour of one tenant that is to be booked."""

    head: LedgerHead
    hour_ms: int
    posted: Posted
    cost_center_of: CostCenterOf
    now_ms: int


async def post_hours(db: Database, now: int) -> int:
    """Book all hours that are over and not fully booked; return their number."""
    hours = await hours_due(db, now)
    for hour in hours:
        await post_hour(db, hour, now)
    return len(hours)


async def hours_due(db: Database, now: int) -> list[int]:
    """Hours with uncounted ready time, or with a commitment that is not booked."""
    before = now - SETTLE_MS - HOUR_MS
    async with db.session() as session:
        of_intervals = select(PoolInterval.hour_ms).where(
            col(PoolInterval.counted).is_(False), col(PoolInterval.hour_ms) <= before
        )
        hours = set((await session.exec(of_intervals.distinct())).all())
        for each in (await session.exec(select(Commitment))).all():
            start = await _booked_until(session, each)
            hours |= set(range(start, min(each.until_ms, before + 1), HOUR_MS))
    return sorted(hours)


async def _booked_until(session: AsyncSession, commitment: Commitment) -> int:
    own = select(func.max(Charge.end_ms)).where(
        col(Charge.tenant_id) == commitment.tenant_id,
        col(Charge.kind) == "commitment",
        col(Charge.source) == commitment.id,
    )
    return (await session.exec(own)).one() or commitment.start_ms


async def post_hour(db: Database, hour: int, now: int) -> None:
    """Book one hour of all tenants, in one transaction."""
    async with db.transaction() as session:
        uses, _ = await _uses(session, hour)
        agreed = select(Commitment).where(col(Commitment.start_ms) <= hour, col(Commitment.end_ms) > hour)
        commitments = [each for each in (await session.exec(agreed)).all() if covers_hour(each, hour)]
        tenants = {use.tenant_id for use in uses if use.tenant_id} | {each.tenant_id for each in commitments}
        heads = await lock_heads(session, tenants | await _charged_before(session, hour))
        uses, intervals = await _uses(session, hour)  # again, under the locks
        if any(use.tenant_id and use.tenant_id not in heads for use in uses):
            return  # came meanwhile: the hour stays due
        centers = await cost_centers_of(session, heads)
        priced = True
        for tenant in sorted(heads):
            own = [each for each in commitments if each.tenant_id == tenant]
            posted, known = await _posted(session, tenant, hour)
            used = [use for use in uses if use.tenant_id == tenant]
            types = {use.gpu_type for use in used}
            prices = {
                each: known.get(each) or await _price(session, tenant, each, hour, now) for each in types
            }
            try:
                charges = charge_hour(used, own, hour, prices.get)
            except UnpricedError as error:
                priced = False
                log.error("pool_meter.gpu_unpriced", tenant=tenant, gpu_type=str(error), hour_ms=hour)
                continue
            await _book(session, _Due(heads[tenant], hour, posted, centers, now), charges)
        if priced:
            await _count(session, intervals)


async def _uses(session: AsyncSession, hour: int) -> tuple[list[GpuHour], Sequence[PoolInterval]]:
    """GPU time of an hour by the stored intervals, and these rows."""
    statement = select(PoolInterval).where(col(PoolInterval.hour_ms) == hour)
    rows = (await session.exec(statement.execution_options(populate_existing=True))).all()
    return hours_of([interval_of(row) for row in rows], await owners_of(session)), rows


async def _price(
    session: AsyncSession, tenant_id: str, gpu_type: str, hour: int, now: int
) -> GpuPrice | None:
    """The price in force when the hour began, else when it ended, else now."""
    for at in (hour, hour + HOUR_MS - 1, now):
        price = await gpu_price(session, tenant_id, gpu_type, at)
        if price is not None:
            return price
    return None


async def _charged_before(session: AsyncSession, hour: int) -> set[str]:
    statement = select(Charge.tenant_id).where(col(Charge.kind) == "pool", col(Charge.start_ms) == hour)
    return set((await session.exec(statement.distinct())).all())


async def _posted(session: AsyncSession, tenant_id: str, hour: int) -> tuple[Posted, dict[str, GpuPrice]]:
    """Sums of the hour's lines so far, and the book prices in them, by type of GPU."""
    key = (UsageLine.meter, UsageLine.price_book_id, UsageLine.price_version, UsageLine.price_nano)
    sums = (func.sum(UsageLine.quantity), func.sum(UsageLine.amount_nano))
    same = (col(Charge.tenant_id) == col(UsageLine.tenant_id)) & (col(Charge.id) == col(UsageLine.request_id))
    statement = (
        select_columns(UsageLine.request_id, Charge.model, *key, *sums)
        .join(Charge, same)
        .where(col(UsageLine.tenant_id) == tenant_id, col(Charge.start_ms) == hour)
        .where(col(Charge.kind).in_(("pool", "commitment")))
        .group_by(col(UsageLine.request_id), col(Charge.model), *key)
    )
    found: dict[str, dict[LineKey, tuple[int, int]]] = {}
    prices: dict[str, GpuPrice] = {}
    for id, model, meter, book, version, price, quantity, amount in (
        await untyped(session).exec(statement)
    ).all():
        found.setdefault(id, {})[meter, book, version, price] = (int(quantity), int(amount))
        if book:
            gpu_type = model.removeprefix(MODEL_PREFIX)
            prices[gpu_type] = GpuPrice(book_id=book, version=version, gpu_type=gpu_type, second_nano=price)
    return found, prices


async def _book(session: AsyncSession, due: _Due, charges: Sequence[HourCharge]) -> None:
    """Add lines for the differences between charges and posted lines."""
    rows = {_id(each, due.hour_ms): _charge(each, due) for each in charges}
    new = {key[1] for key in await insert_ignore(session, list(rows.values()))}
    for id in (due.posted.keys() | rows.keys()) - new:
        rows[id] = await session.get_one(Charge, (due.head.tenant_id, id))
        session.expunge(rows[id])
    numbers = await _numbers(session, due.head.tenant_id, rows)
    wanted = {_id(each, due.hour_ms): each for each in charges}
    lines: list[LineRow] = []
    charged: dict[tuple[str, str, str], int] = {}
    paid: dict[tuple[str, str, str], int] = {}
    for id, row in sorted(rows.items()):
        ended = due.hour_ms + HOUR_MS - 1
        center = due.cost_center_of(row.project_id, ended)
        each = wanted.get(id)
        for line in differences(each.lines if each else (), due.posted.get(id, {})):
            numbers[id] = numbers.get(id, 0) + 1
            lines.append(_line(due, row, line, numbers[id], center, due.head.line_seq + len(lines) + 1))
            key = (line.meter.value, row.project_id, center)
            charged[key] = charged.get(key, 0) + line.amount_nano
            if each is not None and each.deferred:
                paid[DEFERRED, row.project_id, center] = (
                    paid.get((DEFERRED, row.project_id, center), 0) + line.amount_nano
                )
    if lines:
        name = f"pools:{due.hour_ms}:{due.head.txn_seq + 1}"
        posting = post(due.head, TxnKind.POOL, name, lines, entries_of(charged, paid), due.now_ms)
        await write(session, [posting], list(rows.values()))


def differences(wanted: Iterable[HourLine], posted: Mapping[LineKey, tuple[int, int]]) -> list[HourLine]:
    """Lines that bring the posted ones to the wanted ones. Pure."""
    by_key: dict[LineKey, tuple[int, int]] = {}
    for line in wanted:
        key = (line.meter.value, line.book, line.version, line.price_nano)
        quantity, amount = by_key.get(key, (0, 0))
        by_key[key] = (quantity + line.quantity, amount + line.amount_nano)
    found: list[HourLine] = []
    for key in sorted(by_key.keys() | posted.keys()):
        meter, book, version, price = key
        quantity, amount = by_key.get(key, (0, 0))
        before = posted.get(key, (0, 0))
        if (quantity, amount) != before:
            line = HourLine(Meter(meter), quantity - before[0], price, amount - before[1], book, version)
            found.append(line)
    return found


def _id(charge: HourCharge, hour: int) -> str:
    return f"{charge.kind}:{hour}:{charge.source}:{charge.project_id}"


def _charge(each: HourCharge, due: _Due) -> Charge:
    return Charge(
        tenant_id=due.head.tenant_id,
        id=_id(each, due.hour_ms),
        kind=each.kind,
        source=each.source,
        project_id=each.project_id,
        model=MODEL_PREFIX + each.gpu_type,
        pool=each.pool,
        start_ms=due.hour_ms,
        end_ms=due.hour_ms + HOUR_MS,
        created_ms=due.now_ms,
    )


def _line(due: _Due, row: Charge, line: HourLine, number: int, center: str, seq: int) -> LineRow:
    return LineRow(
        tenant_id=row.tenant_id,
        seq=seq,
        request_id=row.id,
        number=number,
        kind=LineKind.TRUE_UP.value,
        meter=line.meter.value,
        quantity=line.quantity,
        price_nano=line.price_nano,
        amount_nano=line.amount_nano,
        price_book_id=line.book,
        price_version=line.version,
        cost_center_id=center,
        adjusts_seq=None,
        ended_ms=due.head.counts_at(due.hour_ms + HOUR_MS - 1),
        posted_ms=due.now_ms,
        proof=charge_proof(row),
    )


async def _numbers(session: AsyncSession, tenant_id: str, ids: Iterable[str]) -> dict[str, int]:
    """Number of each charge's last line."""
    statement = (
        select(UsageLine.request_id, func.max(UsageLine.number))
        .where(col(UsageLine.tenant_id) == tenant_id, col(UsageLine.request_id).in_(list(ids)))
        .group_by(col(UsageLine.request_id))
    )
    return {id: int(number) for id, number in (await session.exec(statement)).all()}


async def _count(session: AsyncSession, intervals: Sequence[PoolInterval]) -> None:
    """Mark the intervals as booked, unless they grew meanwhile."""
    connection = await session.connection()
    for row in intervals:
        if not row.counted:
            statement = (
                update(PoolInterval)
                .where(col(PoolInterval.pool) == row.pool, col(PoolInterval.worker) == row.worker)
                .where(col(PoolInterval.from_ms) == row.from_ms, col(PoolInterval.to_ms) == row.to_ms)
            )
            await connection.execute(statement.values(counted=True))
