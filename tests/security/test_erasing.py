"""Erasing a person: their words and their name are nowhere, and the books and the audit log stay whole."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import event, inspect, text
from sqlmodel import col, select

from billing.alerts.alert_targets import add_target, list_messages, list_targets, send_test
from billing.commands.erasing import erase_known, held_of
from billing.periods import FIRST_MS, LAST_MS, Window
from billing.posting.biller import post
from billing.quotas.limit_rows import set_budget
from billing.quotas.limits import MoneyLimit, Scope
from billing.quotas.quota import Quota
from billing.quotas.quota_money import MoneyCounts
from billing.reconciliation.books import compare_audit, compare_books, compare_derived
from billing.reconciliation.compared import State
from billing.tables import TenantUser, UsageQuarantine, UsageRow
from billing.tenants import audit_view
from billing.tenants.audit_log import list_rows, record
from billing.tenants.audit_verify import verify_log
from billing.tenants.audit_view import users_in
from billing.tenants.cost_centers import create_cost_center, find_cost_center
from billing.tenants.erasing import erase_tenant, erase_user, opaque_id
from billing.tenants.keys import authenticate_key, create_key
from billing.tenants.plans import create_plan, find_plan
from billing.tenants.sessions import open_session, principal_of_session
from billing.tenants.tenancy import close_tenant, create_project, create_tenant, find_project, find_tenant
from billing.tenants.users import close_user, create_user, known_users, list_users, user_named, user_names
from billing.usage import UsageOwner, decode, encode
from billing.wallets.purse import GrantKind
from billing.wallets.wallets import NewGrant, grant
from core.clock import now_ms
from core.database import Database
from core.errors import Refused
from core.ids import uuid7
from core.settings import Settings
from server import erasing
from server.access import Owner
from server.conversations import Answer, Conversations, Turn
from server.erasing import erase_texts
from tests.billing.events import an_event
from tests.helpers.tables import tables_with

NAME, WORDS, LABEL = "Ada-Lovelace-1815", "the-words-of-ada", "the-label-of-ada"
OTHERS = "what-bob-said"


@dataclass
class Scene:
    """A tenant in which ada (known by her name, as users from before are) and bob used everything."""

    tenant: str
    project: str
    ada: str
    secret: str


@pytest.fixture
async def scene(database: Database, redis: Redis, settings: Settings) -> Scene:
    """Requests, conversations of their own and in a service key's, keys, a budget, a held event."""
    _ = settings
    return await _scene(database, redis, "acme")


async def _scene(database: Database, redis: Redis, name: str) -> Scene:
    tenant = (await create_tenant(database, name)).tenant_id
    project = (await create_project(database, tenant, "web")).id
    async with database.transaction() as session:
        session.add(TenantUser(tenant_id=tenant, id=NAME, name=NAME, created_ms=1))
        await session.flush()
        await record(session, tenant, "user.create", NAME, None, {"id": NAME})
    bob = (await create_user(database, tenant, "bob")).id
    _, secret = await create_key(database, tenant, project, user=NAME)
    await set_budget(database, redis, tenant, scope="user", scope_id=NAME, period="month", limit_nano=1_000)
    for user, words, count in ((NAME, WORDS, 3), (bob, OTHERS, 2)):
        await _use(database, tenant, project, user, words, count)
    return Scene(tenant, project, NAME, secret)


async def _use(database: Database, tenant: str, project: str, user: str, words: str, count: int) -> None:
    shared = "00000000-0000-7000-8000-000000000000"
    for number in range(count):
        request, now = uuid7(now_ms()), now_ms()
        own = number == 0
        conversation = uuid7(now) if own else shared
        owner = Owner(project, "", user) if own else Owner(project, "k1", "")
        turn = Turn(conversation, request, words, "tiny", now)
        await Conversations(database).open_turn(tenant, owner, turn)
        await Conversations(database).record(tenant, request, Answer(words, "stop", "", {}, {}, 1, 1, 3, now))
        labels = msgspec.json.encode({"label": LABEL if words == WORDS else "x"})
        of = UsageOwner(project=project, key="k1", user=user, conversation=conversation, metadata=labels)
        ended = an_event(request, tenant, owner=of, accepted_ms=now, ended_ms=now)
        wrong = msgspec.structs.replace(ended, request=uuid7(now), cost_nano=1)
        await post(database, "default", [encode(ended), *([encode(wrong)] if own else [])])


