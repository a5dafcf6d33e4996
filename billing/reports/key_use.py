"""When keys were used last, and how many requests one of them served of late. Reads only.

A request writes nothing to its key: the rollups know the hour, and the requests of the last hour the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import col, func, select

from billing.periods import HOUR_MS
from billing.tables.ledger import RollupHour
from billing.tables.tenants import UsageRow
from core.sql.database import Database
from core.sql.selects import untyped

DAYS_BACK = (2, 100)
DAY_MS = 24 * HOUR_MS
REQUESTS_SEEN_MAX = 20_000


async def last_hours(db: Database, tenant_id: str, keys: Sequence[str], now_ms: int) -> dict[str, int]:
    """The beginning (Unix ms) of the hour in which the newest request of each key (ids) ended; a key that has
    none in the last 100 days is left out. Most were used of late: further back is looked for the others
    alone."""
    found: dict[str, int] = {}
    for days in DAYS_BACK:
        if left := [key for key in keys if key not in found]:
            statement = (
                select(RollupHour.key_id, func.max(RollupHour.hour_ms))
                .where(
                    col(RollupHour.tenant_id) == tenant_id,
                    col(RollupHour.hour_ms) > now_ms - days * DAY_MS,
                    col(RollupHour.requests) > 0,
                    col(RollupHour.key_id).in_(left),
                )
                .group_by(col(RollupHour.key_id))
            )
            async with db.session() as session:
                found |= {key: int(hour) for key, hour in (await untyped(session).exec(statement)).all()}
    return found


@dataclass(frozen=True)
class KeyRequests:
    """`requests` of a key ended since `since_ms`, the newest at `last_ms`; None: there is none."""

    requests: int
    since_ms: int
    last_ms: int | None


async def requests_of_late(db: Database, tenant_id: str, key: str, now_ms: int) -> KeyRequests:
    """The requests of a key (id) that ended within an hour; where its tenant had more than REQUESTS_SEEN_MAX,
    among the newest of these."""
    of_tenant = (
        col(UsageRow.tenant_id) == tenant_id,
        col(UsageRow.ended_ms) > now_ms - HOUR_MS,
        col(UsageRow.ended_ms) <= now_ms,
    )
    newest = (
        select(UsageRow.key_id, UsageRow.ended_ms)
        .where(*of_tenant)
        .order_by(col(UsageRow.ended_ms).desc())
        .limit(REQUESTS_SEEN_MAX)
        .subquery()
    )
    own = newest.c.key_id == key
    statement = select(
        func.count(),
        func.min(newest.c.ended_ms),
        func.count().filter(own),
        func.max(newest.c.ended_ms).filter(own),
    ).select_from(newest)
    async with db.session() as session:
        seen, oldest, requests, last = (await untyped(session).exec(statement)).one()
    since = int(oldest) if seen >= REQUESTS_SEEN_MAX else now_ms - HOUR_MS
    return KeyRequests(int(requests), since, None if last is None else int(last))
