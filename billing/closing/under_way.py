"""Usage under way for which the close of a month waits."""

from billing.quota.client import Quota
from billing.quota.lapsed_requests import release_lapsed
from billing.quota.unposted_usage import UnpostedUsage, unposted_usage
from core.configuration.settings import Settings
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.pools import announced_pools


async def usage_under_way(
    redis: RedisClient, settings: Settings, tenant_id: str, before_ms: int
) -> UnpostedUsage:
    """Find a tenant's usage that is not posted yet, in all pools; what lapsed is none. That Redis is away is
    in it."""
    pools = set[str]()
    try:
        await release_lapsed(Quota(redis, settings), settings, tenant_id)
        pools = {settings.pool, *await announced_pools(redis, settings)}
    except (redis_errors.RedisError, OSError):
        pass  # the next look finds it out itself
    return await unposted_usage(redis, pools, tenant_id, before_ms)
