"""Which pools there are is not a worker's to say: nobody looks at one that a worker made up."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from billing.pools import fill_pool
from core.access.processes import SUPERVISOR, WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.observability.telemetry import logger
from core.redis.pools import POOLS_MAX, ByPool, announce_pool, announced_pools, known_pools
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.api import LogReader, PoolQueue
from engine.main import announce_alone
from engine.node.supervisor import Supervisor
from server.context import make_context
from server.pool_services import PoolServices
from server.reading.subscriptions import RequestName
from tests.server.conftest import gateway as gateway
from tests.server.http_site import subscriptions_of
from tests.server.site import Site
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.users import client_of, make_user, url_of

POOL = "default"


async def test_a_worker_that_joins_announces_no_pool(redis: Redis, redis_url: str, settings: Settings):
    """Its user may not, and it does without."""
    async with client_of(redis, redis_url, WORKER) as client:
        await PoolQueue(client, POOL, settings).register("w1", "f", {"kv_tokens": 1})
    assert await announced_pools(redis, settings) == set()


async def test_a_supervisor_announces_its_pool(redis: Redis, redis_url: str, settings: Settings):
    """By its own Redis user, and again where Redis has lost it."""
    async with client_of(redis, redis_url, SUPERVISOR) as client:
        tasks = [asyncio.create_task(loop) for loop in Supervisor(settings, client, 0).loops()]
        try:
            for _ in range(2):
                await wait_until(lambda: known(redis, settings, POOL))
                await redis.delete("parley:pools")
        finally:
            await cancel_tasks(tasks)


async def known(redis: Redis, settings: Settings, pool: str) -> bool:
    return pool in await known_pools(redis, settings)


async def test_a_worker_without_a_supervisor_announces_where_it_may(
    redis: Redis, redis_url: str, settings: Settings
):
    """In development all have one user; a worker's own says that it may not, and works."""
    task = asyncio.create_task(announce_alone(redis, settings))
    try:
        await wait_until(lambda: known(redis, settings, POOL))
    finally:
        await cancel_tasks([task])
    client = Redis.from_url(url_of(redis_url, await make_user(redis, WORKER)))
    with capture_logs() as lines:
        await announce_alone(client, settings.model_copy(update={"pool": "another"}))
    assert [line["event"] for line in lines] == ["worker.announce_denied"]
    assert await announced_pools(redis, settings) == {POOL}
    await client.aclose()


