"""Tenants, their projects and their users."""

import asyncio

import pytest

from billing.audit.log import list_rows
from billing.enforcement.limit_settings import set_policy
from billing.enforcement.plans import create_plan
from billing.tables.tenants import TenantUser
from billing.tenants.keys import create_key
from billing.tenants.tenancy import (
    close_project,
    close_tenant,
    create_project,
    create_tenant,
    find_project,
    find_tenant,
    list_tenants,
    set_tenant,
)
from billing.tenants.users import close_user, create_user, list_users, user_id, user_is_closed
from core.errors import Refused
from core.names import storable_name
from core.sql.database import Database
from tests.support.redis import Redis


async def test_names_are_unique_and_found_again(database: Database) -> None:
    """A tenant, and a project within its tenant, is found by name or by id."""
    tenant = await create_tenant(database, "acme")
    with pytest.raises(Refused, match="no price book 'none'"):
        await create_tenant(database, "other", price_book="none")
    with pytest.raises(Refused, match="already"):
        await create_tenant(database, "acme")
    with pytest.raises(Refused, match="already"):
        await create_project(database, tenant.tenant_id, "default")
    other = await create_tenant(database, "other")
    await create_project(database, other.tenant_id, "only theirs")
    assert await find_project(database, tenant.tenant_id, "only theirs") is None
    assert await find_tenant(database, "acme") == await find_tenant(database, tenant.tenant_id) == tenant
    assert [each.name for each in await list_tenants(database)] == ["acme", "other"]


@pytest.mark.parametrize("name", ["", " acme", "a\nb", "a\x00b", "a\u202eb", "\ud800", "x" * 201])
async def test_what_is_no_name_is_refused(database: Database, redis: Redis, name: str) -> None:
    """Before the database sees it, whatever it would be the name of; and nothing is known by it."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    project = await create_project(database, tenant, "web")
    for making in (
        create_tenant(database, name),
        create_project(database, tenant, name),
        create_user(database, tenant, name),
        close_user(database, redis, tenant, name),
        create_plan(database, name),
        set_policy(
            database, redis, tenant, scope="user", scope_id=name or " ", dimension="concurrency", limit=1
        ),
    ):
        with pytest.raises(Refused, match="expected a name of 1 to 200 printable characters"):
            await making
    if name:
        with pytest.raises(Refused, match="key: expected a name of 1 to 200 printable characters"):
            await create_key(database, tenant, project.id, name=name)
        with pytest.raises(Refused, match="user: expected a name of 1 to 200 printable characters"):
            await create_key(database, tenant, project.id, user=name)
    assert await find_tenant(database, name) is None
    assert await find_project(database, tenant, name) is None


async def test_a_name_is_found_however_it_is_composed(database: Database, redis: Redis) -> None:
    """What is stored is the composed form; a user who was closed by one form is closed by both."""
    tenant = await create_tenant(database, "Zoe\u0308's")
    assert tenant.name == "Zo\u00eb's"
    assert await find_tenant(database, "Zoe\u0308's") == tenant
    await create_project(database, tenant.tenant_id, "Cafe\u0301")
    assert await find_project(database, tenant.tenant_id, "Cafe\u0301") is not None
    await create_user(database, tenant.tenant_id, "Zoe\u0308")
    closed = await close_user(database, redis, tenant.tenant_id, "Zoe\u0308")
    assert closed.name == "Zo\u00eb"
    assert await user_is_closed(database, tenant.tenant_id, closed.id)
    assert await user_id(database, tenant.tenant_id, "Zo\u00eb") == closed.id


async def test_a_closed_user_is_known_by_name(database: Database, redis: Redis) -> None:
    """Also one whom only service keys named; closing or opening twice changes nothing more."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await create_user(database, tenant, "alice")
    with pytest.raises(Refused, match="already"):
        await create_user(database, tenant, "alice")
    for name in ("alice", "bob", "bob"):
        await close_user(database, redis, tenant, name)
    ids = [await user_id(database, tenant, name) for name in ("alice", "bob")]
    assert [await user_is_closed(database, tenant, id) for id in (*ids, "carol")] == [True, True, False]
    await close_user(database, redis, tenant, "alice", closed=False)
    assert [(each.name, each.closed_ms is None) for each in await list_users(database, tenant)] == [
        ("alice", True),
        ("bob", False),
    ]
    other = (await create_tenant(database, "other")).tenant_id
    assert not await user_is_closed(database, other, ids[1])
    with pytest.raises(Refused, match="no user 'dave'"):
        await close_user(database, redis, tenant, "dave", closed=False)
    actions = [row.action for row in await list_rows(database, tenant)]
    assert actions == ["user.reopen", "user.close", "user.close", "user.create", "tenant.create"]


