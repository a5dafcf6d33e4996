"""Selection of open requests: a tenant's, or in it a project's, a key's or a user's."""

from collections.abc import Sequence
from dataclasses import dataclass

from billing.quota.redis_keys import open_requests_key, rq_key
from core.redis.client import RedisClient
from core.redis.members import names, readable, reading

AT_ONCE = 1_000
OPEN_KEYS = ("T:live",)


@dataclass(frozen=True)
class OwnerFilter:
    """Selects requests of a tenant that match every given fact; empty: any. A user counts as the same in all
    projects; a rotated key and its successor are two keys."""

    tenant: str
    project: str = ""
    key: str = ""
    user: str = ""

    def owns(self, project: str, key: str, user: str) -> bool:
        """Test a request's project, key and user."""
        pairs = ((self.project, project), (self.key, key), (self.user, user))
        return all(wanted in ("", found) for wanted, found in pairs)


async def open_of(redis: RedisClient, whose: OwnerFilter) -> list[tuple[str, str]]:
    """(id, pool) of each selected request that is admitted and not settled, oldest first."""
    key = open_requests_key(whose.tenant)
    ids = names(key, await reading(key, redis.zrange(key, 0, -1), []))
    found: list[tuple[str, str]] = []
    for first in range(0, len(ids), AT_ONCE):
        part = ids[first : first + AT_ONCE]
        pipeline = redis.pipeline(transaction=False)
        for id in part:
            pipeline.hmget(rq_key(whose.tenant, id), "state", "pool", "project", "by", "user")
        replies = await pipeline.execute(raise_on_error=False)
        for id, (state, pool, project, by, user) in readable(key, part, replies):
            if state == b"open" and whose.owns(*map(_text, (project, by, user))):
                found.append((id, _text(pool)))
    return found


async def count_open(redis: RedisClient, tenants: Sequence[str]) -> dict[str, int]:
    """How many requests of each of these tenants are admitted and not settled."""
    pipeline = redis.pipeline(transaction=False)
    for tenant in tenants:
        pipeline.zcard(open_requests_key(tenant))
    replies = await pipeline.execute(raise_on_error=False)
    return {tenant: 0 for tenant in tenants} | dict(readable(open_requests_key(""), tenants, replies))


async def open_among(redis: RedisClient, tenant: str, ids: Sequence[str]) -> list[str]:
    """Those of the ids whose request is admitted and not settled."""
    pipeline = redis.pipeline(transaction=False)
    for id in ids:
        pipeline.hget(rq_key(tenant, id), "state")
    replies = await pipeline.execute(raise_on_error=False)
    return [id for id, state in readable(f"{{t:{tenant}}}rq:", ids, replies) if state == b"open"]


async def keys_of_requests(redis: RedisClient, tenant: str, ids: Sequence[str]) -> dict[str, str]:
    """Id of the key with which each request was sent, as the directory has it; empty where it has none."""
    pipeline = redis.pipeline(transaction=False)
    for id in ids:
        pipeline.hget(rq_key(tenant, id), "by")
    replies = await pipeline.execute(raise_on_error=False)
    found = dict(readable(f"{{t:{tenant}}}rq:", ids, replies))
    return {id: _text(found.get(id)) for id in ids}


def _text(field: bytes | None) -> str:
    """Text of a field. A worker may have written it, so it may be missing or no valid UTF-8."""
    return (field or b"").decode(errors="replace")
