"""Safety policies in a pool, on a real Valkey: there before what is under them, and for longer."""

import hashlib
from typing import Any

import msgspec
import pytest
from redis.exceptions import NoPermissionError

from core.access.processes import GATEWAY, WORKER, ProcessKind
from core.configuration.settings import Settings
from engine.api import Enqueue, Enqueued, PinnedPolicy
from engine.queue.client import PoolQueue
from tests.engine.builders import Pool, pool, request
from tests.support.redis import Redis
from tests.support.users import client_of, make_user, refused, url_of

DOCUMENT = b'{"detectors":[]}'
POLICY = PinnedPolicy(hashlib.sha256(DOCUMENT).hexdigest(), DOCUMENT)
LIFE_SECONDS = 24 * 3600 + 3600


def under_policy(**changes: Any) -> Enqueue:
    """A request under it."""
    return request(policy=POLICY, **changes)


def key(p: Pool) -> str:
    """Where it stands."""
    return p.key(f"policy:{POLICY.hash}")


async def test_what_is_enqueued_has_its_policy_beside_it(redis: Redis):
    """It is stored for longer than the longest deadline; without it nothing is put in line."""
    p = pool(redis)
    assert isinstance(await p.queue.enqueue(under_policy()), Enqueued)
    assert await p.queue.policy(POLICY.hash) == DOCUMENT
    assert LIFE_SECONDS - 60 < await redis.ttl(key(p)) <= LIFE_SECONDS


async def test_a_policy_that_stands_there_is_not_written_again(redis: Redis):
    """An enqueue only looks; whoever stores it anew lengthens its life."""
    p = pool(redis)
    await redis.set(key(p), b"as another gateway left it", ex=100)
    assert isinstance(await p.queue.enqueue(under_policy()), Enqueued)
    assert await p.queue.policy(POLICY.hash) == b"as another gateway left it"
    await p.queue.store_policy(POLICY)
    assert await p.queue.policy(POLICY.hash) == DOCUMENT
    assert await redis.ttl(key(p)) > LIFE_SECONDS - 60


async def test_what_is_known_is_answered_without_its_policy(redis: Redis):
    """A send that is repeated stores nothing."""
    p, sent = pool(redis), under_policy()
    await p.queue.enqueue(sent)
    await redis.delete(key(p))
    again = await p.queue.enqueue(sent)
    assert isinstance(again, Enqueued)
    assert not again.created
    assert not await redis.exists(key(p))


async def test_a_request_under_a_built_in_policy_needs_none(redis: Redis):
    """Every worker has it."""
    p = pool(redis)
    assert isinstance(await p.queue.enqueue(request()), Enqueued)
    assert not [each async for each in redis.scan_iter(p.key("policy:*"))]


async def test_a_key_of_another_type_is_no_policy(redis: Redis):
    """Its reader finds nothing, and a gateway that stores it takes its place."""
    p = pool(redis)
    await redis.hset(key(p), "a", "b")
    assert await p.queue.policy(POLICY.hash) is None
    await p.queue.store_policy(POLICY)
    assert await p.queue.policy(POLICY.hash) == DOCUMENT


@pytest.mark.parametrize("process", [GATEWAY, WORKER])
async def test_only_who_admits_requests_writes_a_policy(
    redis: Redis, redis_url: str, settings: Settings, process: ProcessKind
):
    """A worker reads it; it can neither store nor drop one, nor let it expire."""
    await pool(redis).queue.store_policy(POLICY)
    if process is GATEWAY:
        async with client_of(redis, redis_url, process) as client:
            queue = PoolQueue(client, "default", settings)
            await queue.store_policy(POLICY)
            await queue.keep_policy(POLICY, 10**6)
            assert await queue.policy(POLICY.hash) == DOCUMENT
        return
    name = await make_user(redis, process, "default")
    worker = Redis.from_url(url_of(redis_url, name))
    try:
        queue = PoolQueue(worker, "default", settings)
        assert await queue.policy(POLICY.hash) == DOCUMENT
        assert not await refused(redis, name)
        writes = (
            queue.store_policy(msgspec.structs.replace(POLICY, document=b"weaker")),
            worker.delete(key(pool(redis))),
            worker.expire(key(pool(redis)), 1),
        )
        for write in writes:
            with pytest.raises(NoPermissionError):
                await write
    finally:
        await worker.aclose()
    assert await queue_of(redis).policy(POLICY.hash) == DOCUMENT


def queue_of(redis: Redis) -> PoolQueue:
    """The pool's queue, for somebody who may do all."""
    return pool(redis).queue
