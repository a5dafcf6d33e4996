"""Whose open requests there are: a tenant's, and in it a project's, a key's or a user's."""

from dataclasses import dataclass

from billing.quota.redis_keys import open_requests_key, rq_key
from core.redis.client import RedisClient

AT_ONCE = 1_000


@dataclass(frozen=True)
class OwnerFilter:
    """Of the tenant those requests that all of these made; empty: any. A user of several projects is one, a
    rotated key and its successor are two."""

    tenant: str
    project: str = ""
    key: str = ""
    user: str = ""

    def owns(self, project: str, key: str, user: str) -> bool:
        """Whether a request of these is meant."""
        pairs = ((self.project, project), (self.key, key), (self.user, user))
        return all(wanted in ("", found) for wanted, found in pairs)


async def open_of(redis: RedisClient, whose: OwnerFilter) -> list[tuple[str, str]]:
    """The id and pool of each request that is admitted and not settled, oldest first."""
    ids = [id.decode() for id in await redis.zrange(open_requests_key(whose.tenant), 0, -1)]
    found: list[tuple[str, str]] = []
    for first in range(0, len(ids), AT_ONCE):
        part = ids[first : first + AT_ONCE]
        pipeline = redis.pipeline(transaction=False)
        for id in part:
            pipeline.hmget(rq_key(whose.tenant, id), "state", "pool", "project", "by", "user")
        for id, (state, pool, project, by, user) in zip(part, await pipeline.execute(), strict=True):
            if state == b"open" and whose.owns(*map(_text, (project, by, user))):
                found.append((id, _text(pool)))
    return found


def _text(field: bytes | None) -> str:
    """What a record says; a worker may have written it, and then it is nobody's name, or nowhere."""
    return (field or b"").decode(errors="replace")