async def rows_of(database: Database, tenant: str) -> dict[str, list[str]]:
    """All that is kept of a tenant, by table."""
    found: dict[str, list[str]] = {}
    async with database.engine.connect() as connection:
        for name in await connection.run_sync(lambda sync: inspect(sync).get_table_names()):
            rows = (await connection.execute(text(f"SELECT * FROM {name}"))).all()
            found[name] = sorted(repr(tuple(row)) for row in rows if tenant in tuple(row))
    return {name: rows for name, rows in found.items() if rows}


async def whole(database: Database, tenant: str) -> list[str]:
    """What R1, R2, R7 and the audit log's verification find wrong, reading all."""
    books, _ = await compare_books(database, tenant, now_ms(), whole=True)
    compared = [*books, await compare_audit(database, tenant, now_ms(), whole=True)]
    compared += await compare_derived(database, tenant, whole=True)
    wrong = [
        f"{each.check} {each.subject} {each.detail}" for each in compared if each.state is not State.EQUAL
    ]
    return wrong + (await verify_log(database, tenant)).faults


async def test_a_user_who_is_erased_is_nowhere_and_all_chains_are_whole(
    database: Database, redis: Redis, settings: Settings, scene: Scene
):
    """Only the audit log's rows from when ids were names still hold it, which is chained; bob keeps all."""
    assert await tables_with(database, WORDS) == {"conversation", "message"}
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
    told = [audit_view.shown(row, names) for row in rows]
    assert NAME not in repr(told)
    assert ("user.create", "(erased)") in [(row.action, row.target) for row in told]
    assert ("user.create", "bob") in [(row.action, row.target) for row in told]


