"""R5 and R6 of one pool: its engines' token counts against billed and unbilled tokens, and its GPU time
against billed, idle and free time. Stores the engines' counts, which workers keep in Redis
(billing.usage.EngineCounts)."""

from typing import Any

import msgspec
from sqlmodel import col, select

from billing.dedicated_pools.reports import pool_seconds
from billing.periods import HOUR_MS, PeriodWindow
from billing.reconciliation.comparison import Check, Comparison, hour_name
from billing.tables.dedicated_pools import PoolInterval
from billing.tables.reconciliation import EngineHour
from billing.tables.tenants import PLATFORM
from billing.usage import EngineCounts, engine_hours
from core.names import storable_name
from core.redis.client import RedisClient
from core.redis.members import made_anew
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database, upsert

KEPT_MS = 2 * HOUR_MS  # in Redis; a worker writes the present hour and the one before
LOOKED_AT_MS = 24 * HOUR_MS
BOOKED_AFTER_MS = 5 * 60_000
COUNTS = EngineCounts.__struct_fields__
INTEGER_MAX = 1 << 53
FIELDS_MAX = 1 << 12  # of a pool: writers times hours; more is a flood


async def store_engine_hours(db: Database, redis: RedisClient, pool: str, now_ms: int) -> int:
    """Copy workers' counts into SQL, and delete old stored ones in Redis; return the number of rows."""
    key = engine_hours(pool)
    if await made_anew(redis, key, lambda: redis.hlen(key)) > FIELDS_MAX:
        raise ValueError("more workers than a pool has")
    fields: dict[bytes, bytes] = await redis.hgetall(key)
    found = [read("hour", lambda field: _row(pool, *field, now_ms), field) for field in fields.items()]
    rows = [row for row in found if not isinstance(row, Unreadable)]
    if rows:
        ordered = sorted(rows, key=lambda row: (row["worker"], row["hour_ms"]))
        async with db.transaction() as session:
            await upsert(session, ordered, EngineHour)
    old = [f"{row['worker']}:{row['hour_ms']}" for row in rows if row["hour_ms"] < now_ms - KEPT_MS]
    if old:
        await redis.hdel(key, *old)
    return len(rows)


def _row(pool: str, field: bytes, value: bytes, now_ms: int) -> dict[str, Any]:
    """A field of the hash as a row of engine_hour."""
    worker, _, hour = field.decode().rpartition(":")
    counts, hour_ms = msgspec.msgpack.decode(value, type=EngineCounts), int(hour)
    facts = {name: getattr(counts, name) for name in COUNTS}
    if storable_name(worker) != worker or not all(
        0 <= number < INTEGER_MAX for number in (hour_ms, *facts.values())
    ):
        raise ValueError("no row holds this")
    names = {"tenant_id": PLATFORM, "pool": pool, "worker": worker, "hour_ms": hour_ms}
    return {**names, **facts, "updated_ms": max(now_ms, hour_ms)}


async def compare_engines(db: Database, pool: str, now_ms: int) -> list[Comparison]:
    """R5 for each worker and hour of the last day."""
    statement = (
        select(EngineHour)
        .where(col(EngineHour.tenant_id) == PLATFORM, col(EngineHour.pool) == pool)
        .where(col(EngineHour.hour_ms) >= now_ms - LOOKED_AT_MS)
        .order_by(col(EngineHour.hour_ms), col(EngineHour.worker))
    )
    async with db.session() as session:
        found = (await session.exec(statement)).all()
    return [compared for row in found for compared in engine_hour(row)]


async def compare_pool_time(db: Database, pool: str, now_ms: int) -> list[Comparison]:
    """R6 of the last day, up to the last booked hour: metered time against billed, idle or free time."""
    end_ms = (now_ms - BOOKED_AFTER_MS) // HOUR_MS * HOUR_MS
    found = await pool_seconds(db, pool, PeriodWindow(end_ms - LOOKED_AT_MS, end_ms))
    detail = f"billed {found.billed}, idle {found.idle}, free {found.free}"
    became = found.billed + found.idle + found.free
    return [Comparison(Check.R6, PLATFORM, pool, "GPU-seconds", found.ready, became, detail)]


async def metered_pools(db: Database) -> set[str]:
    """Pools that have metered GPU time."""
    async with db.session() as session:
        return set((await session.exec(select(PoolInterval.pool).distinct())).all())


def engine_hour(row: EngineHour) -> list[Comparison]:
    """R5 of one worker's hour: prompts and sampled tokens. Tokens of an aborted generation that the engine
    counted but never handed over are no difference. Pure."""
    seen = row.output_taken + row.output_dropped + row.output_test
    prompts = row.prompt_new + row.prompt_again + row.prompt_test
    name = f"{row.pool} {row.worker} {hour_name(row.hour_ms)}"
    unbilled = row.engine_output - row.output_taken
    share = f"unbilled {100 * unbilled / row.engine_output:.1f} %" if row.engine_output else ""
    return [
        _of_engine(f"{name} output", row.engine_output, seen, row.output_unseen_max, share),
        _of_engine(f"{name} prompt", row.engine_prompt, prompts, row.prompt_unseen_max, ""),
    ]


def _of_engine(subject: str, engine: int, seen: int, unseen_max: int, detail: str) -> Comparison:
    aborted = min(max(0, engine - seen), unseen_max)
    return Comparison(Check.R5, PLATFORM, subject, "tokens", engine, seen + aborted, detail)