async def test_a_gateway_announces_the_pools_that_have_rows(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Those that SQL names, and its own."""
    await fill_pool(sqlite, "big", "other", "1", 1)
    hub = subscriptions_of(make_context(settings, "gw-test", sqlite, redis))
    await hub.start()
    running = asyncio.create_task(hub.run())
    assert await announced_pools(redis, settings) == {POOL, "big"}
    await cancel_tasks([running])


@pytest.mark.parametrize("made_up", ["made-up", POOL])
async def test_a_pool_that_a_record_names_is_not_followed(
    made_up: str, redis: Redis, sqlite: Database, settings: Settings
):
    """Where a worker writes that a request has moved to a pool that there is not, or in a circle, its readers
    are told that it is lost, and nobody looks there."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    hub = subscriptions_of(edge)
    await hub.start()
    name = RequestName(POOL, "t1", uuid7(now_ms()))
    followed = hub.join(name, object())
    listener = PoolsHeard()
    followed.listeners[0] = listener
    record: Any = {
        **{"status": "moved", "dest": made_up, "class": "bulk", "worker": ""},
        **dict.fromkeys(("epoch", "o", "n", "control", "deadline", "accepted"), 1),
    }
    await redis.hset(f"{{p:{POOL}}}req:{name.tenant}:{name.id}", mapping=record)
    tasks = [asyncio.create_task(work) for work in (hub.run(), PoolServices(edge).run())]
    followed.heard_at -= 3_600
    try:
        await wait_until(lambda: listener.lost > 0)
        assert await edge.pools.recorders.give_up(name.tenant, name.id) is False
    finally:
        await cancel_tasks(tasks)
    assert await announced_pools(redis, settings) == {POOL}
    assert [set(each) for each in (edge.pools.queues, edge.pools.logs, edge.pools.recorders)] == [{POOL}] * 3


async def test_nobody_listens_to_a_pool_that_there_is_not(sqlite: Database, redis: Redis, settings: Settings):
    """Nor leaves a trace of its name: no lease, no queue. Once it is announced, both."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    hub = subscriptions_of(edge)
    try:
        assert await hub.follow("made-up") is False
        assert (await redis.keys("*"), set(edge.pools.queues)) == ([], {POOL})
        await announce_pool(redis, settings, "made-up")
        assert await hub.follow("made-up") is True
        assert await redis.keys("{p:made-up}*") != []
        assert "made-up" in edge.pools.queues
    finally:
        await hub.close()


class PoolsHeard:
    """A reader."""

    def __init__(self) -> None:
        self.lost = 0

    def news(self, entries: list[Any], head: int) -> None:
        """See Listener."""

    def broken(self) -> None:
        """See Listener."""
        self.lost += 1


async def test_a_request_whose_record_goes_in_a_circle_is_unknown(gateway: Site, redis: Redis):
    """To who cancels it, too."""
    async with gateway.welcomed() as peer:
        id = await peer.send("Hello?")
        await peer.hear("accepted")
        record = f"{{p:{POOL}}}req:{gateway.tenant}:{id}"
        assert await redis.exists(record)
        await redis.hset(record, mapping={"status": "moved", "dest": POOL})
        await peer.tell("cancel", id=id)
        assert (await peer.hear("cancel_ok"))["state"] == "pending"


async def test_only_so_many_pools_are_served(redis: Redis, settings: Settings):
    """The first in order, and a line says what to do; who erases leaves none out."""
    for number in range(POOLS_MAX + 5):
        await announce_pool(redis, settings, f"p{number:04}")
    with capture_logs() as lines:
        found = await known_pools(redis, settings)
        await known_pools(redis, settings)
    assert (len(found), max(found)) == (POOLS_MAX, f"p{POOLS_MAX - 1:04}")
    assert [(line["pools"], line["key"]) for line in lines] == [(POOLS_MAX + 5, "parley:pools")]
    assert len(await announced_pools(redis, settings)) == POOLS_MAX + 5


async def test_as_many_pools_as_are_served_are_no_crowd(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("core.redis.pools.repeated", logger(__name__))  # which says it however often
    for number in range(POOLS_MAX):
        await announce_pool(redis, settings, f"p{number:04}")
    with capture_logs() as lines:
        assert len(await known_pools(redis, settings)) == POOLS_MAX
    assert lines == []


async def test_what_is_no_name_of_a_pool_is_none(redis: Redis, settings: Settings):
    """A brace would lead its keys into another slot, or to another pool's; nobody is held up by any."""
    client: Any = redis
    bad = (b"a}b", b"a{b", b"{p:default}", b"\xff", b"", b" a", b"a\n", b"x" * 201, "e\u0301".encode())
    await client.sadd("parley:pools", *bad, "größe", "x" * 200)
    good = {"größe", "x" * 200}
    assert await known_pools(redis, settings) == await announced_pools(redis, settings) == good


def test_names_that_nobody_serves_are_not_kept(redis: Redis):
    """However many of them records name."""
    logs = ByPool(lambda pool: LogReader(redis, pool), POOL)
    for number in range(1_000):
        assert logs[f"made-up-{number}"] is not None
    assert (set(logs), len(logs), "made-up-1" in logs, POOL in logs) == ({POOL}, 1, False, True)
    assert logs["made-up-1"] is not logs["made-up-1"]
    logs.keep("big")
    kept = logs["big"]
    logs.keep("big")
    assert logs["big"] is kept
    assert len(logs) == 2
