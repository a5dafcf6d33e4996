"""Releases open requests that are nobody's any more: they end so late that no biller takes it.

A worker can write such records, of any pool or of none, and nothing else would ever end them.
"""

from billing.booking.admissions import LATE_MS_MAX
from billing.quota.client import Quota
from billing.quota.open_requests import open_among
from billing.quota.redis_keys import open_requests_key
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.members import names, reading

IDS_MAX = 1_000
LOOKS_MAX = 20  # each of so many ids; a worker may add them as fast as they go


async def release_lapsed(quota: Quota, settings: Settings, tenant: str) -> list[str]:
    """Release what was admitted longer ago than any deadline and its margin, or as far ahead, whatever pool
    it names. Returns their ids. What is listed there and is no open request goes from the list."""
    far, now = settings.deadline_bulk_ms + LATE_MS_MAX, now_ms()
    past, ahead = ("-inf", f"({now - far}"), (f"({now + far}", "+inf")
    return [id for each in (past, ahead) for id in await _release_between(quota, tenant, *each)]


async def _release_between(quota: Quota, tenant: str, least: str, most: str) -> list[str]:
    redis, key, released = quota.redis, open_requests_key(tenant), list[str]()
    for _ in range(LOOKS_MAX):
        found = await reading(key, redis.zrange(key, least, most, byscore=True, offset=0, num=IDS_MAX), [])
        if not found:
            break
        for id in await open_among(redis, tenant, names(key, found)):
            if await quota.release(tenant, id):
                released.append(id)
        await redis.zrem(key, *found)
    return released
