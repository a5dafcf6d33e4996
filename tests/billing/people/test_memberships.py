"""Who is a member with which role, and that somebody is always left who manages people."""

import asyncio
from typing import Any

import pytest

from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.people import invitations, memberships, persons
from billing.people.person_sessions import find_person_session, open_person_session
from billing.people.persons import Member, create_member, find_member
from billing.tables.tenants import PLATFORM
from core.errors import Refused
from tests.billing.people.a_person import Peopled

AT_ONCE = 8


async def test_an_address_is_one_persons(peopled: Peopled) -> None:
    """However it is written; and mail can go there, and a reader sees it as it is."""
    for taken in ("olga@example.com", " OLGA@Example.Com"):
        with pytest.raises(Refused, match="somebody has this e-mail address"):
            await create_member(peopled.db, PLATFORM, "Olaf", "owner", taken)
    for wrong in ("nowhere", "a\u202eb@example.com", "a\u200bb@example.com", "a\0b@example.com"):
        with pytest.raises(Refused, match="no e-mail address"):
            await create_member(peopled.db, PLATFORM, "Olaf", "owner", wrong)


async def test_nobody_of_the_staff_takes_anothers_name(peopled: Peopled) -> None:
    """However it is written, by whatever way they come, and closed ones' neither: the audit log knows staff
    by name. Members of tenants may be called alike."""
    await persons.close_person(peopled.db, peopled.operator.person.id)
    for name in (
        "Olga",
        "OLGA",
        "\uff2f\uff4c\uff47\uff41",
        "Otto",
        "Token Nightly",
        "invitation 7",
        "unix:root",
    ):
        with pytest.raises(Refused, match="choose another one") as refused:
            await create_member(peopled.db, PLATFORM, name, "support")
        assert refused.value.refusal.field == "name"
    namesake = await create_member(peopled.db, peopled.tenant.tenant_id, "Olga", "viewer")
    async with peopled.db.transaction() as session:
        await memberships.lock_people(session, PLATFORM)
        with pytest.raises(Refused, match="choose another one"):
            await memberships.join(session, PLATFORM, namesake.person.id, "support")
    _, code = await invitations.invite(peopled.db, PLATFORM, "new@example.com", "support")
    with pytest.raises(Refused, match="choose another one"):
        await invitations.accept_invitation(peopled.db, code, "olga", "192.0.2.1", "Browser")
    new = await invitations.accept_invitation(peopled.db, code, "Nea", "192.0.2.1", "Browser")
    assert new.signed_in.person.name == "Nea"


async def test_two_who_join_at_once_have_two_names(peopled: Peopled) -> None:
    """Of eight by one name, one is of the staff."""
    made = (create_member(peopled.db, PLATFORM, "Nea", "support") for _ in range(AT_ONCE))
    done = await asyncio.gather(*made, return_exceptions=True)
    assert len([each for each in done if isinstance(each, Member)]) == 1
    assert all(isinstance(each, Member | Refused) for each in done)


async def test_roles_are_the_chains_own(peopled: Peopled) -> None:
    """A tenant has no owner, the platform no viewer."""
    with pytest.raises(Refused, match="admin, billing, developer, viewer"):
        await create_member(peopled.db, peopled.tenant.tenant_id, "Olaf", "owner")
    with pytest.raises(Refused, match="finance, operator, owner, support"):
        await memberships.set_role(peopled.db, PLATFORM, peopled.operator.person.id, "viewer")


async def test_members_are_found_by_id_address_or_name_in_their_own_tenant(peopled: Peopled) -> None:
    """Two of one name have to be named otherwise; another tenant's are unknown."""
    tenant = peopled.tenant.tenant_id
    for named in ("Ada", "ADA@example.com", peopled.admin.person.id):
        assert (await find_member(peopled.db, tenant, named)).person.id == peopled.admin.person.id
        with pytest.raises(Refused, match="there is nobody") as refused:
            await find_member(peopled.db, PLATFORM, named)
        assert refused.value.refusal.unknown
    await create_member(peopled.db, tenant, "Ada", "viewer")
    with pytest.raises(Refused, match="2 people are called 'Ada'"):
        await find_member(peopled.db, tenant, "Ada")


async def test_another_role_ends_the_sessions_that_had_the_one_before(peopled: Peopled) -> None:
    """In the same transaction; those of others stay."""
    token, other = await _signed_in(peopled, peopled.viewer), await _signed_in(peopled, peopled.admin)
    assert await find_person_session(peopled.db, token) is not None
    await memberships.set_role(peopled.db, peopled.tenant.tenant_id, peopled.viewer.person.id, "developer")
    assert await find_person_session(peopled.db, token) is None
    assert await find_person_session(peopled.db, other) is not None
    await _nothing_past_the_commands(peopled)


