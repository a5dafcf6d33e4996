"""One question over requests, tenants, users, keys and workers: what is found, by whom, in which order."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, text

from billing.api import OperationActor, Stores
from billing.audit.log import list_rows
from billing.posting.biller import post
from billing.tenants.keys import create_key
from billing.tenants.search import ThingKind, things_beginning, things_named
from billing.tenants.tenancy import create_tenant, find_project
from billing.tenants.users import create_user
from billing.unit_of_work.perform import answer_of
from billing.usage import encode
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role
from core.sql.database import Database
from engine.operations.search import HITS_MAX, SearchHit, SearchKind, SearchQuestion, find_anything
from tests.billing.events import an_event
from tests.engine.builders import Pool
from tests.support.redis import Redis


@pytest.fixture
async def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres: acme and acme-labs with a user ann and a key each, a request, and a worker."""
    for name in ("acme", "acme-labs"):
        made = (await create_tenant(database, name)).tenant_id
        await create_user(database, made, "ann")
        project = await find_project(database, made, "default")
        assert project is not None
        await create_key(database, made, project.id, name=f"{name} backend")
        if name == "acme":
            await post(database, "default", [encode(an_event("r-1", made))])
    pool = Pool(redis, settings, clock=None)  # pyright: ignore[reportArgumentType]
    await pool.worker("node1-w1")
    return Stores(settings, database, lambda: redis)


def staff(role: Role) -> OperationActor:
    """Somebody of the platform, at a console."""
    return OperationActor(Author("Sam", "api"), role, id="sam", remote=True)


async def hits(stores: Stores, text: str, role: Role = Role.OWNER) -> list[SearchHit]:
    """What is found."""
    return (await answer_of(find_anything, stores, staff(role), SearchQuestion(q=text))).items


def told(found: list[SearchHit]) -> list[tuple[str, str, str, bool]]:
    """Kind, title without the key's prefix, tenant, and whether it is exact."""
    return [(each.kind.value, each.title.partition(" (")[0], each.tenant_name, each.exact) for each in found]


async def test_each_kind_is_found_by_what_people_have_of_it(stores: Stores) -> None:
    """An id, a name, the beginning of one in any case, a key's prefix or all of its secret."""
    assert told(await hits(stores, "r-1")) == [("request", "r-1", "acme", True)]
    assert told(await hits(stores, " acme ")) == [
        ("tenant", "acme", "acme", True),
        ("tenant", "acme-labs", "acme-labs", False),
        ("key", "acme backend", "acme", False),
        ("key", "acme-labs backend", "acme-labs", False),
    ]
    users = [("user", "ann", name, True) for name in ("acme", "acme-labs")]
    assert sorted(told(await hits(stores, "ann"))) == users
    assert sorted(told(await hits(stores, "AN"))) == [(*each[:3], False) for each in users]
    (tenant, *_, key, _) = await hits(stores, "acme")
    prefix = key.title.partition("(")[2].rstrip(")")
    for asked in (prefix, prefix.removeprefix("pk_"), f"{prefix}_{'0' * 48}", key.id):
        assert told(await hits(stores, asked)) == [("key", "acme backend", "acme", True)], asked
    assert told(await hits(stores, prefix[:8])) == [("key", "acme backend", "acme", False)]
    assert told(await hits(stores, tenant.id)) == [("tenant", "acme", "acme", True)]
    assert told(await hits(stores, "node1-w1")) == [("worker", "node1-w1", "", True)]
    assert told(await hits(stores, "NODE1")) == [("worker", "node1-w1", "", False)]
    for nothing in ("nobody", "%", "_", "a%", " ", "\\"):
        assert await hits(stores, nothing) == [], nothing


async def test_a_request_is_found_as_pages_shorten_its_id(stores: Stores) -> None:
    """By the two ends of the id, typed or copied; that is recorded, too."""
    (acme,) = [each.id for each in await hits(stores, "acme") if (each.kind, each.exact) == ("tenant", True)]
    id = "01a21726-f58b-7e68-9c00-0000000098b5"
    events = [an_event(each, acme) for each in (id, id.replace("98b5", "98b6"), id.replace("01a", "01b"))]
    await post(stores.db, "default", [encode(each) for each in events])
    for short in ("01a21726…98b5", "01a21726...98b5"):
        (hit,) = await hits(stores, short)
        assert (hit.kind, hit.id, hit.tenant_name, hit.exact) == ("request", id, "acme", False)
    finds = [row.target for row in await list_rows(stores.db, acme) if row.action == "request.find"]
    assert {*finds} == {id}
    assert await hits(stores, "01a21726…0000") == []


