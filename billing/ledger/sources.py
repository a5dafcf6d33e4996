"""Checks the sources of lines, requests and charges, against the proofs in the lines. Reads only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import and_, col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.proofs import changed_in_charge, changed_in_event, erased
from billing.ledger.transactions import MEASURES, LineKind
from billing.tables.audit import AuditLog
from billing.tables.ledger import UsageLine
from billing.tables.prices import Charge, PeriodClose
from billing.tables.tenants import UsageRow
from core.sql.selects import select_columns

ERASURES = ("user.erase", "tenant.erase")


@dataclass
class Sources:
    """The requests (rows of usage_event) and charges that some lines belong to, by the id in the lines.
    `erasures`: ids of erased users and tenants, read only where one of these requests was erased;
    `month_ends`: ends of closed months, where lines of late events count."""

    events: Mapping[str, Any] = field(default_factory=dict[str, Any])
    charges: Mapping[str, Charge] = field(default_factory=dict[str, Charge])
    erasures: frozenset[str] = frozenset()
    month_ends: frozenset[int] = frozenset()


async def sources_of(session: AsyncSession, tenant_id: str, first_line: int, last_line: int) -> Sources:
    """Load the sources of the lines with these numbers, first and last included."""
    connection = await session.connection()
    own = and_(
        col(UsageLine.tenant_id) == tenant_id,
        col(UsageLine.seq).between(first_line, last_line),
    )
    of_event = and_(
        col(UsageRow.tenant_id) == col(UsageLine.tenant_id),
        col(UsageRow.request_id) == col(UsageLine.request_id),
    )
    of_charge = and_(
        col(Charge.tenant_id) == col(UsageLine.tenant_id), col(Charge.id) == col(UsageLine.request_id)
    )
    table: Any = getattr(UsageRow, "__table__")  # noqa: B009  (SQLModel does not type it)
    first = col(UsageLine.number) == 0
    events = select_columns(*table.columns).select_from(UsageLine).join(UsageRow, of_event).where(own, first)
    charges = select(Charge).join(UsageLine, of_charge).where(own).distinct()
    found: dict[str, Any] = {row.request_id: row for row in await connection.execute(events)}
    lost = any(map(erased, found.values()))
    ends = select(PeriodClose.end_ms).where(col(PeriodClose.tenant_id) == tenant_id)
    return Sources(
        found,
        {row.id: row for row in (await session.exec(charges)).all()},
        await _erasures(session, tenant_id) if lost else frozenset(),
        frozenset((await session.exec(ends)).all()),
    )


async def _erasures(session: AsyncSession, tenant_id: str) -> frozenset[str]:
    done = select(AuditLog.target).where(
        col(AuditLog.tenant_id) == tenant_id, col(AuditLog.action).in_(ERASURES)
    )
    return frozenset((await session.exec(done)).all())


def source_faults(lines: Sequence[UsageLine], sources: Sources) -> list[str]:
    """Faults of the requests and charges of a transaction's lines, which must be what was booked."""
    faults: list[str] = []
    used: dict[str, list[UsageLine]] = {}
    for line in lines:
        if line.kind == LineKind.USAGE.value:
            used.setdefault(line.request_id, []).append(line)
    for line in lines:
        if line.kind == LineKind.USAGE.value and line.number == 0:
            faults += _event_faults(line, used[line.request_id], sources)
        elif line.kind == LineKind.TRUE_UP.value:
            faults += _charge_faults(line, sources)
    return faults


def _event_faults(line: UsageLine, used: Sequence[UsageLine], sources: Sources) -> list[str]:
    of, event = f"request {line.request_id}", sources.events.get(line.request_id)
    if event is None:
        return [f"{of}: its event was deleted, or is another's"]
    changed = changed_in_event(event, line.proof)
    against = _against_lines(event, used, sources.month_ends)
    faults = [f"{of}: {told}" for told in against]
    if unsaid := [name for name in changed if not any(told.startswith(f"{name} ") for told in against)]:
        faults.append(f"{of}: {', '.join(unsaid)}: not what was booked")
    if erased(event) and not {event.user_id, line.tenant_id} & sources.erasures:
        faults.append(f"{of}: its labels are gone, and nobody erased them")
    return faults


def _against_lines(event: Any, used: Sequence[UsageLine], month_ends: Collection[int]) -> list[str]:
    """Facts of a request that its usage lines contradict. Lines of a request that came after its month was
    closed count from the end of a closed month."""
    wanted: dict[str, Any] = dict.fromkeys(MEASURES.values(), 0)
    for line in used:
        if column := MEASURES.get(line.meter):
            wanted[column] += line.quantity
    wanted["cost_nano"] = sum(line.amount_nano for line in used)
    for name in ("price_book_id", "price_version"):
        wanted[name] = getattr(used[0], name)
    counts_ms = used[0].ended_ms
    if not (event.ended_ms < counts_ms and counts_ms in month_ends):
        wanted["ended_ms"] = counts_ms
    return [
        f"{name} is {getattr(event, name)!r}, its lines say {value!r}"
        for name, value in wanted.items()
        if getattr(event, name) != value
    ]


def _charge_faults(line: UsageLine, sources: Sources) -> list[str]:
    charge = sources.charges.get(line.request_id)
    if charge is None:
        return [f"charge {line.request_id}: it was deleted"]
    changed = changed_in_charge(charge, line.proof)
    return [f"charge {line.request_id}: {', '.join(changed)}: not what was booked"] if changed else []
