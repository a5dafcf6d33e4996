"""Versions of things: the number of a thing's last change in its audit chain, which no column needs to keep.

Who edits names the version that they saw. Where others changed the thing since, they are told of it.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.states import row_name
from billing.tables.audit import AuditLog, AuditState
from core.errors import ChangeSince, Refusal, Refused
from core.sql.database import TableBase

CONFLICT = "conflict"
CHANGES_MAX = 20


async def version_of(
    session: AsyncSession, chain: str, table: type[TableBase], key: Sequence[str]
) -> int | None:
    """Number of the thing's last change in its chain; None: it was never recorded."""
    statement = select(func.max(AuditState.seq)).where(
        col(AuditState.tenant_id) == chain, col(AuditState.thing) == _thing(table, key)
    )
    return (await session.exec(statement)).one()


async def check_version(
    session: AsyncSession, chain: str, table: type[TableBase], key: Sequence[str], expected: int | None
) -> None:
    """Raise Refused (conflict), with the last changes since, where the thing has another version. The
    caller holds the lock of its settings."""
    if expected is None or (now := await version_of(session, chain, table, key)) == expected:
        return
    rows = (
        select(AuditLog)
        .join(
            AuditState,
            (col(AuditState.tenant_id) == col(AuditLog.tenant_id))
            & (col(AuditState.seq) == col(AuditLog.seq)),
        )
        .where(
            col(AuditLog.tenant_id) == chain,
            col(AuditState.thing) == _thing(table, key),
            col(AuditLog.seq) > expected,
        )
        .order_by(col(AuditLog.seq).desc())
        .limit(CHANGES_MAX)
    )
    changes = tuple(_change(row) for row in (await session.exec(rows)).all())
    who = f", last by {changes[0].author}" if changes else ""
    raise Refused(
        Refusal(
            CONFLICT,
            f"it was changed since you read it{who} (version {now}, yours is {expected}): read it again",
            field="version",
            changes=changes,
        )
    )


def _change(row: AuditLog) -> ChangeSince:
    return ChangeSince(row.author, row.at_ms, row.action, _facts(row.before), _facts(row.after))


def _facts(text: str) -> dict[str, Any]:
    return cast("dict[str, Any] | None", msgspec.json.decode(text)) or {}


def _thing(table: type[TableBase], key: Sequence[str]) -> str:
    return row_name(str(cast(Any, table).__tablename__), key)