async def test_who_may_not_see_a_kind_does_not_find_it(stores: Stores) -> None:
    """Finance sees no users, keys and workers; members have no search."""
    found = {text: await hits(stores, text, Role.FINANCE) for text in ("ann", "acme", "node1-w1", "r-1")}
    kinds = {text: {each.kind for each in every} for text, every in found.items()}
    assert kinds == {
        "ann": set(),
        "acme": {SearchKind.TENANT},
        "node1-w1": set(),
        "r-1": {SearchKind.REQUEST},
    }
    member = OperationActor(Author("Mia", "api"), Role.ADMIN, tenant="t")
    with pytest.raises(Refused, match="may not do this"):
        await answer_of(find_anything, stores, member, SearchQuestion(q="acme"))


async def test_at_most_twenty_and_the_exact_one_first(stores: Stores) -> None:
    """However many begin so."""
    for n in range(40):
        await create_tenant(stores.db, f"acme{n:02}")
    found = await hits(stores, "acme")
    assert len(found) <= HITS_MAX
    assert told(found)[0] == ("tenant", "acme", "acme", True)
    assert SearchKind.KEY in {each.kind for each in found}, "no kind crowds the others out"


async def test_that_staff_found_a_request_is_recorded(stores: Stores) -> None:
    """With its tenant, once in a while; other things are lists that staff has anyway."""
    (one,) = await hits(stores, "r-1")
    await hits(stores, "r-1")
    await hits(stores, "acme")
    rows = [row for row in await list_rows(stores.db, one.tenant) if row.action == "request.find"]
    assert [row.target for row in rows] == ["r-1"]


async def test_what_the_books_know_is_found_without_redis(stores: Stores) -> None:
    """And what could not be looked at is said."""
    alone = replace(stores, connect=lambda: Redis.from_url("unix:///nowhere/at/all.sock"))
    answer = await answer_of(find_anything, alone, staff(Role.OWNER), SearchQuestion(q="acme"))
    assert answer.items[0].title == "acme"
    assert "Redis does not answer" in answer.unread


@pytest.mark.parametrize("kind", [ThingKind.USER, ThingKind.KEY])
@pytest.mark.parametrize("find", [things_named, things_beginning])
async def test_names_are_found_by_an_index(stores: Stores, kind: ThingKind, find: Any) -> None:
    """Among a thousand users and keys too: no table of theirs is read through."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
    postgres = stores.db.engine.dialect.name == "postgresql"
    asked: list[tuple[str, Any]] = []

    def heard(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        asked.append((statement, parameters))

    async with stores.db.engine.begin() as connection:
        users = "SELECT tenant_id, 'u' || i, 'Bob' || i, 0, NULL, NULL FROM tenant, n WHERE name = 'acme'"
        await connection.execute(text(f"{many} INSERT INTO tenant_user {users}"))
        columns = "tenant_id, id, project_id, name, prefix, secret_sha256, user_id, shared, owner_key, scopes"
        copied = columns.replace(" id,", " 'k' || i,").replace(" name,", " 'Bob' || i,")
        copied = copied.replace(" prefix,", " 'x' || i,")
        more = "priority_max, created_ms"
        await connection.execute(
            text(
                f"{many} INSERT INTO api_key ({columns}, {more}) SELECT {copied}, {more} FROM api_key, n "
                "WHERE name = 'acme backend'"
            )
        )
        await connection.execute(text("ANALYZE"))
    event.listen(stores.db.engine.sync_engine, "before_cursor_execute", heard)
    try:
        found = await find(stores.db, kind, "Bob1999", 5)
    finally:
        event.remove(stores.db.engine.sync_engine, "before_cursor_execute", heard)
    assert [each.title.partition(" (")[0] for each in found] == ["Bob1999"]
    (statement, parameters) = asked[-1]
    async with stores.db.engine.connect() as connection:
        explained = "EXPLAIN" if postgres else "EXPLAIN QUERY PLAN"
        rows = (await connection.exec_driver_sql(f"{explained} {statement}", parameters)).all()
    plan = "\n".join(" ".join(map(str, row)) for row in rows)
    table = "tenant_user" if kind is ThingKind.USER else "api_key"
    assert f"ix_{table}_lower_name" in plan, plan
    assert f"Seq Scan on {table}" not in plan, plan
    assert f"SCAN {table}" not in plan, plan
