"""A call that its caller names by a key is done once, and its reply is kept for a day without secrets."""

import asyncio
import hashlib
from dataclasses import replace

import msgspec
import pytest
from sqlmodel import col, update

from billing.audit.log import list_rows
from billing.operations import tenants
from billing.operations.tenants import CreateTenant, NameTenant
from billing.tables.replies import KeptReply
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.change_stream import read_changes
from billing.unit_of_work.perform import Performed, perform
from billing.unit_of_work.replies import KEPT_MS
from billing.unit_of_work.units import Order, Stores, Terms
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import OPERATORS, Role, Secret, Uses, operation, operation_of
from core.signing.signed_text import Keyring
from core.sql.database import Database
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "api"), Role.OWNER, id="ann")
CREATE = operation_of(tenants.create_tenant)
CLOSE = operation_of(tenants.close_tenant)
KEYED, KEYED_TOO = Terms(key="k1"), Terms(key="k2")
AT_ONCE = 8


class OrderedAnswer(msgspec.Struct, frozen=True):
    """What an order answers."""

    number: int
    secret: Secret


class OrderQuestion(msgspec.Struct, frozen=True):
    """What an order is asked."""

    fails: bool = False


@operation("tests.count", "POST /tests/count", may=OPERATORS, audit="request.cancel", uses=Uses())
async def count_up(order: Order, ask: OrderQuestion) -> OrderedAnswer:
    """Count in Redis."""
    redis = await order.given(PLATFORM, "thing", OrderedAnswer(0, Secret("none")))
    if ask.fails:
        raise ConnectionError
    return OrderedAnswer(await redis.execute_command("INCR", "counted"), Secret("s3cret"))


COUNT = operation_of(count_up)


@pytest.fixture
def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey."""
    return Stores(settings, database, lambda: redis)


async def test_calls_at_once_under_one_key_are_one_change_and_one_answer(stores: Stores) -> None:
    """One creates the tenant; the others get its answer."""
    ask = CreateTenant(name="acme")
    done = await asyncio.gather(*(perform(stores, OWNER, CREATE, ask, KEYED) for _ in range(AT_ONCE)))
    first = [each for each in done if each.kept is None]
    assert len(first) == 1
    whole = msgspec.json.encode(first[0].answer).decode()
    assert [each.kept for each in done if each.kept is not None] == [whole] * (AT_ONCE - 1)
    assert [row.action for row in await list_rows(stores.db, first[0].answer.tenant)] == ["tenant.create"]


async def test_a_key_is_its_callers_and_of_one_call(stores: Stores) -> None:
    """Another call under it is refused, and another caller has keys of their own."""
    await perform(stores, OWNER, CREATE, CreateTenant(name="acme"), KEYED)
    with pytest.raises(Refused, match="used for another call"):
        await perform(stores, OWNER, CREATE, CreateTenant(name="other"), KEYED)
    other = replace(OWNER, id="bob")
    assert (await perform(stores, other, CREATE, CreateTenant(name="other"), KEYED)).kept is None


async def test_a_refusal_and_a_dry_run_keep_nothing(stores: Stores) -> None:
    """Once what was wrong is mended the same call is done."""
    await perform(stores, OWNER, CREATE, CreateTenant(name="acme"), replace(KEYED, dry_run=True))
    with pytest.raises(Refused, match="no tenant"):
        await perform(stores, OWNER, CLOSE, NameTenant(tenant="acme"), KEYED_TOO)
    await perform(stores, OWNER, CREATE, CreateTenant(name="acme"), KEYED)
    assert (await perform(stores, OWNER, CLOSE, NameTenant(tenant="acme"), KEYED_TOO)).kept is None


async def test_a_reply_is_kept_for_a_day(stores: Stores) -> None:
    """Then its key is new again."""
    await perform(stores, OWNER, CREATE, CreateTenant(name="acme"), KEYED)
    async with stores.db.transaction() as session:
        old = update(KeptReply).where(col(KeptReply.tenant_id) == PLATFORM)
        await session.exec(old.values(made_ms=now_ms() - KEPT_MS - 1))
    with pytest.raises(Refused, match="already"):
        await perform(stores, OWNER, CREATE, CreateTenant(name="acme"), KEYED)


async def test_an_order_is_given_once_and_its_secret_is_not_kept(stores: Stores) -> None:
    """Its reply says null where the first had a secret."""

    async def give() -> Performed | Refused:
        try:
            return await perform(stores, OWNER, COUNT, OrderQuestion(), KEYED)
        except Refused as refused:
            return refused

    await asyncio.gather(*(give() for _ in range(AT_ONCE)))
    again = await give()
    assert isinstance(again, Performed)
    assert (again.kept, await stores.redis.get("counted")) == ('{"number":1,"secret":null}', b"1")


async def test_of_an_order_that_was_cut_off_nobody_knows(stores: Stores) -> None:
    """It is not given again under its key: what it did must be looked at."""
    with pytest.raises(ConnectionError):
        await perform(stores, OWNER, COUNT, OrderQuestion(fails=True), KEYED)
    with pytest.raises(Refused, match="was cut off"):
        await perform(stores, OWNER, COUNT, OrderQuestion(fails=True), KEYED)


async def test_what_is_recorded_is_told_to_pages(stores: Stores) -> None:
    """Changes and orders alike, once they are committed; a dry run tells nothing."""
    await perform(stores, OWNER, CREATE, CreateTenant(name="dry"), Terms(dry_run=True))
    made = await perform(stores, OWNER, CREATE, CreateTenant(name="acme"))
    await perform(stores, OWNER, COUNT, OrderQuestion())
    seen = [each async for _, each in read_changes(stores.redis, stores.settings, "0-0", 100)]
    assert [(each.tenant, each.action, each.author) for each in seen] == [
        (made.answer.tenant, "tenant.create", "Ann"),
        (PLATFORM, "request.cancel", "Ann"),
    ]


async def test_what_is_kept_of_a_call_tells_nothing_of_what_it_was_given(stores: Stores) -> None:
    """It may be a password: who reads the table tries none without the installation's secret. While that is
    changed, calls are known under both."""
    ask, settings = CreateTenant(name="acme"), stores.settings
    first = await perform(stores, OWNER, CREATE, ask, KEYED)
    whole = msgspec.json.encode((CREATE.name, ask, None), order="sorted")
    async with stores.db.session() as session:
        kept = await session.get_one(KeptReply, (PLATFORM, OWNER.caller, KEYED.key))
    assert kept.digest not in (hashlib.sha256(whole).hexdigest(), hashlib.sha256(whole[:-1]).hexdigest())
    before = Keyring(b"n" * 64, settings.keyring.current)
    rotated = replace(stores, settings=settings.model_copy(update={"keyring": before}))
    assert (await perform(rotated, OWNER, CREATE, ask, KEYED)).kept is not None
    other = replace(stores, settings=settings.model_copy(update={"keyring": Keyring(b"o" * 64)}))
    with pytest.raises(Refused, match="another call"):
        await perform(other, OWNER, CREATE, ask, KEYED)
    assert first.kept is None
