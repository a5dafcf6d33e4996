"""Who performs an operation, by session or token; and that nobody commits who may not any more."""

import asyncio
from typing import Any

import pytest

from billing.operations import people, tenants
from billing.operations.people_facts import InvitePerson
from billing.operations.tenants import CreateTenant, NameTenant, SetTenant
from billing.people import memberships, persons, service_tokens
from billing.people.actors import actor_of_bearer
from billing.people.person_sessions import end_person_session, list_person_sessions
from billing.people.service_tokens import DAY_MS, create_token, find_token, revoke_token
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import write_closed
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role
from tests.billing.people.a_person import Peopled
from tests.support.redis import Redis

WHY = Terms(reason="ticket 7")
OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)


@pytest.fixture
def stores(settings: Settings, peopled: Peopled, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey."""
    return Stores(settings, peopled.db, lambda: redis)


async def test_a_session_acts_with_its_membership(peopled: Peopled, stores: Stores) -> None:
    """Staff for all tenants, a member in their own alone; staff are named in the audit log, members by id."""
    staff, member = await peopled.acting(peopled.operator), await peopled.acting(peopled.viewer)
    assert (staff.role, staff.tenant, staff.author.name) == (Role.OPERATOR, None, "Otto")
    assert (member.role, member.tenant) == (Role.VIEWER, peopled.tenant.tenant_id)
    assert member.author.name == peopled.viewer.person.id
    made = await answer_of(tenants.create_tenant, stores, staff, CreateTenant(name="other"), WHY)
    with pytest.raises(Refused, match="there is no tenant"):
        await answer_of(tenants.show_tenant, stores, member, NameTenant(tenant=made.tenant))


async def test_staff_show_a_code_before_they_write(peopled: Peopled, stores: Stores) -> None:
    """Unless only this machine reaches the console; they read without, and members are not asked."""
    staff = await peopled.acting(peopled.operator, loopback=False)
    await answer_of(tenants.show_tenant, stores, staff, NameTenant(tenant="acme"))
    with pytest.raises(Refused, match="second factor") as refused:
        await answer_of(tenants.create_tenant, stores, staff, CreateTenant(name="other"), WHY)
    assert (refused.value.refusal.code, refused.value.refusal.field) == ("second_factor", "totp")
    assert refused.value.refusal.see is not None  # how to set one up
    assert (await peopled.acting(peopled.admin, loopback=False)).second_factor
    assert (await peopled.acting(peopled.operator, loopback=True)).second_factor


async def test_what_ended_meanwhile_commits_nothing(peopled: Peopled, stores: Stores) -> None:
    """Logout, another role, removal, closing, each after the caller was looked at and before they commit."""
    named = SetTenant(tenant="acme", time_zone="Europe/Berlin")
    staff = await peopled.acting(peopled.operator)
    await end_person_session(peopled.db, PLATFORM, staff.session)
    await _refuses(stores, staff, named, "your session has ended")
    staff = await peopled.acting(peopled.operator)
    await memberships.set_role(peopled.db, PLATFORM, staff.id, "owner")
    await _refuses(stores, staff, named, "your role changed")
    staff = await peopled.acting(peopled.operator)
    await persons.close_person(peopled.db, staff.id)
    await _refuses(stores, staff, named, "your session has ended")
    shown = await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))
    assert shown.time_zone == "UTC"
    admin = await peopled.acting(peopled.admin)
    await write_closed(peopled.db, peopled.tenant.tenant_id, True)
    with pytest.raises(Refused, match="your session has ended"):
        await answer_of(
            people.invite_person, stores, admin, InvitePerson(email="a@b.example", role=Role.VIEWER)
        )


async def test_roles_that_change_while_their_holders_write_lock_nobody_out(
    peopled: Peopled, stores: Stores
) -> None:
    """Eight write while each is demoted: each write is done or refused, none waits in a circle."""
    several = [await persons.create_member(peopled.db, PLATFORM, f"O{n}", "operator") for n in range(8)]
    actors = [await peopled.acting(each) for each in several]

    async def write(number: int, attempt: str = "first") -> Any:
        ask = CreateTenant(name=f"tenant {number}, {attempt}")
        return await answer_of(tenants.create_tenant, stores, actors[number], ask, WHY)

    changes = [memberships.set_role(peopled.db, PLATFORM, each.person.id, "support") for each in several]
    done = await asyncio.gather(*map(write, range(8)), *changes, return_exceptions=True)
    assert [each for each in done if isinstance(each, BaseException) and not isinstance(each, Refused)] == []
    assert [each for each in done[8:] if isinstance(each, BaseException)] == []
    for number in range(8):
        with pytest.raises(Refused, match="your role changed"):
            await write(number, "second")


async def test_a_token_is_shown_once_and_acts_with_its_role(peopled: Peopled, stores: Stores) -> None:
    """What is stored of it opens nothing; its use is noted."""
    tenant = peopled.tenant.tenant_id
    row, secret = await create_token(peopled.db, tenant, "ci", "developer", 30, peopled.admin.person.id)
    who = await actor_of_bearer(peopled.db, secret)
    assert who is not None
    assert (who.role, who.tenant, who.id, who.remote) == (Role.DEVELOPER, tenant, row.id, True)
    assert secret.rpartition("_")[2] not in str(row)
    (noted,) = await service_tokens.list_tokens(peopled.db, tenant)
    assert noted.last_used_ms is not None
    for wrong in (
        "",
        "pt_",
        secret[:-1],
        secret[:-1] + ("0" if secret[-1] != "0" else "1"),
        row.token_sha256,
    ):
        assert await actor_of_bearer(peopled.db, wrong) is None


async def test_a_token_ends(peopled: Peopled, stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoked, late, its tenant closed, its maker removed: at the next call, and before a commit."""
    tenant, ada = peopled.tenant.tenant_id, peopled.admin.person.id
    row, secret = await create_token(peopled.db, tenant, "ci", "admin", 1, ada)
    with monkeypatch.context() as later:
        later.setattr(service_tokens, "now_ms", lambda: row.expires_ms)
        assert await find_token(peopled.db, secret) is None
    await write_closed(peopled.db, tenant, True)
    assert await find_token(peopled.db, secret) is None
    await write_closed(peopled.db, tenant, False)
    assert await find_token(peopled.db, secret) is not None
    await memberships.set_role(peopled.db, tenant, peopled.viewer.person.id, "admin")
    await memberships.end_membership(peopled.db, tenant, ada)
    assert await find_token(peopled.db, secret) is None

    _, secret = await create_token(peopled.db, PLATFORM, "ops", "operator", 1, peopled.owner.person.id)
    who = await actor_of_bearer(peopled.db, secret)
    assert who is not None
    assert (await revoke_token(peopled.db, PLATFORM, "ops")).revoked_ms is not None
    await _refuses(stores, who, SetTenant(tenant="acme", regex=tenants.OnOff.OFF), "your token has ended")
    assert await actor_of_bearer(peopled.db, secret) is None


async def test_who_manages_people_no_more_has_no_token_that_does(peopled: Peopled, stores: Stores) -> None:
    """What an owner or an admin made is refused while they have another role, at the next call and before a
    commit: no token gives its maker the role back."""
    tenant = peopled.tenant.tenant_id
    await memberships.set_role(peopled.db, PLATFORM, peopled.operator.person.id, "owner")
    await memberships.set_role(peopled.db, tenant, peopled.viewer.person.id, "admin")
    for chain, maker, role, less in (
        (PLATFORM, peopled.owner, "owner", "support"),
        (tenant, peopled.owner, "admin", "support"),
        (tenant, peopled.admin, "developer", "developer"),
    ):
        _, secret = await create_token(peopled.db, chain, "mine", role, 1, maker.person.id)
        who, at = await actor_of_bearer(peopled.db, secret), maker.membership.tenant_id
        assert who is not None
        await memberships.set_role(peopled.db, at, maker.person.id, less)
        assert await find_token(peopled.db, secret) is None
        if chain == PLATFORM:
            await _refuses(stores, who, SetTenant(tenant="acme", regex=tenants.OnOff.OFF), "your token")
        await memberships.set_role(peopled.db, at, maker.person.id, maker.membership.role)
        assert await find_token(peopled.db, secret) is not None


async def test_tokens_have_a_role_a_last_day_and_a_number(peopled: Peopled) -> None:
    """Of the chain that they are of."""
    tenant = peopled.tenant.tenant_id
    with pytest.raises(Refused, match="roles of a tenant's members"):
        await create_token(peopled.db, tenant, "ci", "owner", 1)
    for days in (0, 367):
        with pytest.raises(Refused, match="1 to 366 days"):
            await create_token(peopled.db, tenant, "ci", "viewer", days)
    row, _ = await create_token(peopled.db, tenant, "ci", "viewer", 2, tokens_max=1)
    assert row.expires_ms - row.created_ms == 2 * DAY_MS
    with pytest.raises(Refused, match="there are 1 tokens"):
        await create_token(peopled.db, tenant, "ci", "viewer", 2, tokens_max=1)
    with pytest.raises(Refused, match="there is no token") as refused:
        await revoke_token(peopled.db, PLATFORM, row.id)
    assert refused.value.refusal.unknown


async def test_a_person_has_so_many_sessions(peopled: Peopled) -> None:
    """One more ends the one that was longest unseen; one's own are listed."""
    first = await peopled.acting(peopled.viewer)
    for _ in range(20):
        await peopled.acting(peopled.viewer)
    await peopled.acting(peopled.admin)
    mine = await list_person_sessions(peopled.db, peopled.tenant.tenant_id, peopled.viewer.person.id)
    assert len(mine) == 20
    assert first.session not in {row.id for row in mine}


async def _refuses(stores: Stores, who: OperationActor, ask: SetTenant, match: str) -> None:
    with pytest.raises(Refused, match=match) as refused:
        await answer_of(tenants.set_tenant, stores, who, ask, WHY)
    assert refused.value.refusal.code == "unauthorized"
