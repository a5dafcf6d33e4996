"""What tenants committed to for each month: an amount to spend, or units of a meter."""

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import Window
from billing.prices.price_tables import PeriodClose, PeriodCommitment
from billing.prices.price_tiers import PRICE_NANO_MAX, TIERED
from billing.prices.rating import Meter
from billing.prices.tiers import QUANTITY_MAX
from billing.prices.true_up import Committed
from billing.tenants.audit_log import record
from core.clock import now_ms
from core.database import Database
from core.errors import bad_request
from core.ids import uuid7

OPEN_MAX = 100


async def commitments_in(session: AsyncSession, tenant_id: str, period: Window) -> list[Committed]:
    """Those that hold in the middle of a period, and so in all of it: they begin and end with months."""
    middle = (period.start_ms + period.end_ms) // 2
    statement = select(PeriodCommitment).where(
        col(PeriodCommitment.tenant_id) == tenant_id,
        col(PeriodCommitment.start_ms) <= middle,
        col(PeriodCommitment.end_ms) > middle,
    )
    return [as_committed(row) for row in (await session.exec(statement)).all()]


def as_committed(row: PeriodCommitment) -> Committed:
    """The row as true-ups use it. Pure."""
    meter = Meter(row.meter) if row.meter else None
    return Committed(row.committed_nano, row.model, meter, row.units, row.overage_nano)


async def commit(db: Database, tenant_id: str, committed: Committed, months: Window) -> PeriodCommitment:
    """Add a commitment that holds in all months of `months`, which begins and ends with one.

    Raises Refused where it cannot be: amounts out of bounds, a closed month, one for the same already."""
    _check(committed)
    async with db.transaction() as session:
        await _check_time(session, tenant_id, committed, months)
        now = now_ms()
        row = PeriodCommitment(
            tenant_id=tenant_id,
            id=uuid7(now),
            model=committed.model,
            meter=committed.meter.value if committed.meter else "",
            units=committed.units,
            committed_nano=committed.committed_nano,
            overage_nano=committed.overage_nano,
            start_ms=months.start_ms,
            end_ms=months.end_ms,
            created_ms=now,
        )
        session.add(row)
        await session.flush()
        await record(session, tenant_id, "commitment.create", row.id, None, row)
    return row


def _check(committed: Committed) -> None:
    if not 0 < committed.committed_nano <= PRICE_NANO_MAX:
        raise bad_request("an amount to commit to is above zero and at most 9,000,000 USD")
    if committed.overage_nano is not None and not 0 <= committed.overage_nano <= PRICE_NANO_MAX:
        raise bad_request("an overage price is from zero to 9,000,000 USD")
    if committed.meter is None:
        if committed.model or committed.units or committed.overage_nano is not None:
            raise bad_request("a model, units and an overage price belong to a meter: name it")
        return
    if committed.meter not in TIERED:
        raise bad_request(f"units are of {', '.join(TIERED)} (output counts reasoning too)")
    if not committed.model or not 0 < committed.units < QUANTITY_MAX:
        raise bad_request("a commitment to units names a model (`*`: any) and how many, at least 1")


async def _check_time(session: AsyncSession, tenant_id: str, committed: Committed, months: Window) -> None:
    rows = await list_commitments_of(session, tenant_id)
    if len(rows) >= OPEN_MAX:
        raise bad_request(f"a tenant has at most {OPEN_MAX} commitments")
    closed = select(PeriodClose.end_ms).where(col(PeriodClose.tenant_id) == tenant_id)
    if any(end > months.start_ms for end in (await session.exec(closed)).all()):
        raise bad_request("the first month is closed: a commitment begins with an open one")
    meter = committed.meter.value if committed.meter else ""
    for row in rows:
        apart = row.end_ms <= months.start_ms or months.end_ms <= row.start_ms
        if (row.model, row.meter) == (committed.model, meter) and not apart:
            raise bad_request(f"the commitment {row.id} is for the same in a part of that time")


async def list_commitments_of(session: AsyncSession, tenant_id: str) -> Sequence[PeriodCommitment]:
    """A tenant's, the oldest first."""
    statement = select(PeriodCommitment).where(col(PeriodCommitment.tenant_id) == tenant_id)
    order = (col(PeriodCommitment.start_ms), col(PeriodCommitment.id))
    return (await session.exec(statement.order_by(*order))).all()
