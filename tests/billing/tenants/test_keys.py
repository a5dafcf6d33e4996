"""Keys: who a secret belongs to, and when it no longer does."""

import asyncio

import msgspec
import pytest
from sqlmodel import col, select

from billing.audit.log import list_rows
from billing.audit.verify import verify_log
from billing.tables.tenants import TenantUser
from billing.tenants.key_ends import Which, revoke_key
from billing.tenants.key_links import key_for_link
from billing.tenants.keys import (
    KeyState,
    Principal,
    authenticate_key,
    create_key,
    key_state,
    list_keys,
    principal_of_key,
    rotate_key,
    successors,
)
from billing.tenants.tenancy import (
    CONTROL_CHANNEL,
    ControlNews,
    close_project,
    close_tenant,
    create_project,
    create_tenant,
    find_project,
)
from billing.tenants.users import close_user
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.tenants.a_key import a_key
from tests.support.patience import soon
from tests.support.redis import Redis


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
    assert (principal.user, principal.fixed_user) == (key.user_id, True)
    async with database.session() as session:
        names = select(TenantUser.name).where(col(TenantUser.tenant_id) == key.tenant_id)
        assert (await session.exec(names)).all() == ["alice"]


async def test_the_secret_itself_is_stored_nowhere(sqlite: Database) -> None:
    """Whoever reads the table can sign in as nobody."""
    key, secret = await a_key(sqlite)
    _, prefix, rest = secret.split("_")
    assert key.prefix == prefix
    assert rest not in repr(key.model_dump())


async def test_a_wrong_secret_is_nobody(sqlite: Database) -> None:
    """Right prefix with a wrong rest, an unknown prefix, and things that are no key at all."""
    _, secret = await a_key(sqlite)
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
        assert await authenticate_key(sqlite, wrong) is None


async def test_an_expired_key_is_nobody(database: Database) -> None:
    """From its last millisecond on."""
    key, secret = await a_key(database, expires_ms=now_ms() + 3_600_000)
    assert await authenticate_key(database, secret) is not None
    async with database.transaction() as session:
        key.expires_ms = now_ms()
        await session.merge(key)
    assert await authenticate_key(database, secret) is None


async def test_keys_of_what_is_closed_are_nobody(database: Database, redis: Redis) -> None:
    """Closing a tenant, a project or a user needs no key to be revoked one by one, and can be undone."""
    key, secret = await a_key(database, user="alice")
    tenant = key.tenant_id

    async def who() -> tuple[Principal | None, Principal | None]:
        return await authenticate_key(database, secret), await principal_of_key(database, tenant, key.id)

    assert None not in await who()
    for closing in (
        lambda closed: close_tenant(database, redis, tenant, closed),
        lambda closed: close_project(database, redis, tenant, key.project_id, closed),
        lambda closed: close_user(database, redis, tenant, "alice", closed),
    ):
        await closing(True)
        assert await who() == (None, None)
        await closing(False)
        assert None not in await who()


async def test_nothing_closed_gets_a_key(sqlite: Database, redis: Redis) -> None:
    """It would be refused from its first use on."""
    key, _ = await a_key(sqlite, user="alice")
    await close_user(sqlite, redis, key.tenant_id, "alice")
    with pytest.raises(Refused, match="user 'alice' is closed"):
        await create_key(sqlite, key.tenant_id, key.project_id, user="alice")
    await close_project(sqlite, redis, key.tenant_id, key.project_id)
    with pytest.raises(Refused, match="project 'default' is closed"):
        await create_key(sqlite, key.tenant_id, key.project_id)
    await close_tenant(sqlite, redis, key.tenant_id)
    with pytest.raises(Refused, match="tenant 'acme' is closed"):
        await create_key(sqlite, key.tenant_id, key.project_id)