async def test_another_tenants_user_of_the_same_name_keeps_everything(
    database: Database, redis: Redis, settings: Settings, scene: Scene
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
    database: Database, redis: Redis, scene: Scene
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


async def test_two_who_are_erased_stay_two(database: Database, redis: Redis, scene: Scene):
    """And who comes with the name of one of them is a third."""
    for name in (NAME, "bob"):
        await close_user(database, redis, scene.tenant, name)
    found = [await user_named(database, scene.tenant, name) for name in (NAME, "bob")]
    ids = [await erase_user(database, scene.tenant, user.id) for user in found if user]
    names = await user_names(database, scene.tenant, ids)
    assert len(set(names.values())) == 2
    assert (await create_user(database, scene.tenant, "bob")).closed_ms is None
    assert await whole(database, scene.tenant) == []


async def test_only_who_is_closed_can_be_erased(database: Database, scene: Scene):
    """What is open could go on being used while it is erased."""
    with pytest.raises(Refused, match="only a closed user"):
        await erase_user(database, scene.tenant, NAME)
    with pytest.raises(Refused, match="only a closed tenant"):
        await erase_tenant(database, scene.tenant)


async def test_a_tenant_that_is_erased_leaves_amounts_and_ids(
    database: Database, redis: Redis, settings: Settings, scene: Scene
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
    database: Database, redis: Redis, settings: Settings, scene: Scene
):
    """Keys, browsers, the webhook's secret and address, what was to be sent, and names beside people's."""
    db, tenant, word = database, scene.tenant, "left-of-acme"
    _, secret = await create_key(db, tenant, scene.project, name=word)
    caller = await authenticate_key(db, secret)
    assert caller is not None
    _, cookie = await open_session(db, caller, 600, word, word)
    target = await add_target(db, tenant, "webhook", f"https://{word}.example.org/")
    await send_test(db, tenant, target.id)
    await create_cost_center(db, tenant, word, word)
    await grant(db, tenant, NewGrant(GrantKind.PAID, 1, "g", note=word))
    kept = {"api_key", "browser_session", "alert_target", "cost_center", "wallet_grant", "audit_log"}
    assert await tables_with(db, word) == kept
    await close_tenant(db, redis, tenant)
    await erase_texts(db, redis, settings, tenant, None)
    await erase_tenant(db, tenant)
    assert await tables_with(db, word) == {"audit_log"}
    assert await tables_with(db, target.secret) == set()
    await close_tenant(db, redis, tenant, closed=False)
    assert await authenticate_key(db, secret) is None
    assert await principal_of_session(db, cookie) is None
    assert (await list_targets(db, tenant), await list_messages(db, tenant)) == ([], [])


async def test_an_export_has_everything_of_a_user_and_nothing_of_others(database: Database, scene: Scene):
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


async def test_what_was_held_back_hides_no_words(
    database: Database, redis: Redis, settings: Settings, scene: Scene
):
    """A request that was never billed stands in no row of usage: its messages, in a conversation that a
    service key keeps, are told and erased all the same."""
    request, now = uuid7(now_ms()), now_ms()
    turn = Turn("00000000-0000-7000-8000-000000000000", request, WORDS + "-held", "tiny", now)
    await Conversations(database).open_turn(scene.tenant, Owner(scene.project, "k1", ""), turn)
    of = UsageOwner(project=scene.project, key="k1", user=NAME, metadata=b'{"label":"held-label"}')
    ended = an_event(request, scene.tenant, owner=of, accepted_ms=now, ended_ms=now)
    await post(database, "default", [encode(msgspec.structs.replace(ended, cost_nano=1))])
    user = await user_named(database, scene.tenant, NAME)
    assert user is not None
    told = repr([line async for line in held_of(database, user)])
    assert "held-label" in told
    assert WORDS + "-held" in told
    await close_user(database, redis, scene.tenant, NAME)
    await erase_texts(database, redis, settings, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, WORDS) == set()
    assert await tables_with(database, "held-label") == set()


async def test_the_name_of_a_key_goes_with_who_had_it(database: Database, redis: Redis, scene: Scene):
    """People call keys by whose they are; the audit log keeps it chained, and does not show it."""
    await create_key(database, scene.tenant, scene.project, user=NAME, name="lovelaces-laptop")
    await create_key(database, scene.tenant, scene.project, user="bob", name="bobs-laptop")
    await close_user(database, redis, scene.tenant, NAME)
    await erase_user(database, scene.tenant, NAME)
    assert await tables_with(database, "lovelaces-laptop") == {"audit_log"}
    assert "api_key" in await tables_with(database, "bobs-laptop")
    rows = await list_rows(database, scene.tenant)
    names = await known_users(database, scene.tenant, {each for row in rows for each in users_in(row)})
    told = repr([audit_view.shown(row, names) for row in rows])
    assert "lovelaces-laptop" not in told
    assert "bobs-laptop" in told


async def test_texts_that_stay_end_the_erasing(
    database: Database,
    redis: Redis,
    settings: Settings,
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
):
    """Where another process has a conversation all the time, nobody is told that it is gone."""

    async def nothing(*_: object) -> int:
        return 0

    monkeypatch.setattr(erasing, "purge", nothing)
    monkeypatch.setattr(erasing, "AGAIN_SECONDS", 0.0)
    await close_user(database, redis, scene.tenant, NAME)
    with pytest.raises(Refused, match="1 of the conversations"):
        await erase_texts(database, redis, settings, scene.tenant, NAME)


async def test_who_writes_while_they_are_erased_leaves_nothing(
    database: Database,
    redis: Redis,
    settings: Settings,
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
):
    """A gateway that has not heard yet that they are closed may store one more turn."""
    real, late = erasing.purge, [uuid7(now_ms()), uuid7(now_ms())]

    async def purge_while_one_writes(*facts: Any) -> int:
        if late:
            turn = Turn(late.pop(), uuid7(now_ms()), WORDS + "-late", "tiny", now_ms())
            await Conversations(database).open_turn(scene.tenant, Owner(scene.project, "", NAME), turn)
        return await real(*facts)

    monkeypatch.setattr(erasing, "purge", purge_while_one_writes)
    monkeypatch.setattr(erasing, "AGAIN_SECONDS", 0.0)
    await close_user(database, redis, scene.tenant, NAME)
    assert await erase_texts(database, redis, settings, scene.tenant, NAME) == (3, 4)
    assert await tables_with(database, WORDS) == set()


async def test_erasing_a_tenant_takes_no_longer_by_each_user(database: Database, redis: Redis, scene: Scene):
    """A tenant makes as many users as it likes: were each a look through all its usage, in one transaction,
    it could never be erased, and on SQLite nobody else would write meanwhile."""

    async def statements(tenant: str) -> int:
        seen: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            seen.append(statement)

        await close_tenant(database, redis, tenant)
        event.listen(database.engine.sync_engine, "before_cursor_execute", note)
        await erase_tenant(database, tenant)
        event.remove(database.engine.sync_engine, "before_cursor_execute", note)
        return len(seen)

    few, many = [(await create_tenant(database, name)).tenant_id for name in ("few", "many")]
    for tenant, count in ((few, 1), (many, 20)):
        for number in range(count):
            await create_user(database, tenant, f"user-{number}")
    assert await statements(few) == await statements(many)
    assert await tables_with(database, "user-1") == set()
    assert {user.closed_ms is None for user in await list_users(database, many)} == {False}


async def test_no_name_stands_in_the_way_of_erasing(database: Database, redis: Redis, scene: Scene):
    """Tenants', projects' and cost centers' names are unique: one may be called as another is when erased."""
    other = await create_tenant(database, f"erased {scene.tenant[-12:]}")
    await create_project(database, scene.tenant, scene.project)
    await create_cost_center(
        database, scene.tenant, (await create_cost_center(database, scene.tenant, "1")).id
    )
    await close_tenant(database, redis, scene.tenant)
    await erase_tenant(database, scene.tenant)
    assert await find_tenant(database, other.name) == other


async def test_who_is_called_as_anothers_id_is_not_taken_for_it(database: Database):
    """What closes and erases by an id does so to whose id it is."""
    acme = await create_tenant(database, "acme")
    posing = await create_tenant(database, acme.tenant_id)
    assert await find_tenant(database, acme.tenant_id) == acme
    assert await find_tenant(database, posing.tenant_id) == posing
    project = await create_project(database, acme.tenant_id, "web")
    await create_project(database, acme.tenant_id, project.id)
    assert await find_project(database, acme.tenant_id, project.id) == project
    center = await create_cost_center(database, acme.tenant_id, "4711")
    await create_cost_center(database, acme.tenant_id, center.id)
    assert await find_cost_center(database, acme.tenant_id, center.id) == center
    plan = await create_plan(database, "gold", price_book="default")
    await create_plan(database, plan.id, price_book="default")
    assert await find_plan(database, plan.id) == plan


async def test_redis_forgets_who_was_known_by_name(
    database: Database, redis: Redis, settings: Settings, scene: Scene
):
    """Of users from before there were ids: what is counted for ever is counted under their name."""
    window = Window(FIRST_MS, LAST_MS)
    quota = Quota(redis, settings, database)
    for user in (NAME, "u_bob"):
        money = MoneyCounts(redis)
        for shadow in (False, True):
            limit = MoneyLimit(Scope.USER, user, "lifetime", window, 1, shadow=shadow)
            await money.put(scene.tenant, [(limit, 1, 1 << 40)], anew=False)
    assert await redis_with(redis, NAME)
    await close_user(database, redis, scene.tenant, NAME)
    await erase_known(database, redis, settings, scene.tenant, NAME)
    assert await redis_with(redis, NAME) == []
    assert len(await quota.budget_sums(scene.tenant)) == 2
    assert await redis_with(redis, "u_bob")


async def redis_with(redis: Redis, word: str) -> list[bytes]:
    """The keys in which a word stands, in their names or in sorted sets."""
    found: list[bytes] = []
    async for key in redis.scan_iter():
        held = await redis.zrange(key, 0, -1) if await redis.type(key) == b"zset" else []
        found += [key] if word.encode() in b" ".join([key, *held]) else []
    return found
