"""Erasing a person: their words and their name are nowhere, and the books and the audit log stay whole."""

import pytest
from sqlalchemy import inspect, text
from sqlmodel import col, select

from billing.alerts.targets import add_target, list_messages, list_targets, send_test
from billing.audit import view
from billing.audit.log import list_rows
from billing.audit.view import users_in
from billing.cli.erasure import held_of
from billing.ledger.grant_spending import GrantKind
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.tenants.cost_centers import create_cost_center
from billing.tenants.erasure import erase_tenant, erase_user, erased_tenants, opaque_id
from billing.tenants.keys import authenticate_key, create_key
from billing.tenants.sessions import open_session, principal_of_session
from billing.tenants.tenancy import close_tenant, create_project, create_tenant
from billing.tenants.users import close_user, create_user, known_users, list_users, user_named, user_names
from billing.usage import decode
from billing.wallets.wallets import NewGrant, grant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from engine.policies.store import PolicyStore
from engine.safety.documents import PolicyDocument, PolicyPattern
from server.conversations.erasure import erase_texts
from tests.security.erasure import LABEL, NAME, OTHERS, WORDS, ErasureContext, _scene, whole
from tests.security.erasure import scene as scene
from tests.support.redis import Redis
from tests.support.tables import tables_with


async def rows_of(database: Database, tenant: str) -> dict[str, list[str]]:
    """All that is kept of a tenant, by table."""
    found: dict[str, list[str]] = {}
    async with database.engine.connect() as connection:
        for name in await connection.run_sync(lambda sync: inspect(sync).get_table_names()):
            rows = (await connection.execute(text(f"SELECT * FROM {name}"))).all()
            found[name] = sorted(repr(tuple(row)) for row in rows if tenant in tuple(row))
    return {name: rows for name, rows in found.items() if rows}


async def test_a_user_who_is_erased_is_nowhere_and_all_chains_are_whole(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Only the audit log's rows from when ids were names still hold it, which is chained; bob keeps all."""
    caller = await authenticate_key(database, scene.secret)
    assert caller is not None
    await open_session(database, caller, settings, "192.0.2.1", WORDS)
    assert await tables_with(database, WORDS) == {"browser_session", "conversation", "message"}
    await close_user(database, redis, scene.tenant, NAME)
    assert await erase_texts(database, redis, settings, scene.tenant, NAME) == (1, 4)
    id = await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, WORDS) == set()
    assert await tables_with(database, LABEL) == set()
    assert await tables_with(database, NAME) == {"audit_log"}
    assert await whole(database, scene.tenant) == []
    assert await tables_with(database, OTHERS) == {"conversation", "message"}
    assert await authenticate_key(database, scene.secret) is None
    shown = await user_names(database, scene.tenant, [id])
    assert shown == {id: f"(erased {id[-8:]})"}
    assert [user.name for user in await list_users(database, scene.tenant)] == ["bob", None]
    assert await user_named(database, scene.tenant, NAME) is None
    rows = await list_rows(database, scene.tenant)
    names = await known_users(database, scene.tenant, {each for row in rows for each in users_in(row)})
    told = [view.row_shown(row, names) for row in rows]
    assert NAME not in repr(told)
    assert ("user.create", "(erased)") in [(row.action, row.target) for row in told]
    assert ("user.create", "bob") in [(row.action, row.target) for row in told]


