"""Requests of a time that ended in an error, by how and with which code. For one tenant. Reads only.

They stand in an index of their own (`ix_usage_event_errors`), so what is read grows with the errors alone.
"""

from typing import Any, NamedTuple

from sqlmodel import col, func

from billing.periods import PeriodWindow
from billing.tables.tenants import ENDED_IN_ERROR, UsageRow
from core.sql.database import Database
from core.sql.selects import select_columns, untyped


class EndedError(NamedTuple):
    """Requests that ended in one way. `cost_nano`: what was billed of them when they ended, without later
    corrections."""

    reason: str
    code: str
    number: int
    cost_nano: int
    last_ms: int


async def errors_in(db: Database, tenant_id: str, window: PeriodWindow) -> list[EndedError]:
    """A tenant's errors of a window, most first."""
    async with db.session() as session:
        rows = (await untyped(session).exec(errors_of(tenant_id, window))).all()
    return [
        EndedError(reason, code, int(number), int(cost), int(last))
        for reason, code, number, cost, last in rows
    ]


def errors_of(tenant_id: str, window: PeriodWindow) -> Any:
    """The statement. Pure."""
    reason, code, ended = col(UsageRow.reason), col(UsageRow.code), col(UsageRow.ended_ms)
    number, cost = func.count(), func.sum(col(UsageRow.cost_nano))
    return (
        select_columns(reason, code, number, cost, func.max(ended))
        .where(col(UsageRow.tenant_id) == tenant_id, ended >= window.start_ms, ended < window.end_ms)
        .where(ENDED_IN_ERROR)
        .group_by(reason, code)
        .order_by(number.desc(), reason, code)
    )