async def test_a_revoked_key_is_nobody_and_the_gateways_hear_of_it(database: Database, redis: Redis) -> None:
    """The row decides; the news ends connections that are open."""
    key, secret = await a_key(database)
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await soon(listener.get_message(timeout=None))
        assert await revoke_key(database, redis, key.tenant_id, key.prefix) is not None
        news = await soon(listener.get_message(timeout=None))
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


async def test_a_rotation_without_overlap_ends_the_old_key_at_once(sqlite: Database, redis: Redis) -> None:
    """And the gateways hear of it: they would keep connections open until they next look."""
    old, old_secret = await a_key(sqlite)
    async with redis.pubsub() as listener:
        await listener.subscribe(CONTROL_CHANNEL)
        await soon(listener.get_message(timeout=None))
        new, new_secret = await rotate_key(sqlite, old.tenant_id, old.id, 0, redis)
        news = await soon(listener.get_message(timeout=None))
    assert await authenticate_key(sqlite, old_secret) is None
    assert await authenticate_key(sqlite, new_secret) is not None
    assert news is not None
    heard = bytes(news["data"] or b"")  # type: ignore[arg-type]
    assert msgspec.json.decode(heard, type=ControlNews) == ControlNews("access_changed", old.tenant_id)
    listed = await list_keys(sqlite, old.tenant_id)
    followed = successors(listed)
    assert followed == {old.id: new}
    assert [key_state(key, followed, now_ms()) for key in listed] == [KeyState.EXPIRED, KeyState.ACTIVE]


async def test_a_chain_of_successors_has_no_branches(database: Database, redis: Redis) -> None:
    """A key that was rotated, has expired or was revoked is not rotated again: nobody would know which of two
    successors is in use, and a dead key would come back to life."""
    old, _ = await a_key(database)
    new, _ = await rotate_key(database, old.tenant_id, old.id, overlap_seconds=3600)
    with pytest.raises(Refused, match=f"its successor is pk_{new.prefix}"):
        await rotate_key(database, old.tenant_id, old.id, overlap_seconds=0)
    last, _ = await rotate_key(database, old.tenant_id, f"pk_{new.prefix}", overlap_seconds=3600)
    await revoke_key(database, redis, old.tenant_id, last.id, Which.NEW)
    with pytest.raises(Refused, match=r"unknown or revoked .*by its id or prefix"):
        await rotate_key(database, old.tenant_id, last.id, overlap_seconds=3600)
    listed = await list_keys(database, old.tenant_id)
    followed = successors(listed)
    assert [key_state(key, followed, now_ms()) for key in listed] == [
        KeyState.ROTATED,
        KeyState.ROTATED,
        KeyState.REVOKED,
    ]
    gone = await create_key(database, old.tenant_id, old.project_id, expires_ms=now_ms() + 3_600_000)
    async with database.transaction() as session:
        gone[0].expires_ms = now_ms()
        await session.merge(gone[0])
    with pytest.raises(Refused, match="has expired"):
        await rotate_key(database, old.tenant_id, gone[0].id, overlap_seconds=3600)


async def test_the_lower_priority_of_key_and_tenant_counts(sqlite: Database) -> None:
    """A key cannot raise its tenant."""
    tenant = await create_tenant(sqlite, "acme", priority_max="bulk")
    project = await create_project(sqlite, tenant.tenant_id, "research")
    _, secret = await create_key(sqlite, tenant.tenant_id, project.id, priority_max="interactive")
    principal = await authenticate_key(sqlite, secret)
    assert principal is not None
    assert principal.priority_max == "bulk"


