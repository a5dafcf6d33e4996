"""The fleet's controller under its own users: it sees and resizes supervisors, and reaches nothing else."""

from typing import Any

import pytest
from redis.exceptions import NoPermissionError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from billing.api import create_tenant
from billing.pools import (
    PoolRow,
    WantedVersion,
    create_pool,
    read_pools,
    switch_version,
    tell_routes,
    tenants_let_in,
    use_version,
)
from core.access.processes import FLEET
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import PoolQueue
from engine.fleet.local_hands import LocalHands
from engine.fleet.next_steps import NextStep, StepKind
from engine.fleet.observed import FleetNow
from engine.fleet.roll_facts import pinned_requests
from engine.fleet.states import end_lease, hold_lease, node_row, read_states, write_states
from engine.node.reports import NodeReport, PoolNodes, WorkerOrder, WorkerOrderKind
from tests.engine.fleet.world import target
from tests.security.database_roles import as_role
from tests.security.database_roles import roles as roles  # the fixture
from tests.support.redis import Redis
from tests.support.users import client_of, make_user, url_of

FORBIDDEN = (
    "SELECT 1 FROM tenant",
    "UPDATE pool_admission SET tenant_id = ''",
    "UPDATE model_version SET enabled = false",
)
COMMANDS = (
    ("GET", "{p:default}in:t:1"),
    ("HSET", "{p:default}req:t:1", "status", "x"),
    ("SET", "{t:t}sess:1", "x"),
)


async def test_supervisors_are_seen_and_resized(
    redis: Redis, redis_url: str, settings: Settings, sqlite: Database
):
    """By its own user, in any pool, with which version requests pin; what requests say it can not read, nor
    change one."""
    nodes = PoolNodes(PoolQueue(redis, "default", settings))
    await nodes.report(NodeReport("s1", "elsewhere", 1, [], workers=2))
    await redis.zadd("{p:default}deadlines", {"t:1": 7_000})
    await redis.hset("{p:default}req:t:1", mapping={"fingerprint": "f1"})
    async with client_of(redis, redis_url, FLEET) as client:
        hands = LocalHands(settings.model_copy(update={"fleet_workers_max": 4}), sqlite, client)
        (seen,) = (await hands.observe([target("default", 2)])).pools["default"].supervisors
        assert await pinned_requests(client, "default") == ({"f1": 1}, {"f1": 7_000})
        assert (seen.name, seen.node, seen.workers) == ("s1", "elsewhere", 2)
        await hands.act(NextStep("default", StepKind.RESIZE, 3, "s1"), None)
        await tell_routes(client)
    denied: Any = Redis.from_url(url_of(redis_url, await make_user(redis, FLEET)))
    for command in COMMANDS:
        with pytest.raises(NoPermissionError):
            await denied.execute_command(*command)
    await denied.aclose()
    assert await nodes.next_order("s1", 1, resizes=True) == WorkerOrder(WorkerOrderKind.RESIZE, "3")


@pytest.mark.postgres
async def test_pools_are_read_and_states_written(roles: str):
    """By its own role."""
    db = Database(as_role(roles, FLEET))
    try:
        assert await hold_lease(db, "c", 1)
        assert await read_pools(db) == []
        await write_states(db, [], node_row(FleetNow("n", 1), "c", 1))
        assert await read_states(db) == []
        await end_lease(db, "c")
        for statement in FORBIDDEN:
            async with db.session() as session:
                with pytest.raises(DBAPIError, match="permission denied"):
                    await (await session.connection()).execute(text(statement))
    finally:
        await db.close()


@pytest.mark.postgres
async def test_a_supervisor_that_it_starts_reads_whom_the_pool_lets_in(roles: str):
    """It comes in to Postgres as the fleet does, which switches the pool to its next version."""
    owner, db = Database(roles), Database(as_role(roles, FLEET))
    try:
        acme = (await create_tenant(owner, "acme")).tenant_id
        facts: dict[str, Any] = {"model": "m", "version": "1", "workers": 1, "labels": {}, "made_ms": 1}
        await create_pool(owner, PoolRow(pool="own", tenant_id=acme, **facts))
        assert await tenants_let_in(db, "own") == [acme]
        wanted = await use_version(owner, "own", WantedVersion("2"))
        switched = await switch_version(db, "own", wanted.generation, "2")
        assert switched is not None
        assert switched.version == "2"
    finally:
        await owner.close()
        await db.close()
