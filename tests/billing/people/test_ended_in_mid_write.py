"""Who ends between the writes of an operation and their commit has written nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlmodel import select

from billing.operations import tenants, users
from billing.operations.tenants import CreateTenant, NameTenant
from billing.operations.users import NameUser
from billing.people import memberships, persons
from billing.people.actors import actor_of_bearer
from billing.people.person_sessions import end_person_session
from billing.people.service_tokens import create_token, revoke_token
from billing.tables.audit import AuditLog
from billing.tables.replies import KeptReply
from billing.tables.tenants import PLATFORM, Tenant
from billing.unit_of_work import perform, units
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import OPERATORS, Uses, operation
from core.sql.database import Database
from tests.billing.people.a_person import Peopled
from tests.support.redis import Redis

WHY = Terms(reason="ticket 7", key="once")
End = Callable[[Database, OperationActor], Awaitable[Any]]
ENDS: dict[str, End] = {
    "signed out": lambda db, who: end_person_session(db, who.tenant or PLATFORM, who.session),
    "demoted": lambda db, who: memberships.set_role(
        db, who.tenant or PLATFORM, who.id, "viewer" if who.tenant else "support"
    ),
    "closed": lambda db, who: persons.close_person(db, who.id),
    "removed": lambda db, who: memberships.end_membership(db, who.tenant or PLATFORM, who.id),
    "revoked": lambda db, _: revoke_token(db, PLATFORM, "ops"),
}


@operation("tests.order_within", "POST /tests/order", may=OPERATORS, audit="request.cancel", uses=Uses())
async def order_something(order: units.Order, ask: NameTenant) -> NameTenant:
    """Write a key once the order is recorded, in the tenant's chain."""
    redis = await order.given((await order.tenant(ask.tenant)).tenant_id, "thing", ask)
    await redis.set("ordered", b"yes")
    return ask


@pytest.fixture
def stores(settings: Settings, peopled: Peopled, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey."""
    return Stores(settings, peopled.db, lambda: redis)


@pytest.mark.parametrize("how", ENDS)
async def test_staff_that_end_before_the_commit_have_written_nothing(
    peopled: Peopled, stores: Stores, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The tenant stands in the open transaction, and is not committed; nor is its key kept. SQLite has one
    writer: there the end is a part of that transaction, as nothing else comes in between."""
    who = await _operator(peopled, how)
    within: list[str] = []
    ended = perform._ended

    async def end_first(change: units.Change, *facts: Any) -> Any:
        within.extend(await _names(change.db))
        await ENDS[how](change.db if peopled.db.dialect == "sqlite" else peopled.db, who)
        return await ended(change, *facts)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(perform, "_ended", end_first)
        with pytest.raises(Refused) as refused:
            await answer_of(tenants.create_tenant, stores, who, CreateTenant(name="other"), WHY)
    assert refused.value.refusal.code == "unauthorized"
    assert "other" in within
    assert await _names(peopled.db) == ["acme"]
    assert "tenant.create" not in await _recorded(peopled.db, who)
    async with peopled.db.session() as session:
        assert (await session.exec(select(KeptReply))).all() == []


@pytest.mark.parametrize("how", [each for each in ENDS if each != "revoked"])
async def test_a_member_who_ends_before_the_commit_has_written_nothing(
    peopled: Peopled, stores: Stores, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As staff; whoever ends a member waits for the tenant's audit chain, so that the end comes before what
    is under way there, in one transaction with it, or behind it."""
    await memberships.set_role(peopled.db, peopled.tenant.tenant_id, peopled.viewer.person.id, "admin")
    who = await peopled.acting(peopled.admin)
    ended = perform._ended

    async def end_first(change: units.Change, *facts: Any) -> Any:
        await ENDS[how](change.db, who)
        return await ended(change, *facts)

    ask = NameUser(tenant=peopled.tenant.tenant_id, user="bob")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(perform, "_ended", end_first)
        with pytest.raises(Refused) as refused:
            await answer_of(users.create_user, stores, who, ask, WHY)
    assert refused.value.refusal.code == "unauthorized"
    assert "user.create" not in await _recorded(peopled.db, who)


@pytest.mark.parametrize("how", [each for each in ENDS if each != "revoked"])
async def test_an_end_beside_a_write_is_before_or_behind_it(
    peopled: Peopled, stores: Stores, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Begun while the transaction is open, it waits for nobody in a circle: the write is whole or nothing,
    and the next one is refused."""
    await memberships.set_role(peopled.db, peopled.tenant.tenant_id, peopled.viewer.person.id, "admin")
    who = await peopled.acting(peopled.admin)
    ended, ends = perform._ended, list[asyncio.Task[Any]]()

    async def end_beside(change: units.Change, *facts: Any) -> Any:
        ends.append(asyncio.ensure_future(ENDS[how](peopled.db, who)))
        return await ended(change, *facts)

    tenant = peopled.tenant.tenant_id
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(perform, "_ended", end_beside)
        (done,) = await asyncio.gather(
            answer_of(users.create_user, stores, who, NameUser(tenant=tenant, user="bob"), WHY),
            return_exceptions=True,
        )
    await asyncio.gather(*ends)
    assert isinstance(done, Refused) is ("user.create" not in await _recorded(peopled.db, who)), done
    with pytest.raises(Refused):
        await answer_of(users.create_user, stores, who, NameUser(tenant=tenant, user="eve"))


@pytest.mark.parametrize("how", ENDS)
async def test_an_order_is_not_given_by_who_ends_before_it_is_recorded(
    peopled: Peopled, stores: Stores, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Between its audit row and that row's commit: the row goes, and Redis is not touched."""
    who = await _operator(peopled, how)
    stay = units.Order.stay

    async def end_first(order: units.Order, session: Any) -> None:
        await ENDS[how](peopled.db, who)
        await stay(order, session)

    if peopled.db.dialect == "sqlite":  # there nobody writes beside the row
        await ENDS[how](peopled.db, who)
    else:
        monkeypatch.setattr(units.Order, "stay", end_first)
    with pytest.raises(Refused) as refused:
        await answer_of(order_something, stores, who, NameTenant(tenant="acme"), WHY)
    assert refused.value.refusal.code == "unauthorized"
    assert "request.cancel" not in await _recorded(peopled.db, who)
    assert await stores.redis.get("ordered") is None


async def _operator(peopled: Peopled, how: str) -> OperationActor:
    """An operator in a session; or a token of the owner, where a token is to end."""
    if how != "revoked":
        return await peopled.acting(peopled.operator)
    _, secret = await create_token(peopled.db, PLATFORM, "ops", "operator", 1, peopled.owner.person.id)
    who = await actor_of_bearer(peopled.db, secret)
    assert who is not None
    return who


async def _names(db: Database) -> list[str]:
    async with db.session() as session:
        return sorted((await session.exec(select(Tenant.name))).all())


async def _recorded(db: Database, who: OperationActor) -> set[str]:
    """Actions of audit rows that somebody's writes left."""
    async with db.session() as session:
        rows = (await session.exec(select(AuditLog))).all()
    return {row.action for row in rows if row.author == who.author.name}
