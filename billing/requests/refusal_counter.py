"""Moves gateways' refusals from their stream into rows of a minute and of an hour, each entry once. Every
biller may run this; the mark's row is the lock."""

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete
from sqlmodel import SQLModel, col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.requests import refusal_stream as stream
from billing.requests.refusal_counts import Counts, RefusalCount, RefusalKey, bounded, summed, total
from billing.requests.refusal_hours import add_hours
from billing.requests.refusal_stream import RefusalRow
from billing.tables.refusals import RefusalHour, RefusalMark, RefusalMinute
from billing.tables.tenants import Tenant, TenantUser
from core.clock import now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from core.redis.unreadable import Unreadable
from core.runtime.failed_rounds import logged_failures
from core.sql.database import Database, insert_ignore, upsert

STEP_SECONDS = 2.0
DELETED_AT_ONCE = 1_000
DAY_MS = 86_400_000

log = logger(__name__)


class RefusalCounter:
    """The counter of one biller."""

    def __init__(self, db: Database, redis: RedisClient, settings: Settings) -> None:
        self._db = db
        self._redis = redis
        self._name = settings.installation
        self._kept_ms = settings.refusals_kept_days * DAY_MS
        self._hours_kept_ms = max(settings.refusals_kept_days, settings.refusal_hours_kept_days) * DAY_MS

    async def run(self, stop: asyncio.Event) -> None:
        """Count, and delete old minutes, until `stop` is set."""
        while not stop.is_set():
            with logged_failures(log, "refusal_counts.count_failed"):
                while await self.step(now_ms()):
                    pass
                await self.clear(now_ms())
            try:
                async with asyncio.timeout(STEP_SECONDS):
                    await stop.wait()
            except TimeoutError:
                pass

    async def step(self, now: int) -> int:
        """Count the stream's next entries in one transaction; return the number of refusals."""
        async with self._db.session() as session:
            mark = await session.get(RefusalMark, self._name)
        last = (mark.last_ms, mark.last_seq) if mark is not None else (0, 0)
        entries = await stream.entries_after(self._redis, self._name, last)
        if not entries:
            return 0
        rows = list[RefusalRow]()
        for _, data in entries:
            said = stream.rows_of(data)
            if isinstance(said, Unreadable):
                log.warning("refusal_counts.entry_unreadable", error=str(said))
            else:
                rows += said
        async with self._db.transaction() as session:
            if not await self._take(session, last, entries[-1][0]):
                return 0  # another biller has counted them
            counts = await _believed(session, rows, now)
            await _write(session, counts)
            await add_hours(session, counts)
        await stream.forget(self._redis, self._name, entries[-1][0])
        return total(counts)

    async def clear(self, now: int) -> None:
        """Delete minutes and hours past their retention."""
        await self._clear(RefusalMinute, col(RefusalMinute.minute_ms), now - self._kept_ms)
        await self._clear(RefusalHour, col(RefusalHour.hour_ms), now - self._hours_kept_ms)

    async def _clear(self, table: type[SQLModel], at: Any, before: int) -> None:
        old = select(at).where(at < before).order_by(at).limit(DELETED_AT_ONCE)
        while True:
            async with self._db.session() as session:
                found = (await session.exec(old)).all()
            if not found:
                return
            async with self._db.transaction() as session:
                await session.exec(delete(table).where(at <= found[-1]))

    async def _take(self, session: AsyncSession, last: tuple[int, int], new: tuple[int, int]) -> bool:
        """Move the mark. False where another biller has moved it meanwhile."""
        await insert_ignore(session, [RefusalMark(installation=self._name)])
        mark = await session.get(RefusalMark, self._name, with_for_update=True)
        assert mark is not None, "it was just made"
        if (mark.last_ms, mark.last_seq) != last:
            return False
        mark.last_ms, mark.last_seq = new
        return True


async def _believed(session: AsyncSession, rows: Sequence[RefusalRow], now: int) -> Counts:
    """Counts of these rows, restricted to tenants and users that exist."""
    named = sorted({row.tenant for row in rows})
    tenants = (await session.exec(select(Tenant.tenant_id).where(col(Tenant.tenant_id).in_(named)))).all()
    users = set[tuple[str, str]]()
    for tenant, ids in stream.unchecked_users(rows).items():
        known = select(TenantUser.id).where(
            col(TenantUser.tenant_id) == tenant, col(TenantUser.id).in_(sorted(ids))
        )
        users |= {(tenant, id) for id in (await session.exec(known)).all()}
    return stream.storable_counts(rows, set(tenants), users, now)


async def _write(session: AsyncSession, new: Counts) -> None:
    """Add counts to the rows of their minutes, and fold rows beyond the bound."""
    places = {(of.tenant, of.minute_ms) for of in new}
    known: Counts = {}
    for tenant, minute in sorted(places):
        statement = select(RefusalMinute).where(
            col(RefusalMinute.tenant_id) == tenant, col(RefusalMinute.minute_ms) == minute
        )
        for row in (await session.exec(statement)).all():
            known[_of(row)] = RefusalCount(row.number, row.why, tuple(row.last_ids))
    after = bounded(summed(known, new))
    for of in sorted(known.keys() - after.keys()):
        await session.exec(delete(RefusalMinute).where(*_is(of)))
    changed = [of for of in sorted(after) if after[of] != known.get(of)]
    await upsert(session, [_row(of, after[of]) for of in changed], RefusalMinute)


def _of(row: RefusalMinute) -> RefusalKey:
    return RefusalKey(row.tenant_id, row.minute_ms, row.key_id, row.user_id, row.code)


def _is(of: RefusalKey) -> list[Any]:
    columns = (
        *(RefusalMinute.tenant_id, RefusalMinute.minute_ms, RefusalMinute.key_id),
        *(RefusalMinute.user_id, RefusalMinute.code),
    )
    return [col(column) == value for column, value in zip(columns, of, strict=True)]


def _row(of: RefusalKey, count: RefusalCount) -> dict[str, Any]:
    return {
        "tenant_id": of.tenant,
        "minute_ms": of.minute_ms,
        "key_id": of.key,
        "user_id": of.user,
        "code": of.code,
        "number": count.number,
        "why": count.why,
        "last_ids": list(count.ids),
    }
