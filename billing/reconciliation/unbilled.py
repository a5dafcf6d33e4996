"""Ended requests that are not billed: workers' hourly counts of ends, against the books.

The other half of R5. Workers count outside Redis and repeat their totals, so ends that a Redis lost show as a
difference. More billed than counted is no fault: nobody counts the ends that commands write.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import update
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.booking.assess import Quarantined, decode_event
from billing.periods import HOUR_MS
from billing.reconciliation.comparison import Check, Comparison, hour_name
from billing.reconciliation.pools import FIELDS_MAX
from billing.tables.reconciliation import EndedHour
from billing.tables.tenants import PLATFORM, UsageQuarantine, UsageRow
from billing.usage import EndedCounts, UsageEvent, ended_hours
from core.names import storable_name
from core.redis.client import RedisClient
from core.redis.members import made_anew
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database, upsert

DAY_MS = 24 * HOUR_MS
LOOKED_AT_MS = 7 * DAY_MS  # how long an hour with missing ends is reported
KEPT_MS = 2 * HOUR_MS  # in Redis
LATE_MS = 10 * 60_000  # after an hour's end, until nothing of it is under way
HOURS_MAX = 48
HELD_MAX = 10_000
COUNT_MAX = 1 << 50  # so that the sum of all writers fits the column
COUNTS = EndedCounts.__struct_fields__


@dataclass(frozen=True)
class EndedPoolHour:
    """One pool's hour: counts of ended requests, of billed ones, and of held ones, which are undecided or
    decided not to count."""

    pool: str
    hour_ms: int
    requests: int = 0
    output: int = 0
    billed_requests: int = 0
    billed_output: int = 0
    held_requests: int = 0
    held_output: int = 0

    @property
    def lost_requests(self) -> int:
        """Requests that ended, and are neither in the books nor held."""
        return max(0, self.requests - self.billed_requests - self.held_requests)

    @property
    def lost_output(self) -> int:
        """Output tokens of lost requests. Requests that commands end hardly hide any, as they seldom have
        output."""
        return max(0, self.output - self.billed_output - self.held_output)

    @property
    def end_ms(self) -> int:
        """When the hour is over."""
        return self.hour_ms + HOUR_MS

    @property
    def looked_at_until_ms(self) -> int:
        """How long R5 tells of it, where something is lost."""
        return self.hour_ms + LOOKED_AT_MS

    def compared(self, waiting: str = "") -> list[Comparison]:
        """The hour as comparisons of R5."""
        name = f"{self.pool} {hour_name(self.hour_ms)} ended"
        held = f"{self.held_requests} held" if self.held_requests else ""
        pairs = (
            ("requests", self.requests, self.lost_requests),
            ("tokens", self.output, self.lost_output),
        )
        return [
            Comparison(
                Check.R5, PLATFORM, f"{name} {unit}", unit, all_, all_ - lost, held, waiting if lost else ""
            )
            for unit, all_, lost in pairs
        ]


@dataclass(frozen=True)
class UnbilledShare:
    """A pool's last day: output tokens that ended, and those that are lost, or held without a decision."""

    pool: str
    output: int
    unbilled: int
    requests: int = 0

    @property
    def part(self) -> float:
        """Unbilled part of the output, from 0 to 1; 0 where nothing ended."""
        return min(1.0, self.unbilled / self.output) if self.output else float(self.unbilled > 0)


async def store_ended_hours(db: Database, redis: RedisClient, pool: str, now_ms: int) -> int:
    """Copy writers' counts of ends into SQL, and delete old stored ones in Redis; return the number of
    rows."""
    key = ended_hours(pool)
    if await made_anew(redis, key, lambda: redis.hlen(key)) > FIELDS_MAX:
        raise ValueError("more writers than a pool has")
    fields: dict[bytes, bytes] = await redis.hgetall(key)
    found = {
        field: read("hour", lambda each: _row(pool, *each, now_ms), (field, fields[field]))
        for field in fields
    }
    rows = [row for row in found.values() if not isinstance(row, Unreadable)]
    if rows:
        async with db.transaction() as session:
            rows = _with_known(rows, await _known(session, pool, {row["hour_ms"] for row in rows}))
            await upsert(session, sorted(rows, key=lambda row: (row["writer"], row["hour_ms"])), EndedHour)
    done = [
        field
        for field, row in found.items()
        if isinstance(row, Unreadable) or row["hour_ms"] < now_ms - KEPT_MS
    ]
    if done:
        await redis.hdel(key, *done)
    return len(rows)


async def _known(session: AsyncSession, pool: str, hours: Iterable[int]) -> dict[tuple[str, int], EndedHour]:
    statement = select(EndedHour).where(col(EndedHour.pool) == pool, col(EndedHour.hour_ms).in_(hours))
    return {(row.writer, row.hour_ms): row for row in (await session.exec(statement)).all()}


def _with_known(
    rows: Iterable[dict[str, Any]], known: Mapping[tuple[str, int], EndedHour]
) -> list[dict[str, Any]]:
    """Merge new counts with stored ones. A count never falls; an hour whose count rose is checked again."""
    merged: list[dict[str, Any]] = []
    for row in rows:
        before = known.get((row["writer"], row["hour_ms"]))
        counts = {name: max(row[name], getattr(before, name)) if before else row[name] for name in COUNTS}
        same = before is not None and all(getattr(before, name) == counts[name] for name in COUNTS)
        merged.append({**row, **counts, "agreed_ms": before.agreed_ms if before and same else None})
    return merged


