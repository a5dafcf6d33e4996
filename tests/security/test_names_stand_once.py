"""A person's name stands once: clients and people say it, all else holds an id."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from billing.api import create_key, create_tenant, set_budget, set_policy, user_id
from billing.audit.verify import verify_log
from billing.posting.biller import post
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.ledger import compare_audit, compare_derived, compare_ledger
from billing.tables.tenants import TenantUser
from billing.tenants.erasure import erase_user
from billing.tenants.users import close_user
from billing.usage import ENDED_FIELD, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from server.conversations.erasure import erase_texts
from tests.server.http_site import HttpSite, bearer
from tests.server.site import Site, running_site
from tests.support.redis import Redis
from tests.support.tables import tables_with

NAME, LABEL = "Grace-Hopper-1906", "cobol"


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway."""
    async with running_site(settings, sqlite, redis) as site:
        yield site


async def redis_with(redis: Redis, word: str) -> set[bytes]:
    """The keys of Redis that have a word in their name or in what they hold."""
    client: Any = redis
    found = set[bytes]()
    for key in await client.keys("*"):
        kind = (await client.type(key)).decode()
        read = {
            "string": lambda key=key: client.get(key),
            "hash": lambda key=key: client.hgetall(key),
            "set": lambda key=key: client.smembers(key),
            "list": lambda key=key: client.lrange(key, 0, -1),
            "zset": lambda key=key: client.zrange(key, 0, -1),
            "stream": lambda key=key: client.xrange(key),
        }[kind]
        if word.encode() in key or word in repr(await read()):
            found.add(key)
    return found


async def use_everything(site: Site) -> None:
    """Name somebody wherever a client or an administrator may: keys, limits, tickets, turns."""
    database, redis, tenant = site.database, site.redis, site.tenant
    id = await user_id(database, tenant, NAME)
    await set_policy(
        database, redis, tenant, scope="user", scope_id=id, dimension="requests_per_minute", limit=99
    )
    await set_budget(
        database, redis, tenant, scope="user", scope_id=id, period="month", limit_nano=1_000_000_000
    )
    _, own = await create_key(database, tenant, site.project, user=NAME)
    metadata = {"user": NAME, "label": LABEL}
    async with httpx.AsyncClient(base_url=site.url, verify=False) as client, site.answering("hi"):
        reply = await client.post("/v1/tickets", headers=bearer(site.key), json={"user": NAME})
        for key in (site.key, own, reply.json()["ticket"]):
            async with site.welcomed(key) as peer:
                turn = await peer.send("hello", metadata=metadata, conversation=uuid7(now_ms()))
                await peer.hear("accepted", id=turn)
                await site.crew_ended(turn)
        me = await client.get("/v1/me", headers=bearer(own))
        assert me.json()["user"] == NAME
        limits = (await client.get("/v1/limits", headers=bearer(own))).json()
    assert {each["scope_id"] for each in limits["limits"] + limits["budgets"]} == {NAME}
    stream: Any = redis
    events = [fields[ENDED_FIELD.encode()] for _, fields in await stream.xrange(ended_stream("default"))]
    _, posted = await post(database, "default", events)
    assert len(posted) == 3
    assert {each.row.user_id for each in posted} == {id}


async def test_a_name_stands_in_one_table_and_nowhere_else(gateway: Site):
    """Not in tickets, sessions, admissions, prompts, logs, events, usage, labels, sums, limits, nor the audit
    log; who reads reads names; and once it is erased there, it is nowhere and every chain is whole."""
    await use_everything(gateway)
    database, redis, tenant = gateway.database, gateway.redis, gateway.tenant
    assert await tables_with(database, NAME) == {"tenant_user"}
    assert await redis_with(redis, NAME) == set()
    assert await tables_with(database, LABEL) == {"usage_event"}
    closed = await close_user(database, redis, tenant, NAME)
    assert closed.id != NAME
    await erase_texts(database, redis, gateway.settings, tenant, closed.id)
    assert await erase_user(database, tenant, closed.id) == closed.id
    assert await tables_with(database, NAME) == set()
    assert await tables_with(database, LABEL) == set()
    books, _ = await compare_ledger(database, tenant, now_ms(), whole=True)
    compared = [*books, await compare_audit(database, tenant, now_ms(), whole=True)]
    compared += await compare_derived(database, tenant, whole=True)
    assert [each for each in compared if each.state is not ComparisonState.EQUAL] == []
    assert (await verify_log(database, tenant)).faults == []


async def test_a_gateway_that_missed_the_news_lets_nobody_be_who_was_erased(site: HttpSite, redis: Redis):
    """Until it looks again the name is closed; then it is a new person's, who finds nothing of the old."""
    edge = site.edge
    old = await edge.users.id_of(site.tenant, NAME)
    closed = await close_user(edge.db, redis, site.tenant, NAME)
    assert await erase_user(edge.db, site.tenant, closed.id) == old
    reply = await site.client.post("/v1/tickets", headers=site.bearer, json={"user": NAME})
    assert (reply.status_code, reply.json()["error"]["message"]) == (403, "this user is closed")
    edge.users.changed()
    assert await edge.users.id_of(site.tenant, NAME) != old
    assert await edge.users.name_of(site.tenant, old) == f"(erased {old[-8:]})"


async def test_a_gateway_takes_nobody_for_another_tenants_user_of_that_name(site: HttpSite, redis: Redis):
    """Neither by name, nor by an id that was a name once, nor where one of the two is closed."""
    edge, other = site.edge, (await create_tenant(site.edge.db, "other")).tenant_id
    ids = [await edge.users.id_of(tenant, NAME) for tenant in (site.tenant, other, site.tenant)]
    assert ids[0] == ids[2] != ids[1]
    old = "u_of_old"
    async with edge.db.transaction() as session:
        for tenant, name in ((site.tenant, "ann"), (other, "bob")):
            session.add(TenantUser(tenant_id=tenant, id=old, name=name, created_ms=1))
    names = [await edge.users.name_of(tenant, old) for tenant in (site.tenant, other, site.tenant)]
    assert names == ["ann", "bob", "ann"]
    await close_user(edge.db, redis, site.tenant, "ann")
    assert [await edge.closed_users.has(tenant, old) for tenant in (site.tenant, other)] == [True, False]
