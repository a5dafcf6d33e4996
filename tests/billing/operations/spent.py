"""What tests of spending store: ready time of pools, and refusals of an hour."""

from billing.dedicated_pools.hours import ReadyInterval
from billing.periods import HOUR_MS
from billing.tables.refusals import RefusalHour
from core.clock import now_ms
from core.sql.database import Database


def ready(hour_ms: int, pool: str, worker: str, busy_s: int, device: str = "") -> ReadyInterval:
    """A whole hour of one GPU, with requests for so many seconds."""
    end = hour_ms + HOUR_MS
    return ReadyInterval(
        pool, worker, hour_ms, end, busy_s * 1000, 1, "ready", device or f"GPU-{worker}", "h200"
    )


async def refused(db: Database, tenant: str, code: str, why: str, key: str, number: int) -> None:
    """Refusals in the hour that runs."""
    hour = now_ms() // HOUR_MS * HOUR_MS
    row = RefusalHour(
        tenant_id=tenant,
        hour_ms=hour,
        code=code,
        why=why,
        key_id=key,
        user_id="",
        number=number,
        last_ms=hour,
    )
    async with db.transaction() as session:
        session.add(row)