def _row(pool: str, field: bytes, value: bytes, now_ms: int) -> dict[str, Any]:
    writer, _, hour = field.decode().rpartition(":")
    counts, hour_ms = msgspec.msgpack.decode(value, type=EndedCounts), int(hour)
    facts = {name: getattr(counts, name) for name in COUNTS}
    is_hour = hour_ms % HOUR_MS == 0 and now_ms - LOOKED_AT_MS <= hour_ms <= now_ms + HOUR_MS
    if (
        not is_hour
        or storable_name(writer) != writer
        or not all(0 <= each < COUNT_MAX for each in facts.values())
    ):
        raise ValueError("no process ended this")
    names = {"tenant_id": PLATFORM, "pool": pool, "writer": writer, "hour_ms": hour_ms}
    return {**names, **facts, "updated_ms": now_ms}


async def pool_hours(db: Database, pool: str, now_ms: int) -> list[EndedPoolHour]:
    """The pool's hours of the last week that were not found whole yet, newest first, at most HOURS_MAX."""
    counted = (
        select(col(EndedHour.hour_ms), func.sum(col(EndedHour.requests)), func.sum(col(EndedHour.output)))
        .where(col(EndedHour.pool) == pool, col(EndedHour.agreed_ms).is_(None))
        .where(col(EndedHour.hour_ms) >= now_ms - LOOKED_AT_MS)
        .group_by(col(EndedHour.hour_ms))
        .order_by(col(EndedHour.hour_ms).desc())
        .limit(HOURS_MAX)
    )
    async with db.session() as session:
        rows = [(int(hour), int(n), int(output)) for hour, n, output in (await session.exec(counted)).all()]
        since = min((hour for hour, _, _ in rows), default=now_ms)
        held = await _held(session, pool, since)
        found: list[EndedPoolHour] = []
        for hour, requests, output in rows:
            billed = (
                select(
                    func.count(),
                    func.coalesce(func.sum(col(UsageRow.output_text) + col(UsageRow.output_reasoning)), 0),
                )
                .where(col(UsageRow.pool) == pool)
                .where(col(UsageRow.ended_ms) >= hour, col(UsageRow.ended_ms) < hour + HOUR_MS)
            )
            n, billed_output = (await session.exec(billed)).one()
            own = [event for event in held if hour <= event.ended_ms < hour + HOUR_MS]
            sums = (int(n), int(billed_output), len(own), _output(own))
            found.append(EndedPoolHour(pool, hour, requests, output, *sums))
    return found


async def compare_ended(
    db: Database, pool: str, now_ms: int, waiting: str, keeps: bool = True
) -> list[Comparison]:
    """Compare ended with billed requests, the other half of R5. `waiting`: reason that missing ones may be on
    their way. `keeps`: mark whole hours that are over, so that they are not read again."""
    found = await pool_hours(db, pool, now_ms)
    whole = [
        each.hour_ms
        for each in found
        if not (each.lost_requests or each.lost_output) and each.hour_ms + HOUR_MS + LATE_MS < now_ms
    ]
    if whole and keeps:
        agreed = update(EndedHour).where(col(EndedHour.pool) == pool, col(EndedHour.hour_ms).in_(whole))
        async with db.transaction() as session:
            await (await session.connection()).execute(agreed.values(agreed_ms=now_ms))
    return [compared for each in found for compared in each.compared(waiting)]


async def share_of(db: Database, pool: str, now_ms: int) -> UnbilledShare:
    """Unbilled share of the pool's last day of output."""
    start = now_ms - DAY_MS
    all_ = select(func.coalesce(func.sum(col(EndedHour.output)), 0)).where(
        col(EndedHour.pool) == pool, col(EndedHour.hour_ms) >= start
    )
    async with db.session() as session:
        output = int((await session.exec(all_)).one())
        held = await _held(session, pool, start, undecided=True)
    lost = [each for each in await pool_hours(db, pool, now_ms) if each.hour_ms >= start]
    unbilled = _output(held) + sum(each.lost_output for each in lost)
    return UnbilledShare(pool, output, unbilled, len(held) + sum(each.lost_requests for each in lost))


async def _held(session: Any, pool: str, since_ms: int, undecided: bool = False) -> Sequence[UsageEvent]:
    """Quarantined events of a pool, without those accepted and billed. `undecided`: only those without a
    decision."""
    statement = select(UsageQuarantine).where(
        col(UsageQuarantine.pool) == pool, col(UsageQuarantine.created_ms) >= since_ms
    )
    if undecided:
        statement = statement.where(col(UsageQuarantine.resolved_ms).is_(None))
    rows: Sequence[UsageQuarantine] = (await session.exec(statement.limit(HELD_MAX))).all()
    kept = [
        row
        for row in rows
        if row.reason == Quarantined.CONFLICTING or not row.resolution.startswith("accepted (billed)")
    ]
    return [event for row in kept if (event := decode_event(row.event)) is not None]


def _output(events: Iterable[UsageEvent]) -> int:
    return sum(event.output_text + event.output_reasoning for event in events)