async def test_the_last_one_who_manages_people_stays(peopled: Peopled) -> None:
    """Neither demoted nor removed nor closed, for tenants as for the platform; until there is another."""
    tenant, ada = peopled.tenant.tenant_id, peopled.admin.person.id
    olga = peopled.owner.person.id
    refused = [
        lambda: memberships.set_role(peopled.db, tenant, ada, "viewer"),
        lambda: memberships.end_membership(peopled.db, tenant, ada),
        lambda: persons.close_person(peopled.db, ada),
        lambda: memberships.set_role(peopled.db, PLATFORM, olga, "operator"),
        lambda: persons.close_person(peopled.db, olga),
    ]
    for each in refused:
        with pytest.raises(Refused, match="they are the last"):
            await each()
    await memberships.set_role(peopled.db, tenant, peopled.viewer.person.id, "admin")
    await memberships.end_membership(peopled.db, tenant, ada)
    with pytest.raises(Refused, match="they are the last admin"):
        await persons.close_person(peopled.db, peopled.viewer.person.id)


async def test_of_owners_that_close_each_other_at_once_one_stays(peopled: Peopled) -> None:
    """Eight owners, each closed and demoted at the same moment: the last is refused."""
    more = [await create_member(peopled.db, PLATFORM, f"Owner {n}", "owner") for n in range(AT_ONCE - 1)]
    owners = [peopled.owner, *more]

    async def leave(number: int, member: Member) -> Any:
        if number % 2:
            return await memberships.set_role(peopled.db, PLATFORM, member.person.id, "support")
        return await persons.close_person(peopled.db, member.person.id)

    done = await asyncio.gather(*(leave(*each) for each in enumerate(owners)), return_exceptions=True)
    refused = [each for each in done if isinstance(each, BaseException)]
    assert len(refused) == 1
    assert isinstance(refused[0], Refused)
    await _nothing_past_the_commands(peopled)


async def test_who_was_removed_or_closed_comes_back_as_they_were(peopled: Peopled) -> None:
    """With their role; a removed one is no member meanwhile, a closed one signs in nowhere."""
    tenant, vic = peopled.tenant.tenant_id, peopled.viewer.person.id
    await memberships.end_membership(peopled.db, tenant, vic)
    with pytest.raises(Refused, match="there is nobody"):
        await memberships.set_role(peopled.db, tenant, vic, "admin")
    assert (await memberships.resume_membership(peopled.db, tenant, vic)).role == "viewer"
    token = await _signed_in(peopled, peopled.viewer)
    await persons.close_person(peopled.db, vic)
    assert await find_person_session(peopled.db, token) is None
    await persons.reopen_person(peopled.db, vic)
    assert await find_person_session(peopled.db, token) is None
    assert await find_person_session(peopled.db, await _signed_in(peopled, peopled.viewer)) is not None
    await _nothing_past_the_commands(peopled)


async def test_there_are_at_most_so_many_members(peopled: Peopled) -> None:
    """Who has ended counts no more."""
    tenant = peopled.tenant.tenant_id
    with pytest.raises(Refused, match="there are 2 members"):
        await create_member(peopled.db, tenant, "Max", "viewer", people_max=2)
    await memberships.end_membership(peopled.db, tenant, peopled.viewer.person.id)
    await create_member(peopled.db, tenant, "Max", "viewer", people_max=2)


async def test_the_audit_log_knows_no_name_and_no_address(peopled: Peopled) -> None:
    """Those stand in one table, from which they can be taken."""
    await memberships.set_role(peopled.db, peopled.tenant.tenant_id, peopled.viewer.person.id, "developer")
    for chain in (PLATFORM, peopled.tenant.tenant_id):
        for row in await list_rows(peopled.db, chain):
            assert "Vic" not in row.before + row.after + row.target
            assert "example.com" not in row.before + row.after + row.target


async def _signed_in(peopled: Peopled, member: Member) -> str:
    async with peopled.db.transaction() as session:
        new = await open_person_session(session, member.person, member.membership, "192.0.2.1", "Browser")
    return new.token


async def _nothing_past_the_commands(peopled: Peopled) -> None:
    for chain in (PLATFORM, peopled.tenant.tenant_id):
        assert (await compare_states(peopled.db, chain)).faults == []