async def test_unknown_scopes_priorities_and_projects_are_refused(sqlite: Database) -> None:
    """With the words that are known."""
    tenant = await create_tenant(sqlite, "acme")
    with pytest.raises(Refused, match="choose from chat"):
        await create_key(sqlite, tenant.tenant_id, "p", scopes=("all",))
    with pytest.raises(Refused, match="choose from interactive"):
        await create_key(sqlite, tenant.tenant_id, "p", priority_max="urgent")
    with pytest.raises(Refused, match="no such project"):
        await create_key(sqlite, tenant.tenant_id, "p")
    project = await find_project(sqlite, tenant.tenant_id, "default")
    assert project is not None
    with pytest.raises(Refused, match="expired already"):
        await create_key(sqlite, tenant.tenant_id, project.id, expires_ms=now_ms())
    with pytest.raises(Refused, match="choose from chat"):
        await create_key(sqlite, tenant.tenant_id, project.id, scopes=())


async def test_a_tenant_has_so_many_keys_that_work(sqlite: Database, redis: Redis) -> None:
    """Those that are revoked or expired make room."""
    first, _ = await a_key(sqlite, keys_max=2)
    await create_key(sqlite, first.tenant_id, first.project_id, keys_max=2)
    with pytest.raises(Refused, match="PARLEY_KEYS_PER_TENANT_MAX"):
        await create_key(sqlite, first.tenant_id, first.project_id, keys_max=2)
    await revoke_key(sqlite, redis, first.tenant_id, first.id)
    await create_key(sqlite, first.tenant_id, first.project_id, keys_max=2)


async def test_keys_that_are_made_at_once_are_not_too_many(database: Database) -> None:
    """Counting and making are one: of eight at once, two find room. Rotating at once makes one successor."""
    first, _ = await a_key(database, keys_max=3)
    made = await asyncio.gather(
        *(create_key(database, first.tenant_id, first.project_id, keys_max=3) for _ in range(8)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in made) == ["Refused"] * 6 + ["tuple"] * 2
    rotated = await asyncio.gather(
        *(rotate_key(database, first.tenant_id, first.id, 3600) for _ in range(4)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in rotated) == ["Refused"] * 3 + ["tuple"]


async def test_rotating_and_revoking_at_once_never_wait_in_a_circle(database: Database, redis: Redis) -> None:
    """Each takes the chain's head last."""
    keys = [(await a_key(database))[0]]
    keys += [(await create_key(database, keys[0].tenant_id, keys[0].project_id))[0] for _ in range(5)]
    tenant = keys[0].tenant_id
    done = await asyncio.gather(
        *(rotate_key(database, tenant, key.id, 3600) for key in keys),
        *(revoke_key(database, redis, tenant, key.id) for key in keys),
        return_exceptions=True,
    )
    assert {type(each).__name__ for each in done if isinstance(each, Exception)} <= {"Refused"}
    assert (await verify_log(database, tenant)).faults == []


async def test_each_change_of_a_key_leaves_a_row_without_its_secret(sqlite: Database, redis: Redis) -> None:
    """Neither the secret nor its hash is in the audit log."""
    key, secret = await a_key(sqlite)
    new, new_secret = await rotate_key(sqlite, key.tenant_id, key.id, 3600)
    await revoke_key(sqlite, redis, key.tenant_id, key.id)
    await revoke_key(sqlite, redis, key.tenant_id, key.id)
    rows = [row for row in await list_rows(sqlite, key.tenant_id) if row.action.startswith("key.")]
    assert [(row.action, row.target) for row in reversed(rows)] == [
        ("key.create", key.id),
        ("key.rotate", key.id),
        ("key.revoke", key.id),
        ("key.revoke", new.id),
    ]
    said = "".join(row.before + row.after for row in rows)
    for hidden in (secret[-48:], new_secret[-48:], key.secret_sha256, new.secret_sha256):
        assert hidden not in said


async def test_a_secret_in_place_of_a_keys_name_is_not_repeated(database: Database) -> None:
    """Whoever pastes all of a key where its prefix belongs is told so, without the secret."""
    key, secret = await a_key(database)
    with pytest.raises(Refused) as refused:
        await key_for_link(database, key.tenant_id, secret, "ann")
    assert secret not in str(refused.value)
    assert "that is a key's secret" in str(refused.value)
