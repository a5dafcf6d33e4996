"""Operations on reports by mail: a link for members who may see money, each month after its close or each
week."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from billing.alerts.report_mail import readers_of
from billing.audit.log import record
from billing.closing.report_times import ReportEvery
from billing.operations.chargeback import FACT
from billing.operations.shared_fields import AUDIT, NameTenant
from billing.tables.report_schedules import ReportSchedule
from billing.tenants.edits import lock_settings
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import bad_request, see, unknown
from core.ids import uuid7
from core.operations import OPERATORS, PAYERS, STAFF, ListedPage, Uses, operation

SCHEDULES_MAX = 20
READ = "person membership"


class ScheduleReport(NameTenant, frozen=True, kw_only=True):
    """Which report, how often, and to whom."""

    every: Annotated[
        ReportEvery, Meta(description="On the morning after a month's close, or on Monday morning.")
    ] = ReportEvery.MONTH
    rows: Annotated[str, Meta(pattern=FACT, description="What a row sums up.")] = "cost_center"
    columns: Annotated[str, Meta(pattern=FACT, description="What a column sums up.")] = "model"
    only: Annotated[str, Meta(max_length=200, description="Only usage with a tag, as of a report.")] = ""
    to: Annotated[
        list[str],
        Meta(max_length=50, description="Addresses of members who may see money; none: of all of them."),
    ] = []


class NameSchedule(NameTenant, frozen=True, kw_only=True):
    """Which one."""

    schedule: Annotated[str, Meta(description="Its id.")]


class ScheduleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A report by mail. `people`: how many are told now; `last`: when they were told last, of
    `last_period`."""

    schedule: str
    every: ReportEvery
    rows: str
    columns: str
    only: str
    people: int
    last: str | None
    last_period: str
    created: str | None

    @classmethod
    def of(cls, row: ReportSchedule, readers: dict[str, str]) -> "ScheduleFacts":
        """The facts of a row. `readers`: who may see money now."""
        return cls(
            schedule=row.id,
            every=ReportEvery(row.every),
            rows=row.rows,
            columns=row.columns,
            only=row.only,
            people=sum(person in readers for person in row.people) if row.people else len(readers),
            last=iso_time(row.last_ms),
            last_period=row.last_period,
            created=iso_time(row.created_ms),
        )


@operation(
    "chargeback.schedules",
    "GET /tenants/{tenant}/chargeback/schedules",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"tenant report_schedule {READ}"),
)
async def list_schedules(look: Look, ask: NameTenant) -> ListedPage[ScheduleFacts]:
    """List the reports that are sent by mail."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    async with look.db.session() as session:
        readers = await readers_of(session, owner)
        statement = _open(owner).order_by(col(ReportSchedule.id))
        rows = (await session.exec(statement)).all()
    return ListedPage([ScheduleFacts.of(row, readers) for row in rows], None)


@operation(
    "chargeback.schedule",
    "POST /tenants/{tenant}/chargeback/schedules",
    may=OPERATORS | PAYERS,
    audit="report_schedule.create",
    uses=Uses(reads=READ, writes=f"tenant report_schedule {AUDIT}"),
)
async def schedule_report(change: Change, ask: ScheduleReport) -> ScheduleFacts:
    """Send a report by mail: a link behind sign-in, no numbers, to members who may see money.

    They are asked anew each time: who may not see money any more is told nothing."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    if ask.rows == ask.columns:
        raise bad_request("rows and columns are the same: choose two", field="columns")
    async with change.db.transaction() as session:
        await lock_settings(session, owner)
        readers = await readers_of(session, owner)
        number = select(func.count()).select_from(_open(owner).subquery())
        if (await session.exec(number)).one() >= SCHEDULES_MAX:
            raise bad_request(f"there are {SCHEDULES_MAX} already: delete one first")
        now = change.now_ms()
        row = ReportSchedule(
            tenant_id=owner,
            id=uuid7(now),
            rows=ask.rows,
            columns=ask.columns,
            only=ask.only,
            every=ask.every.value,
            people=_people(ask.to, readers),
            created_ms=now,
            last_period="",
        )
        session.add(row)
        says = {"every": row.every, "rows": row.rows, "columns": row.columns, "people": len(row.people)}
        await record(session, owner, "report_schedule.create", row.id, None, says)
    return ScheduleFacts.of(row, readers)


@operation(
    "chargeback.unschedule",
    "DELETE /tenants/{tenant}/chargeback/schedules/{schedule}",
    may=OPERATORS | PAYERS,
    audit="report_schedule.delete",
    uses=Uses(reads=READ, writes=f"tenant report_schedule {AUDIT}"),
)
async def unschedule_report(change: Change, ask: NameSchedule) -> ScheduleFacts:
    """Send a report by mail no more."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    async with change.db.transaction() as session:
        await lock_settings(session, owner)
        row = (await session.exec(_open(owner).where(col(ReportSchedule.id) == ask.schedule))).first()
        if row is None:
            told = f"there is no schedule {ask.schedule!r}"
            raise unknown(told, field="schedule", see=see("chargeback.schedules", tenant=owner))
        row.ended_ms = change.now_ms()
        session.add(row)
        says = {"ended_ms": row.ended_ms}
        await record(session, owner, "report_schedule.delete", row.id, {"ended_ms": None}, says)
        readers = await readers_of(session, owner)
    return ScheduleFacts.of(row, readers)


def _open(tenant_id: str) -> SelectOfScalar[ReportSchedule]:
    return select(ReportSchedule).where(
        col(ReportSchedule.tenant_id) == tenant_id, col(ReportSchedule.ended_ms).is_(None)
    )


def _people(to: list[str], readers: dict[str, str]) -> list[str]:
    """Ids of those with these addresses. Raises Refused for an address of nobody who may see money."""
    by_address = {address: person for person, address in readers.items()}
    for each in to:
        if each.casefold() not in by_address:
            raise bad_request(f"{each} is the address of no member who may see money", field="to")
    return sorted({by_address[each.casefold()] for each in to})


OPERATIONS = (list_schedules, schedule_report, unschedule_report)
