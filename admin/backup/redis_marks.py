"""Makes a Redis fit the restored books: what it counted of lost ones is forgotten, and billers begin at the
first entry of each stream again. May be repeated.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from admin.backup.restore_mark import CountedBefore
from billing.api import Quota
from billing.shared_commands import EndedStream, last_line, posted_key, slot_sums
from core.configuration.settings import Settings
from core.names import storable_name
from core.redis.client import RedisClient
from core.redis.members import made_anew
from core.redis.pools import announce_pool, installations_in
from core.sql.database import Database

CONSUMER = "restore"
SCANNED_AT_ONCE = 1_000
TENANTS_MAX = 100_000


async def is_shared(redis: RedisClient, settings: Settings) -> bool:
    """True where other installations have pools there too: nothing in Redis says whose a tenant is."""
    return bool(await installations_in(redis) - {settings.installation})


async def tenants_counted(redis: RedisClient, settings: Settings) -> set[str]:
    """Tenants whose ended requests Redis has counted, TENANTS_MAX at most: a worker may write keys of any
    tenant. Empty where it is shared."""
    if await is_shared(redis, settings):
        return set()
    before, after = posted_key("*").split("*")
    found: set[str] = set()
    keys = redis.scan_iter(match=posted_key("*"), count=SCANNED_AT_ONCE, _type="hash")
    async for key in keys:
        name = key.decode(errors="replace").removeprefix(before).removesuffix(after)
        if storable_name(name) == name and len(found) < TENANTS_MAX:
            found.add(name)
    return found


async def counted_sums(redis: RedisClient, tenants: Iterable[str]) -> dict[str, CountedBefore]:
    """Sums of each tenant's ended requests, as Redis has counted them; tenants without any are left out."""
    found: dict[str, CountedBefore] = {}
    for tenant in tenants:
        sums = await made_anew(redis, posted_key(tenant), partial(slot_sums, redis, tenant))
        if sums.get("requests", 0) > 0:
            found[tenant] = CountedBefore(
                sums["requests"], sums.get("cost_nano", 0), max(0, sums.get("output", 0))
            )
    return found


async def forget_lost_counts(
    db: Database, redis: RedisClient, settings: Settings, tenants: Collection[str], say: Callable[[str], None]
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
