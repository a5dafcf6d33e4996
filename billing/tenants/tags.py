"""Declares and withdraws tags: keys of requests' metadata by which a tenant's cost is told apart.

A key counts from a whole minute to come, so that every biller knows of it by then; what ended before is not
tagged. One that is withdrawn keeps what it has.
"""

from collections.abc import Sequence

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.ledger.tag_rollups import TAG_KEY
from billing.tables.ledger import TagKey
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import bad_request, see, unknown
from core.sql.database import Database

TAGS_MAX = 20
MINUTE_MS = 60_000
TAKEN = frozenset({"user", "project"})  # these say whose a request is


async def list_tags(db: Database, tenant_id: str) -> Sequence[TagKey]:
    """A tenant's tags, withdrawn ones too, by key and time."""
    async with db.session() as session:
        return await _tags(session, tenant_id)


async def declare_tag(db: Database, tenant_id: str, key: str) -> TagKey:
    """Declare a key. Raises Refused where it is none, is declared already, or there are TAGS_MAX."""
    if not TAG_KEY.fullmatch(key):
        raise bad_request("a tag's key has 1 to 64 of: letters a-z, digits, . _ -", field="key")
    if key in TAKEN:
        raise bad_request(
            f"{key} says whose a request is: choose it as rows or columns by itself", field="key"
        )
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        known = await _tags(session, tenant_id)
        declared = [row for row in known if row.until_ms is None]
        if any(row.key == key for row in declared):
            raise bad_request(f"{key} is declared already", field="key")
        if len(declared) >= TAGS_MAX:
            raise bad_request(f"there are {TAGS_MAX} tags already: withdraw one first", field="key")
        last_ms = max((row.since_ms for row in known if row.key == key), default=0)
        row = TagKey(tenant_id=tenant_id, key=key, since_ms=max(_next_minute(), last_ms + MINUTE_MS))
        session.add(row)
        await record(session, tenant_id, "tag.declare", key, None, {"since_ms": row.since_ms})
    return row


async def withdraw_tag(db: Database, tenant_id: str, key: str) -> TagKey:
    """Withdraw a key: later usage is not told apart by it. Raises Refused where it is not declared."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        known = await _tags(session, tenant_id)
        row = next((each for each in known if each.key == key and each.until_ms is None), None)
        if row is None:
            raise unknown(f"there is no tag {key!r}", field="key", see=see("tags.list", tenant=tenant_id))
        row.until_ms = max(row.since_ms, _next_minute())
        session.add(row)
        await record(session, tenant_id, "tag.withdraw", key, {"until_ms": None}, {"until_ms": row.until_ms})
    return row


async def _tags(session: AsyncSession, tenant_id: str) -> Sequence[TagKey]:
    statement = select(TagKey).where(col(TagKey.tenant_id) == tenant_id)
    return (await session.exec(statement.order_by(col(TagKey.key), col(TagKey.since_ms)))).all()


def _next_minute() -> int:
    """The beginning of the minute after the next: billers that write now end before it."""
    return (now_ms() // MINUTE_MS + 2) * MINUTE_MS