async def test_projects_and_users_are_so_many_at_most(sqlite: Database, redis: Redis) -> None:
    """What is closed makes room."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    first = await create_project(sqlite, tenant, "first", projects_max=2)
    with pytest.raises(Refused, match="PARLEY_PROJECTS_PER_TENANT_MAX"):
        await create_project(sqlite, tenant, "second", projects_max=2)
    await close_project(sqlite, redis, tenant, first.id)
    await create_project(sqlite, tenant, "second", projects_max=2)
    await create_user(sqlite, tenant, "alice", users_max=1)
    with pytest.raises(Refused, match="PARLEY_USERS_PER_TENANT_MAX"):
        await create_user(sqlite, tenant, "bob", users_max=1)
    await close_user(sqlite, redis, tenant, "alice")
    await create_user(sqlite, tenant, "bob", users_max=1)


async def test_a_closed_tenant_gets_nothing_new(sqlite: Database, redis: Redis) -> None:
    """Until it is open again."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    assert (await close_tenant(sqlite, redis, tenant)).closed_ms is not None
    with pytest.raises(Refused, match="is closed"):
        await create_project(sqlite, tenant, "research")
    with pytest.raises(Refused, match="is closed"):
        await create_user(sqlite, tenant, "alice")
    await close_tenant(sqlite, redis, tenant, closed=False)
    await create_project(sqlite, tenant, "research")


async def test_a_change_of_a_tenant_is_recorded_with_what_was_before(sqlite: Database) -> None:
    """And one that changes nothing is not."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    for _ in range(2):
        await set_tenant(sqlite, tenant, time_zone="Europe/Berlin", priority_max="interactive")
    newest, _ = await list_rows(sqlite, tenant)
    assert (newest.action, newest.before, newest.after) == (
        "tenant.set",
        '{"time_zone":"UTC"}',
        '{"time_zone":"Europe/Berlin"}',
    )


async def test_a_user_who_is_named_is_known_once(database: Database) -> None:
    """However many gateways name them at once; up to as many users as a tenant may have, and without a row of
    the audit log, which tells what administrators did."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    ids = await asyncio.gather(*(user_id(database, tenant, "zoe") for _ in range(8)))
    assert len(set(ids)) == 1
    assert "zoe" not in ids[0]
    assert await user_id(database, tenant, "zoe", users_max=1) == ids[0]
    with pytest.raises(Refused, match="PARLEY_USERS_PER_TENANT_MAX"):
        await user_id(database, tenant, "bob", users_max=1)
    other = (await create_tenant(database, "other")).tenant_id
    assert await user_id(database, other, "zoe") != ids[0]
    assert [row.action for row in await list_rows(database, tenant)] == ["tenant.create"]


@pytest.mark.parametrize("old", ["bob\x1b[31m", "line\r\nbreak", storable_name("nul\x00"), " spaced "])
async def test_a_user_of_before_the_rule_for_names_can_be_closed(
    database: Database, redis: Redis, old: str
) -> None:
    """Under the name that they were stored with, whatever is in it; nobody new gets such a name."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    async with database.transaction() as session:
        session.add(TenantUser(tenant_id=tenant, id=old, name=old, created_ms=1))
    closed = await close_user(database, redis, tenant, old)
    assert (closed.id, closed.closed_ms is not None) == (old, True)
    for unknown in ("bob\x1b", "nul\x00", "\ud800", "x" * 900):
        with pytest.raises(Refused):
            await close_user(database, redis, tenant, unknown)
