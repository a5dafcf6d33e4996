"""A pool on a two-node cluster with split slots. Each script of the tree: tests/system/test_scripts.py."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.crc import key_slot
from redis.exceptions import NoPermissionError, ResponseError

from core.access.processes import GATEWAY, WORKER, ProcessKind
from core.access.redis_acl import rules
from core.redis.client import RedisClient
from core.redis.redis_connections import connect_url
from core.redis.scripts import load_scripts
from engine.api import (
    Enqueued,
    HintChannel,
)
from engine.queue import redis_keys
from tests.engine.builders import FINGERPRINT, Pool, request
from tests.engine.queue.cluster_day import (
    POOLS,
    everything,
)
from tests.support.cluster import SLOTS
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.patience import soon
from tests.support.redis import Redis


async def test_the_pools_are_on_different_nodes(cluster: RedisClient):
    """Else the tests here would prove nothing."""
    client: Any = cluster
    ports = {client.get_node_from_key(redis_keys.system(pool)).port for pool in POOLS}
    assert len(ports) == 2


async def test_every_script_runs_under_a_gateways_user(cluster: RedisClient, cluster_url: str):
    """Made on each node; a worker's comes to its own pool and to no other."""
    client: Any = cluster
    for node in client.get_primaries():
        async with Redis.from_url(f"redis://{node.host}:{node.port}") as admin:
            for process in (GATEWAY, WORKER):
                allowed = rules(process, "parley", POOLS[0])
                await admin.execute_command("ACL", "SETUSER", process.name, "reset", "on", ">pw", *allowed)
    await load_scripts(cluster)
    async with user_of(cluster_url, GATEWAY) as gateway, user_of(cluster_url, WORKER) as worker:
        await everything(Pool(gateway, name=POOLS[1]))
        own, other = (Pool(worker, name=name).queue for name in POOLS[:2])
        await own.register("w9", FINGERPRINT, {"kv_tokens": 1})
        with pytest.raises(NoPermissionError):
            await other.register("w9", FINGERPRINT, {"kv_tokens": 1})


@contextlib.asynccontextmanager
async def user_of(url: str, process: ProcessKind) -> AsyncGenerator[RedisClient]:
    """A client of the cluster that is one of its users."""
    client: Any = connect_url(url.replace("://", f"://{process.name}:pw@"))
    try:
        await client.ping()
        yield client
    finally:
        await client.aclose()


async def test_one_client_serves_pools_on_both_nodes(cluster: RedisClient):
    """A gateway follows both; neither node's silence holds up the other's hints."""
    hints = HintChannel(cluster, "g1")
    pools = [Pool(cluster, name=name) for name in POOLS]
    for p in pools:
        await hints.follow(p.name)
    stream = aiter(hints)
    for p in [*pools, *pools]:
        e = request(gateway="g1")
        assert isinstance(await p.queue.enqueue(e), Enqueued)
        heard = await soon(anext(stream))
        assert (heard.pool, heard.id) == (p.name, e.id)
    await hints.close()


async def test_a_key_of_another_slot_is_refused(cluster: RedisClient):
    """INV-12: Even by a script whose own keys are on the same node: `#!lua` checks each access."""
    client: Any = cluster
    stranger = next(f"k{at}" for at in range(1000) if key_slot(f"k{at}".encode()) < SLOTS // 2)
    source = f"#!lua\nreturn redis.call('GET', '{stranger}')"
    with pytest.raises(ResponseError, match=r"(?i)slot"):
        await client.eval(source, 1, redis_keys.system(POOLS[0]))
