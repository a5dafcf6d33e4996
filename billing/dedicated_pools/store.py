"""Takes pools' ready time from Redis into SQL. Each interval is stored with its present end, so that taking
it twice, late, or by several billers at once changes nothing; intervals that cannot grow any more are deleted
in Redis."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from billing.dedicated_pools.hours import READY_GAP_MS_MAX, ReadyInterval, parse, ready_key
from billing.tables.dedicated_pools import PoolInterval
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database, insert_of

log = logger(__name__)
repeated = RepeatedWarning(log)

INTERVALS_AT_ONCE = 500


class TakenCall(ScriptCall, kw_only=True):
    """Delete these intervals where they cannot grow any more. `stored`: field and value of each, in turn."""

    gap_ms_max: int
    stored: list[bytes]


TAKEN = Script(Path(__file__).parent / "lua" / "taken.lua", TakenCall, int)


async def take(db: Database, redis: RedisClient, pool: str) -> int:
    """Store a pool's intervals; return their number."""
    cursor, taken = 0, 0
    while True:
        cursor, entries = await redis.hscan(ready_key(pool), cursor, count=INTERVALS_AT_ONCE)
        found = _readable(pool, list(entries.items()))
        await store(db, [interval for interval, _, _ in found])
        if found:
            keys = [ready_key(pool), f"{ready_key(pool)}_open"]
            stored = [part for _, *entry in found for part in entry]
            await TAKEN(redis, keys, TakenCall(gap_ms_max=READY_GAP_MS_MAX, stored=stored))
        taken += len(found)
        if int(cursor) == 0:
            return taken


def _readable(pool: str, entries: Sequence[tuple[bytes, bytes]]) -> list[tuple[ReadyInterval, bytes, bytes]]:
    found: list[tuple[ReadyInterval, bytes, bytes]] = []
    for name, value in entries:
        interval = read("ready time", lambda field: parse(pool, *field), (name, value))
        if isinstance(interval, Unreadable):  # it stays, and holds up no others
            repeated.warning("pool_meter.ready_time_unreadable", pool=pool, error=interval.why)
        else:
            found.append((interval, name, value))
    return found


async def store(db: Database, intervals: Sequence[ReadyInterval]) -> None:
    """Add intervals, or extend stored ones. One that grew counts as not booked yet."""
    if not intervals:
        return
    table: Any = getattr(PoolInterval, "__table__")  # noqa: B009  (SQLModel does not type it)
    statement = insert_of(db.dialect, table)
    new = statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=["pool", "worker", "from_ms"],
        set_={"to_ms": new.to_ms, "busy_ms": new.busy_ms, "counted": False},
        where=new.to_ms > table.c.to_ms,
    )
    ordered = sorted(intervals, key=lambda each: (each.pool, each.worker, each.from_ms))
    async with db.transaction() as session:
        connection = await session.connection()
        await connection.execute(statement, [_row(each) for each in ordered])


def _row(each: ReadyInterval) -> dict[str, Any]:
    names = (
        "pool",
        "worker",
        "from_ms",
        "to_ms",
        "busy_ms",
        "gpus",
        "state",
        "device",
        "gpu_type",
        "hour_ms",
    )
    return {**{name: getattr(each, name) for name in names}, "counted": False}


def interval_of(row: PoolInterval) -> ReadyInterval:
    """The row in the form of deciding code."""
    names = ("pool", "worker", "from_ms", "to_ms", "busy_ms", "gpus", "state", "device", "gpu_type")
    return ReadyInterval(**{name: getattr(row, name) for name in names})
