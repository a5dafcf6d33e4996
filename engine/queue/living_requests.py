"""The requests of a pool that have not ended, with the fingerprints that they pin. Reads only."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from core.clock import CALENDAR_MS_MAX
from core.redis.client import RedisClient
from core.redis.members import names, readable, reading
from engine.queue import redis_keys

PAGE = 500


@dataclass(frozen=True)
class LivingRequest:
    """A waiting, parked or running request. Its deadline may be earlier than its sender's, as of a cancel."""

    tenant: str
    id: str
    fingerprint: str
    deadline_ms: int


async def living_requests(redis: RedisClient, pool: str) -> AsyncGenerator[LivingRequest]:
    """All of them, by deadline. Those that end meanwhile may hide others: one look that finds none proves
    nothing."""
    key, at = redis_keys.deadlines(pool), 0
    while page := await reading(key, redis.zrange(key, at, at + PAGE - 1, withscores=True), []):
        at += len(page)
        deadlines = {name: score for member, score in page for name in names(key, [member])}
        pipeline = redis.pipeline(transaction=False)
        for name in deadlines:
            pipeline.hget(redis_keys.record(pool, *redis_keys.split_member(name)), "fingerprint")
        replies = await pipeline.execute(raise_on_error=False) if deadlines else []
        for name, reply in readable(redis_keys.record(pool, "", ""), list(deadlines), replies):
            if reply is not None:
                until_ms = int(min(deadlines[name], CALENDAR_MS_MAX))
                tenant, id = redis_keys.split_member(name)
                yield LivingRequest(tenant, id, reply.decode(errors="replace"), until_ms)
