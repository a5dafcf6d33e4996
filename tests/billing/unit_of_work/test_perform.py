"""Operations are performed as they are declared: by whom, in one transaction, recorded, then told."""

import asyncio
from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import text

from billing.audit.log import list_rows
from billing.operations import tenants
from billing.operations.tenants import CreateTenant, ListTenants, NameTenant, SetTenant
from billing.tables.tenants import PLATFORM, Tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import Performed, answer_of, perform
from billing.unit_of_work.units import Change, Look, Order, Stores, Terms
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused, forbidden
from core.operations import OPERATORS, Role, Uses, operation, operation_of
from core.sql.database import Database
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)
AT_ONCE = 8


class EmptyStruct(msgspec.Struct, frozen=True):
    """What takes no question, and has no answer."""


@pytest.fixture
def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey."""
    return Stores(settings, database, lambda: redis)


@operation("tests.forget", "POST /tests", may=OPERATORS, audit="tenant.set", uses=Uses())
async def forget_to_record(change: Change, ask: NameTenant) -> EmptyStruct:
    """Change a tenant and record nothing."""
    async with change.db.transaction() as session:
        row = await session.get(Tenant, (await change.tenant(ask.tenant)).tenant_id)
        assert row is not None
        row.name = "changed in silence"
        session.add(row)
    return EmptyStruct()


@operation("tests.write", "GET /tests", may=OPERATORS, uses=Uses())
async def write_while_looking(look: Look, ask: EmptyStruct) -> EmptyStruct:
    """Write in a look."""
    async with look.db.transaction() as session:
        await (await session.connection()).execute(text("DELETE FROM tenant"))
    return EmptyStruct()


@operation("tests.redis", "GET /tests/redis", may=OPERATORS, uses=Uses())
async def look_at_redis(look: Look, ask: EmptyStruct) -> EmptyStruct:
    """Read a key."""
    assert await look.redis.get("ordered") is None
    return EmptyStruct()


@operation("tests.order", "POST /tests/order", may=OPERATORS, audit="request.cancel", uses=Uses())
async def order_something(order: Order, ask: EmptyStruct) -> EmptyStruct:
    """Write a key once the order is recorded."""
    redis = await order.given(PLATFORM, "thing", EmptyStruct(), {"what": "it"})
    assert next(iter(await list_rows(order.stores.db, PLATFORM))).action == "request.cancel"
    await redis.set("ordered", b"yes")
    return EmptyStruct()


async def test_a_change_is_one_transaction_and_recorded_with_its_reason(stores: Stores) -> None:
    """The audit row says who and why; others read the change after it."""
    made = await answer_of(
        tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"), Terms(reason="ticket 7")
    )
    (row,) = await list_rows(stores.db, made.tenant)
    assert (row.action, row.author) == ("tenant.create", "Ann")
    assert msgspec.json.decode(row.after)["reason"] == "ticket 7"
    shown = await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))
    assert msgspec.structs.asdict(shown).items() >= msgspec.structs.asdict(made).items()


async def test_a_dry_run_answers_and_changes_nothing(stores: Stores) -> None:
    """As the real run would, to the audit log and to Redis too."""
    create = operation_of(tenants.create_tenant)
    done = await perform(stores, OWNER, create, CreateTenant(name="acme"), Terms(dry_run=True))
    assert (done.dry_run, done.answer.name) == (True, "acme")
    page = await answer_of(tenants.list_tenants, stores, OWNER, ListTenants())
    assert page.items == []
    assert await list_rows(stores.db, done.answer.tenant) == []
    order = operation_of(order_something)
    assert (await perform(stores, OWNER, order, EmptyStruct(), Terms(dry_run=True))).dry_run
    assert await stores.redis.get("ordered") is None


async def test_what_is_not_recorded_is_not_committed(stores: Stores) -> None:
    """A watched row without its audit row rolls everything back."""
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))
    with pytest.raises(AssertionError, match="without an audit row"):
        await answer_of(forget_to_record, stores, OWNER, NameTenant(tenant="acme"))
    await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))


async def test_a_look_cannot_write(stores: Stores) -> None:
    """The database refuses it; and writes again afterwards, on the same connection."""
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))
    with pytest.raises(Exception, match=r"read.?only"):
        await answer_of(write_while_looking, stores, OWNER, EmptyStruct())
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="other"))


async def test_an_order_is_recorded_before_it_acts(stores: Stores) -> None:
    """And its audit row stays, whatever comes of it."""
    await answer_of(order_something, stores, OWNER, EmptyStruct())
    assert await stores.redis.get("ordered") == b"yes"


async def test_roles_and_reasons_are_looked_at_first(stores: Stores) -> None:
    """A role that may not is told which may; over the API a reason is required."""
    support = replace(OWNER, role=Role.SUPPORT)
    with pytest.raises(
        Refused, match=r"your role, support, may not do this \(tenants.create\): operator, owner"
    ):
        await answer_of(tenants.create_tenant, stores, support, CreateTenant(name="acme"))
    with pytest.raises(Refused, match="say why"):
        await answer_of(tenants.create_tenant, stores, replace(OWNER, remote=True), CreateTenant(name="acme"))


@pytest.mark.parametrize("reason", ["a\nb", "\x1b[2J", "tick\u202et", "\u2066x"])
async def test_a_reason_is_text_that_reads_as_it_is(stores: Stores, reason: str) -> None:
    """Whoever reads the audit log, also as JSON, sees what was written and no lines of another entry."""
    with pytest.raises(Refused, match="one line") as refused:
        await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"), Terms(reason=reason))
    assert refused.value.refusal.field == "reason"
    why = "Kündigung wg. 3 × 😀👩‍👧, siehe #7"
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"), Terms(reason=why))


async def test_to_a_member_no_other_tenant_exists(stores: Stores) -> None:
    """By name and by id, and lists have their own alone."""
    acme = await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))
    other = await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="other"))
    member = OperationActor(Author("Mia", "api"), Role.VIEWER, tenant=acme.tenant)
    for named in ("other", other.tenant, "nobody"):
        with pytest.raises(Refused, match="there is no tenant") as refused:
            await answer_of(tenants.show_tenant, stores, member, NameTenant(tenant=named))
        assert refused.value.refusal.unknown
    page = await answer_of(tenants.list_tenants, stores, member, ListTenants())
    assert [each.name for each in page.items] == ["acme"]


async def test_of_edits_of_one_version_one_is_done(stores: Stores) -> None:
    """Eight at once: one changes the thing, the others learn who changed it, and from what to what."""
    await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name="acme"))
    edit = operation_of(tenants.set_tenant)
    seen = await perform(stores, OWNER, operation_of(tenants.show_tenant), NameTenant(tenant="acme"))

    async def once(number: int) -> Performed:
        ask = SetTenant(tenant="acme", time_zone=f"Etc/GMT-{number + 1}")
        return await perform(stores, OWNER, edit, ask, Terms(version=seen.version))

    done = await asyncio.gather(*map(once, range(AT_ONCE)), return_exceptions=True)
    refused = [each for each in done if isinstance(each, Refused)]
    assert (len(done) - len(refused), len(refused)) == (1, AT_ONCE - 1)
    (change,) = refused[0].refusal.changes
    assert (change.author, change.action, change.before) == ("Ann", "tenant.set", {"time_zone": "UTC"})
    (now,) = [each for each in done if isinstance(each, Performed)]
    assert now.version == (seen.version or 0) + 1


async def test_who_may_no_longer_does_not_commit(stores: Stores) -> None:
    """A session that ends while its change is under way commits nothing."""

    async def ended(_: object) -> None:
        raise forbidden("your session has ended")

    gone = replace(OWNER, still=ended)
    for run, ask in ((tenants.create_tenant, CreateTenant(name="acme")), (order_something, EmptyStruct())):
        with pytest.raises(Refused, match="session has ended"):
            await answer_of(run, stores, gone, ask)
    assert (await answer_of(tenants.list_tenants, stores, OWNER, ListTenants())).items == []
    assert await stores.redis.get("ordered") is None


async def test_a_list_is_read_page_by_page(stores: Stores) -> None:
    """Each thing once; a cursor of another list, or none at all, is refused."""
    for number in range(5):
        await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name=f"t{number}"))
    names, after = [], ""
    while True:
        page = await answer_of(tenants.list_tenants, stores, OWNER, ListTenants(limit=2, after=after))
        names += [each.name for each in page.items]
        if page.next is None:
            break
        after = page.next
    assert names == ["t0", "t1", "t2", "t3", "t4"]
    member = OperationActor(Author("Mia", "api"), Role.VIEWER, tenant="nobody's")
    for who, cursor in ((member, after), (OWNER, "x" + after), (OWNER, "%%%"), (OWNER, "")):
        if cursor:
            with pytest.raises(Refused, match="no cursor of this list"):
                await answer_of(tenants.list_tenants, stores, who, ListTenants(after=cursor))


async def test_who_looks_at_redis_alone_needs_no_database(settings: Settings, redis: Redis) -> None:
    """A look reads the database where it asks for it; an order that cannot be recorded is not given."""
    away = Database("postgresql+asyncpg://nobody@127.0.0.1:1/x")
    stores = Stores(settings, away, lambda: redis)
    assert await answer_of(look_at_redis, stores, OWNER, EmptyStruct()) == EmptyStruct()
    with pytest.raises(Refused, match="nothing is done, since it cannot be recorded"):
        await answer_of(order_something, stores, OWNER, EmptyStruct())
    assert await redis.get("ordered") is None
    await away.close()
