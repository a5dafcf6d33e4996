"""Makes a Redis fit the restored books: what it counted of lost ones is forgotten, and billers begin at the
first entry of each stream again. May be repeated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from admin.backup.restore_mark import CountedBefore
from billing.api import Quota
from billing.shared_commands import EndedStream, last_line, slot_sums
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.redis.pools import announce_pool
from core.sql.database import Database

CONSUMER = "restore"


async def counted_sums(redis: RedisClient, tenants: Sequence[str]) -> dict[str, CountedBefore]:
    """Sums of each tenant's ended requests, as Redis has counted them; tenants without any are left out."""
    found: dict[str, CountedBefore] = {}
    for tenant in tenants:
        sums = await slot_sums(redis, tenant)
        if sums.get("requests", 0) > 0:
            found[tenant] = CountedBefore(sums["requests"], sums.get("cost_nano", 0))
    return found


async def forget_lost_counts(
    db: Database, redis: RedisClient, settings: Settings, tenants: Sequence[str], say: Callable[[str], None]
) -> None:
    """Forget counts of books that are gone, of every tenant."""
    quota = Quota(redis, settings, db)
    for number, tenant in enumerate(tenants, 1):
        await quota.forget_posted(tenant, await last_line(db, tenant))
        if number % 500 == 0:
            say(f"counts in Redis: {number:,} of {len(tenants):,} tenants")


async def rewind_streams(redis: RedisClient, settings: Settings, pools: Collection[str]) -> None:
    """Have billers and recorders read every event again that the streams still have."""
    for pool in sorted(pools):
        await announce_pool(redis, settings, pool)
        await EndedStream(redis, pool, CONSUMER).rewind()


def lost_requests(
    before: Mapping[str, CountedBefore], after: Mapping[str, CountedBefore], held: Mapping[str, int]
) -> dict[str, CountedBefore]:
    """Of each tenant the ended requests that Redis had counted and that are in no book now, without those
    that are held. Pure."""
    lost: dict[str, CountedBefore] = {}
    for tenant, counted in before.items():
        now = after.get(tenant, CountedBefore(0, 0))
        missing = counted.requests - now.requests - held.get(tenant, 0)
        if missing > 0:
            lost[tenant] = CountedBefore(missing, max(0, counted.cost_nano - now.cost_nano))
    return lost
