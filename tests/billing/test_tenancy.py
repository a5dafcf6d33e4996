"""Tenants and keys: who a secret belongs to, and when it no longer does."""

import msgspec
import pytest
from redis.asyncio import Redis
from sqlmodel import col, select

from billing.tables import Account, ApiKey, Tenant
from billing.tenancy import (
    CONTROL_CHANNEL,
    ControlNews,
    authenticate_key,
    create_key,
    create_project,
    create_tenant,
    find_project,
    find_tenant,
    list_keys,
    list_tenants,
    revoke_key,
    rotate_key,
)
from core.clock import now_ms
from core.database import Database
from core.errors import Refused


async def a_key(db: Database, name: str = "acme", **options: object) -> tuple[ApiKey, str]:
    """A key of a new tenant's default project."""
    tenant = await create_tenant(db, name)
    project = await find_project(db, tenant.tenant_id, "default")
    assert project is not None
    return await create_key(db, tenant.tenant_id, project.id, **options)  # type: ignore[arg-type]


async def test_a_secret_belongs_to_the_principal_that_it_was_made_for(database: Database) -> None:
    """Tenant, project, key, scopes and priority come from the rows, never from the caller."""
    key, secret = await a_key(database, scopes=("chat", "requests:read"), priority_max="standard")
    principal = await authenticate_key(database, secret)
    assert principal is not None
    assert (principal.tenant, principal.project, principal.key) == (key.tenant_id, key.project_id, key.id)
    assert (principal.user, principal.fixed_user) == ("", False)
    assert principal.scopes == {"chat", "requests:read"}
    assert (principal.priority_max, principal.access_ends_ms) == ("standard", None)


async def test_a_key_bound_to_a_user_says_so(database: Database) -> None:
    """The user becomes known to the tenant, once however many keys they have."""
    key, secret = await a_key(database, user="alice")
    await create_key(database, key.tenant_id, key.project_id, user="alice")
    principal = await authenticate_key(database, secret)
    assert principal is not None
    assert (principal.user, principal.fixed_user) == ("alice", True)
    async with database.session() as session:
        accounts = select(Account.id).where(col(Account.tenant_id) == key.tenant_id)
        assert (await session.exec(accounts)).all() == ["alice"]


async def test_the_secret_itself_is_stored_nowhere(database: Database) -> None:
    """Whoever reads the table can sign in as nobody."""
    key, secret = await a_key(database)
    _, prefix, rest = secret.split("_")
    assert key.prefix == prefix
    assert rest not in repr(key.model_dump())


async def test_a_wrong_secret_is_nobody(database: Database) -> None:
    """Right prefix with a wrong rest, an unknown prefix, and things that are no key at all."""
    _, secret = await a_key(database)
    other = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    for wrong in (
        other,
        "pk_" + "0" * 12 + "_" + "0" * 48,
        "",
        "pk__",
        secret + "\n",
        secret.upper(),
        "pk_é",
    ):
        assert await authenticate_key(database, wrong) is None


async def test_an_expired_key_is_nobody(database: Database) -> None:
    """From its last millisecond on."""
    _, secret = await a_key(database, expires_ms=now_ms() - 1)
    assert await authenticate_key(database, secret) is None


async def test_keys_of_a_closed_tenant_are_nobody(database: Database) -> None:
    """Closing a tenant needs no key to be revoked one by one."""
    key, secret = await a_key(database)
    async with database.transaction() as session:
        tenant = (await session.exec(select(Tenant).where(col(Tenant.tenant_id) == key.tenant_id))).one()
        tenant.closed_ms = now_ms()
        session.add(tenant)
    assert await authenticate_key(database, secret) is None


async def test_a_revoked_key_is_nobody_and_the_gateways_hear_of_it(database: Database, redis: Redis) -> None:
    """The row decides; the news ends connections that are open."""
    key, secret = await a_key(database)
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await listener.get_message(timeout=5)
        assert await revoke_key(database, redis, key.tenant_id, key.prefix) is not None
        news = await listener.get_message(timeout=5)
    assert news is not None
    heard = bytes(news["data"] or b"")  # type: ignore[arg-type]
    assert msgspec.json.decode(heard, type=ControlNews) == ControlNews(
        kind="key_revoked", tenant=key.tenant_id, key=key.id
    )
    assert await authenticate_key(database, secret) is None


async def test_nobody_revokes_another_tenants_key(database: Database, redis: Redis) -> None:
    """Another tenant's key answers like one that does not exist."""
    key, secret = await a_key(database)
    stranger = await create_tenant(database, "stranger")
    assert await revoke_key(database, redis, stranger.tenant_id, key.id) is None
    assert await authenticate_key(database, secret) is not None
    assert await list_keys(database, stranger.tenant_id) == []


async def test_a_rotated_key_has_a_successor_with_the_same_rights(database: Database) -> None:
    """Both work during the overlap; then only the new one."""
    old, old_secret = await a_key(database, user="alice", scopes=("requests:read",))
    new, new_secret = await rotate_key(database, old.tenant_id, old.id, overlap_seconds=3600)
    first, second = await authenticate_key(database, old_secret), await authenticate_key(database, new_secret)
    assert first is not None
    assert second is not None
    assert (first.user, first.scopes) == (second.user, second.scopes)
    assert new.rotated_from == old.id
    assert first.access_ends_ms is not None
    assert second.access_ends_ms is None
    await rotate_key(database, old.tenant_id, old.id, overlap_seconds=0)
    assert await authenticate_key(database, old_secret) is None


async def test_the_lower_priority_of_key_and_tenant_counts(database: Database) -> None:
    """A key cannot raise its tenant."""
    tenant = await create_tenant(database, "acme", priority_max="bulk")
    project = await create_project(database, tenant.tenant_id, "research")
    _, secret = await create_key(database, tenant.tenant_id, project.id, priority_max="interactive")
    principal = await authenticate_key(database, secret)
    assert principal is not None
    assert principal.priority_max == "bulk"


async def test_names_are_unique_and_found_again(database: Database) -> None:
    """A tenant, and a project within its tenant, is found by name or by id."""
    tenant = await create_tenant(database, "acme")
    with pytest.raises(Refused, match="already"):
        await create_tenant(database, "acme")
    with pytest.raises(Refused, match="already"):
        await create_project(database, tenant.tenant_id, "default")
    other = await create_tenant(database, "other")
    await create_project(database, other.tenant_id, "only theirs")
    assert await find_project(database, tenant.tenant_id, "only theirs") is None
    assert await find_tenant(database, "acme") == await find_tenant(database, tenant.tenant_id) == tenant
    assert [each.name for each in await list_tenants(database)] == ["acme", "other"]


@pytest.mark.parametrize("name", ["", " acme", "a\nb", "a\x00b", "x" * 201])
async def test_what_is_no_name_is_refused(database: Database, name: str) -> None:
    """Before the database sees it."""
    with pytest.raises(Refused, match="is no tenant name"):
        await create_tenant(database, name)


async def test_unknown_scopes_priorities_and_projects_are_refused(database: Database) -> None:
    """With the words that are known."""
    tenant = await create_tenant(database, "acme")
    with pytest.raises(Refused, match="choose from chat"):
        await create_key(database, tenant.tenant_id, "p", scopes=("all",))
    with pytest.raises(Refused, match="choose from interactive"):
        await create_key(database, tenant.tenant_id, "p", priority_max="urgent")
    with pytest.raises(Refused, match="no such project"):
        await create_key(database, tenant.tenant_id, "p")