async def test_another_tenants_user_of_the_same_name_keeps_everything(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Ids from when they were names, and conversations that clients named, are the same in two tenants."""
    other = await _scene(database, redis, "globex")
    before = await rows_of(database, other.tenant)
    assert {"conversation", "message", "api_key", "usage_quarantine", "budget"} <= set(before)
    await close_user(database, redis, scene.tenant, NAME)
    await erase_texts(database, redis, settings, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await rows_of(database, other.tenant) == before
    await close_tenant(database, redis, scene.tenant)
    await erase_texts(database, redis, settings, scene.tenant, None)
    await erase_tenant(database, scene.tenant)
    assert await rows_of(database, other.tenant) == before


async def test_who_was_beside_them_keeps_labels_and_held_events(
    database: Database, redis: Redis, scene: ErasureContext
):
    """Of the same tenant; and nobody else's tenant finds a name by an id."""
    bob = await user_named(database, scene.tenant, "bob")
    assert bob is not None

    async def kept() -> list[object]:
        async with database.session() as session:
            rows = (await session.exec(select(UsageRow).where(col(UsageRow.user_id) == bob.id))).all()
            owners = [
                decode(each.event).owner for each in (await session.exec(select(UsageQuarantine))).all()
            ]
        return [*(row.request_metadata for row in rows), *(each for each in owners if each.user == bob.id)]

    before = await kept()
    assert len(before) == 3
    await close_user(database, redis, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await kept() == before
    other = (await create_tenant(database, "globex")).tenant_id
    assert await user_names(database, other, [bob.id]) == {bob.id: bob.id}


async def test_two_who_are_erased_stay_two(database: Database, redis: Redis, scene: ErasureContext):
    """And who comes with the name of one of them is a third."""
    for name in (NAME, "bob"):
        await close_user(database, redis, scene.tenant, name)
    found = [await user_named(database, scene.tenant, name) for name in (NAME, "bob")]
    ids = [await erase_user(database, scene.tenant, user.id) for user in found if user]
    names = await user_names(database, scene.tenant, ids)
    assert len(set(names.values())) == 2
    assert (await create_user(database, scene.tenant, "bob")).closed_ms is None
    assert await whole(database, scene.tenant) == []


async def test_only_who_is_closed_can_be_erased(database: Database, scene: ErasureContext):
    """What is open could go on being used while it is erased."""
    with pytest.raises(Refused, match="only a closed user"):
        await erase_user(database, scene.tenant, NAME)
    with pytest.raises(Refused, match="only a closed tenant"):
        await erase_tenant(database, scene.tenant)


async def test_a_tenant_that_is_erased_leaves_amounts_and_ids(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """No text, no label, no name of anybody; another tenant's stay."""
    other = await create_tenant(database, "globex")
    await close_tenant(database, redis, scene.tenant)
    conversations, _ = await erase_texts(database, redis, settings, scene.tenant, None)
    assert conversations == 3
    assert await erase_tenant(database, scene.tenant) == 2
    for word in (WORDS, OTHERS, LABEL):
        assert await tables_with(database, word) == set()
    assert await tables_with(database, NAME) == {"audit_log"}
    assert await tables_with(database, "acme") == {"audit_log"}
    assert await whole(database, scene.tenant) == []
    assert "globex" in repr(other)
    async with database.session() as session:
        held = select(UsageQuarantine).where(col(UsageQuarantine.tenant_id) == scene.tenant)
        assert len((await session.exec(held)).all()) == 2


async def test_nothing_that_proves_or_reaches_anybody_outlives_a_tenant(
    database: Database, redis: Redis, settings: Settings, scene: ErasureContext
):
    """Keys, browsers, the webhook's secret and address, what was to be sent, and names beside people's."""
    db, tenant, word = database, scene.tenant, "left-of-acme"
    _, secret = await create_key(db, tenant, scene.project, name=word)
    caller = await authenticate_key(db, secret)
    assert caller is not None
    _, cookie, _ = await open_session(db, caller, settings, word, word)
    target = await add_target(db, tenant, "webhook", f"https://{word}.example.org/")
    await send_test(db, tenant, target.id)
    await create_project(db, tenant, word)
    await create_cost_center(db, tenant, word, word)
    await grant(db, tenant, NewGrant(GrantKind.PAID, 1, "g", note=word))
    kept = {
        "api_key",
        "browser_session",
        "alert_target",
        "cost_center",
        "wallet_grant",
        "audit_log",
        "project",
        "safety_policy",
    }
    rules = PolicyDocument(patterns=(PolicyPattern("own", word, "flag"),))
    for project in ("", scene.project):
        await PolicyStore(db).set(redis, tenant, project, rules, f"for {word}")
        await PolicyStore(db).set(redis, tenant, project, None, f"not for {word}")
    assert await tables_with(db, word) == kept
    await close_tenant(db, redis, tenant)
    await erase_texts(db, redis, settings, tenant, None)
    await erase_tenant(db, tenant)
    assert await tables_with(db, word) == {"audit_log"}
    assert await tables_with(db, target.secret) == set()
    assert await erased_tenants(db, [tenant, scene.project]) == {tenant}
    assert len(await PolicyStore(db).history(tenant, scene.project, 10)) == 2
    assert await whole(db, tenant) == []
    shown = [view.row_shown(row, {}, erased=True) for row in await list_rows(db, tenant)]
    assert shown
    assert not any(word in row.before + row.after for row in shown)
    await close_tenant(db, redis, tenant, closed=False)
    assert await authenticate_key(db, secret) is None
    assert await principal_of_session(db, cookie) is None
    assert (await list_targets(db, tenant), await list_messages(db, tenant)) == ([], [])


async def test_an_export_has_everything_of_a_user_and_nothing_of_others(
    database: Database, scene: ErasureContext
):
    """Texts in their own and in a service key's conversations, labels, keys, limits; no secret."""
    user = await user_named(database, scene.tenant, NAME)
    assert user is not None
    lines = [line async for line in held_of(database, user)]
    kinds = [line["kind"] for line in lines]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "user": 1,
        "key": 1,
        "budget": 1,
        "audit": 1,
        "request": 3,
        "alert": 3,
        "held": 1,
        "conversation": 1,
        "messages": 1,
    }
    booked = [line for line in lines if line["kind"] == "request"]
    assert all({"policy_sha256", "trace_id", "safety_verdicts"} <= set(line) for line in booked)
    shown = repr(lines)
    assert WORDS in shown
    assert LABEL in shown
    assert OTHERS not in shown
    assert scene.secret[16:] not in shown
    assert "secret" not in shown


def test_an_opaque_id_says_nothing():
    """And no two are the same."""
    assert opaque_id(1) != opaque_id(1)
    assert opaque_id(now_ms()).startswith("u_")
