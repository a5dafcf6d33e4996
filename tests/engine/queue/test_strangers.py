"""A pool that is dedicated refuses strangers itself, whatever a gateway believes of routes."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from billing.dedicated_pools.pools import create_pool, edit_pool
from billing.tables.pools import PoolRow
from billing.tenants.tenancy import create_tenant
from core.access.processes import GATEWAY, SUPERVISOR, WORKER
from core.configuration.settings import Settings
from core.errors import Refusal
from core.redis.client import RedisClient
from core.sql.database import Database
from engine.api import STRANGER, Enqueued, MigrationRefusalReason, MigrationRefused, Migrator, PoolQueue
from engine.node.let_in import TenantsLetIn
from tests.engine.builders import TENANT, Pool, request
from tests.engine.pair_of_pools import Pair
from tests.support.redis import Redis
from tests.support.users import client_of, make_user, url_of

OTHER = "t2"


@pytest.fixture
async def pool(redis: Redis) -> Pool:
    """With a worker."""
    pool = Pool(redis)
    await pool.worker("w")
    return pool


async def test_a_stranger_is_refused_at_the_door(pool: Pool):
    """Its client may come again, once gateways know better; who is let in notices nothing, nor does anybody
    once the pool is shared again."""
    assert await pool.queue.admit([TENANT, "t3"])
    assert not await pool.queue.admit(["t3", TENANT])
    refused = await pool.queue.enqueue(request(tenant=OTHER))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.retry, refused.after_ms) == (STRANGER, True, 2000)
    assert isinstance(await pool.queue.enqueue(request()), Enqueued)
    assert len(await pool.claim("w")) == 1
    assert await pool.queue.admit([])
    assert not await pool.queue.admit([])
    assert isinstance(await pool.queue.enqueue(request(tenant=OTHER)), Enqueued)
    assert len(await pool.claim("w")) == 1


async def test_no_worker_takes_what_was_put_in_line_past_the_door(pool: Pool, redis: Redis):
    """By a gateway that was taken over and gives it a tenant that is not let in: it waits until its deadline,
    and holds up nobody."""
    await pool.queue.admit([TENANT])
    hidden = await redis.hgetall(pool.key("admits"))
    await redis.delete(pool.key("admits"))
    pool.clock.advance(1)
    assert isinstance(await pool.queue.enqueue(request(tenant=OTHER)), Enqueued)
    await redis.hset(pool.key("admits"), mapping=hidden)
    await pool.queue.enqueue(own := request())
    assert [claim.id for claim in await pool.claim("w")] == [own.id]
    await pool.queue.admit([TENANT, OTHER])
    (late,) = await pool.claim("w")
    assert late.tenant == OTHER


async def test_what_came_while_its_tenant_was_let_in_goes_on(pool: Pool):
    """A pool is dedicated, or lets somebody in no more, while requests wait in it: nothing is lost."""
    before = request(tenant=OTHER)
    await pool.queue.enqueue(before)
    await pool.queue.admit([TENANT])
    assert [claim.id for claim in await pool.claim("w")] == [before.id]
    pool.clock.advance(1)
    await pool.queue.admit([TENANT, OTHER])
    let_in = request(tenant=OTHER)
    await pool.queue.enqueue(let_in)
    pool.clock.advance(1)
    await pool.queue.admit([TENANT])
    assert isinstance(await pool.queue.enqueue(request(tenant=OTHER)), Refusal)
    assert [claim.id for claim in await pool.claim("w")] == [let_in.id]


async def test_a_request_does_not_move_to_strangers(redis: Redis):
    """It stays where it is, and goes on there."""
    pair, rows = Pair(redis), {"b": [OTHER]}

    async def let_in(name: str) -> list[str]:
        return rows[name]

    mover = Migrator(redis, pair.a.settings, pair.a.settings.keyring, pair.clock, let_in=let_in)
    claim = await pair.running()
    with pytest.raises(MigrationRefused, match="pool b is another tenant's") as refused:
        await mover.migrate("a", TENANT, claim.id, "b")
    assert refused.value.reason is MigrationRefusalReason.STRANGER
    rows["b"].append(TENANT)
    await mover.migrate("a", TENANT, claim.id, "b")


async def test_a_supervisor_writes_what_stands_in_sql(pool: Pool, sqlite: Database, settings: Settings):
    """Owner and those let in; a pool that is shared, or has no row, is everybody's."""
    ours, other = [(await create_tenant(sqlite, name)).tenant_id for name in ("acme", "other")]
    writer = TenantsLetIn(settings, pool.queue)

    async def refuses() -> list[bool]:
        await writer.round(sqlite)
        asked = [request(tenant=tenant) for tenant in (ours, other)]
        return [isinstance(await pool.queue.enqueue(each), Refusal) for each in asked]

    assert await refuses() == [False, False]
    row = PoolRow(pool=pool.name, model="m", version="1", workers=1, labels={}, tenant_id=ours, made_ms=1)
    await create_pool(sqlite, row)
    assert await refuses() == [False, True]
    await edit_pool(sqlite, pool.name, {}, [other])
    assert await refuses() == [False, False]
    await edit_pool(sqlite, pool.name, {}, [])
    assert await refuses() == [False, True]
    await edit_pool(sqlite, pool.name, {"tenant_id": ""}, [])
    assert await refuses() == [False, False]


async def test_no_gateway_or_worker_lets_anybody_in(redis: Redis, redis_url: str, settings: Settings):
    """Only a supervisor's user writes whom its pool lets in; the scripts of all read it."""

    def queue(client: RedisClient) -> PoolQueue:
        return PoolQueue(client, "default", settings)

    async with client_of(redis, redis_url, SUPERVISOR) as supervisor:
        assert await queue(supervisor).admit([TENANT])
    for process in (GATEWAY, WORKER):
        client: Any = Redis.from_url(url_of(redis_url, await make_user(redis, process)))
        for refused in (queue(client).admit([]), client.delete("{p:default}admits")):
            with pytest.raises(ResponseError, match=r"(?i)no permissions"):
                await refused
        await client.aclose()
    async with client_of(redis, redis_url, GATEWAY) as gateway:
        assert isinstance(await queue(gateway).enqueue(request(tenant=OTHER)), Refusal)
