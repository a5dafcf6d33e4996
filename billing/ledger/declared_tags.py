"""Reads which keys of requests' metadata tenants declared as tags, and from when to when."""

from collections.abc import Iterable

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.ledger.tag_rollups import TagSpan
from billing.periods import LAST_MS
from billing.tables.ledger import TagKey


async def tag_spans(session: AsyncSession, tenants: Iterable[str]) -> dict[str, list[TagSpan]]:
    """The spans of each tenant that ever declared a key, in the order of keys and times."""
    statement = select(TagKey).where(col(TagKey.tenant_id).in_(sorted(tenants)))
    found: dict[str, list[TagSpan]] = {}
    for row in (await session.exec(statement.order_by(col(TagKey.key), col(TagKey.since_ms)))).all():
        until_ms = LAST_MS if row.until_ms is None else row.until_ms
        found.setdefault(row.tenant_id, []).append(TagSpan(row.key, row.since_ms, until_ms))
    return found
