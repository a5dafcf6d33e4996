"""Searches the audit log, newest rows first, page by page. For operators, and for one tenant."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from sqlalchemy import and_, or_
from sqlmodel import col, select

from billing.tables.audit import AuditLog
from core.sql.database import Database
from core.sql.selects import untyped

AT_MS_MAX = (1 << 63) - 1


class AuditPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row that was read."""

    at_ms: Annotated[int, msgspec.Meta(ge=0, le=AT_MS_MAX)]
    tenant: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]
    seq: Annotated[int, msgspec.Meta(ge=0, le=AT_MS_MAX)]

    @classmethod
    def of(cls, row: AuditLog) -> "AuditPosition":
        """Where a row stands."""
        return cls(row.at_ms, row.tenant_id, row.seq)


class AuditSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a search; a row is of [since_ms, until_ms). `tenant`: whose chain, None: any;
    `authors`: as they are stored, none: any; `action`: whole, or its noun; `target`: an id."""

    tenant: str | None = None
    authors: tuple[str, ...] = ()
    action: str | None = None
    target: str | None = None
    since_ms: int = 0
    until_ms: int | None = None
    after: AuditPosition | None = None
    limit: int = 100


async def audit_page(db: Database, sought: AuditSearch) -> tuple[Sequence[AuditLog], AuditPosition | None]:
    """One page, and where the next begins: None where there is none."""
    at, tenant, seq = col(AuditLog.at_ms), col(AuditLog.tenant_id), col(AuditLog.seq)
    statement: Any = select(AuditLog).where(*_fits(sought))
    if (last := sought.after) is not None:
        in_chain = and_(tenant == last.tenant, seq < last.seq)
        behind = or_(at < last.at_ms, and_(at == last.at_ms, or_(tenant > last.tenant, in_chain)))
        statement = statement.where(at <= last.at_ms, behind)
    ordered = statement.order_by(at.desc(), tenant, seq.desc()).limit(sought.limit + 1)
    async with db.session() as session:
        rows: Sequence[AuditLog] = (await untyped(session).exec(ordered)).all()
    page = rows[: sought.limit]
    return page, AuditPosition.of(page[-1]) if len(rows) > sought.limit else None


def _fits(sought: AuditSearch) -> list[Any]:
    at, action = col(AuditLog.at_ms), col(AuditLog.action)
    fits: list[Any] = [at >= sought.since_ms]
    if sought.until_ms is not None:
        fits.append(at < sought.until_ms)
    if sought.tenant is not None:
        fits.append(col(AuditLog.tenant_id) == sought.tenant)
    if sought.authors:
        fits.append(col(AuditLog.author).in_(sought.authors))
    if sought.action is not None:
        whole = "." in sought.action
        fits.append(
            action == sought.action if whole else action.startswith(f"{sought.action}.", autoescape=True)
        )
    if sought.target is not None:
        fits.append(col(AuditLog.target) == sought.target)
    return fits
