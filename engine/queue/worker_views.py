"""Reads what a pool's workers wrote of themselves, all of them in two round trips."""

from functools import partial

from core.redis.client import RedisClient
from core.redis.members import names, readable, reading
from core.redis.unreadable import Unreadable, read
from engine.queue import redis_keys, script_replies
from engine.queue.types import WorkerView


async def worker_views(redis: RedisClient, pool: str, now_ms: int) -> list[WorkerView | Unreadable]:
    """Each registered worker, one with a lapsed lease too, but not one that has left meanwhile."""
    key = redis_keys.workers(pool)
    leases = await reading(key, redis.zrange(key, 0, -1, withscores=True), [])
    named = {name: lease for raw, lease in leases for name in names(key, [raw])}
    if not named:
        return []
    pipeline = redis.pipeline(transaction=False)
    for name in named:
        pipeline.hgetall(redis_keys.worker(pool, name))
        pipeline.scard(redis_keys.claims(pool, name))
    replies = await pipeline.execute(raise_on_error=False)
    got = dict(readable(redis_keys.worker(pool, ""), range(len(replies)), replies))
    views = list[WorkerView | Unreadable]()
    for at, (name, lease) in enumerate(named.items()):
        if fields := got.get(2 * at):
            facts = (name, int(lease), now_ms, got.get(2 * at + 1, 0))
            views.append(read("worker", partial(script_replies.worker, *facts), fields))
    return views
