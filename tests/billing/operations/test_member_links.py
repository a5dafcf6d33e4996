"""Links that a tenant's admin makes for its members: who may, whom they open, where they go, their end."""

import re

import pytest

from billing.audit.log import list_rows
from billing.operations import own_account, people
from billing.operations.people_facts import InvitePerson, NamePerson, SetPassword, SetRole
from billing.people.actors import actor_of_cookie
from billing.people.memberships import join, lock_people
from billing.people.person_sessions import NewPersonSession
from billing.people.persons import create_member
from billing.people.sign_in import SignIns
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from core.errors import Refused
from core.operations import Role, operation_of
from tests.billing.operations.acting import OWNER, stores
from tests.support.mail import SmtpStub, post_office

__all__ = ["stores"]

WHY = Terms(reason="they lost their session")
ADDRESS, AGENT = "192.0.2.1", "Browser"
VIC = NamePerson(person="vic@example.com")
LINK = operation_of(people.link_person)


class MembersOfAcme:
    """A tenant with an admin, Ada, who is signed in, and a viewer, Vic."""

    def __init__(self, stores: Stores, ada: OperationActor) -> None:
        self.stores, self.ada, self.tenant = stores, ada, ada.tenant or ""
        self.ins = SignIns(stores.settings, stores.db, stores.redis)

    async def link(self, ask: NamePerson = VIC, who: OperationActor | None = None) -> str:
        """The code of a link that Ada makes."""
        made = await answer_of(people.link_person, self.stores, who or self.ada, ask, WHY)
        assert made.link is not None
        return made.link.shown.partition("#p=")[2]

    async def opened(self, code: str) -> NewPersonSession:
        """The session that a link opens."""
        return await self.ins.by_link(code, ADDRESS, AGENT)

    async def joins(self, email: str, tenant: str) -> None:
        """Have somebody belong to another tenant, or the staff, too."""
        person = (await answer_of(people.show_person, self.stores, self.ada, NamePerson(person=email))).person
        async with self.stores.db.transaction() as session:
            await lock_people(session, tenant)
            await join(session, tenant, person, "viewer" if tenant else "support")


@pytest.fixture
async def acme(stores: Stores) -> MembersOfAcme:
    """On SQLite and Postgres."""
    ins, sessions = SignIns(stores.settings, stores.db, stores.redis), {}
    for email, role in (("ada@example.com", Role.ADMIN), ("vic@example.com", Role.VIEWER)):
        ask = InvitePerson(email=email, role=role, tenant="acme")
        invited = await answer_of(people.invite_person, stores, OWNER, ask, WHY)
        assert invited.link is not None
        code = invited.link.shown.partition("#i=")[2]
        sessions[role] = await ins.by_invitation(code, email[:3].title(), ADDRESS, AGENT)
    ada = await actor_of_cookie(stores.db, sessions[Role.ADMIN].token, loopback=True)
    assert ada is not None
    return MembersOfAcme(stores, ada)


async def test_an_admin_lets_a_member_in_again_after_another_role(acme: MembersOfAcme) -> None:
    """By a link that is good once and audited, which a dry run makes none of. The member sets a password, and
    needs no link from then on."""
    await answer_of(
        people.set_role, acme.stores, acme.ada, SetRole(person=VIC.person, role=Role.BILLING), WHY
    )
    dry = await perform(acme.stores, acme.ada, LINK, VIC, Terms(dry_run=True))
    assert dry.answer.link.shown == ""
    code = await acme.link()
    new = await acme.opened(code)
    assert new.signed_in.membership.role == "billing"
    with pytest.raises(Refused, match="not good any more"):
        await acme.opened(code)
    rows = [row for row in await list_rows(acme.stores.db, acme.tenant) if row.action == "person.link"]
    assert [row.target for row in rows] == [new.signed_in.person.id]
    vic = await actor_of_cookie(acme.stores.db, new.token, loopback=True)
    assert vic is not None
    password = "correct horse battery"
    await answer_of(own_account.set_password, acme.stores, vic, SetPassword(password=password))
    again = await acme.ins.by_password(VIC.person, password, ADDRESS, AGENT)
    assert again.signed_in.membership.tenant_id == acme.tenant


@pytest.mark.parametrize("role", [Role.BILLING, Role.DEVELOPER, Role.VIEWER])
async def test_no_other_role_makes_links(acme: MembersOfAcme, role: Role) -> None:
    """Of the tenant: neither for others nor for themselves."""
    ask = SetRole(tenant="acme", person=VIC.person, role=role)
    await answer_of(people.set_role, acme.stores, OWNER, ask, WHY)
    vic = await actor_of_cookie(acme.stores.db, (await acme.opened(await acme.link())).token, loopback=True)
    assert vic is not None
    for named in ("ada@example.com", VIC.person):
        with pytest.raises(Refused, match=f"your role, {role.value}, may not"):
            await acme.link(NamePerson(person=named), vic)


async def test_an_admin_makes_none_for_another_tenants_people_or_staff(acme: MembersOfAcme) -> None:
    """They do not exist for the admin, by whichever name."""
    db = acme.stores.db
    other = await find_tenant(db, "other")
    assert other is not None
    eve = await create_member(db, other.tenant_id, "Eve", "admin", "eve@example.com")
    olga = await create_member(db, PLATFORM, "Olga", "owner", "olga@example.com")
    for tenant in ("", "other", other.tenant_id):
        for person in ("eve@example.com", eve.person.id, "olga@example.com", olga.person.id):
            with pytest.raises(Refused) as refused:
                await acme.link(NamePerson(person=person, tenant=tenant))
            assert refused.value.refusal.unknown


@pytest.mark.parametrize("elsewhere", ["other", "staff"])
async def test_a_link_opens_nobody_who_belongs_to_others_too(acme: MembersOfAcme, elsewhere: str) -> None:
    """None is made, and one of before is good no more; nor does a session of before set a first password,
    which would be good there too."""
    db = acme.stores.db
    other = await find_tenant(db, "other")
    assert other is not None
    code, waiting = await acme.link(), await acme.link()
    new = await acme.opened(code)
    vic = await actor_of_cookie(db, new.token, loopback=True)
    assert vic is not None
    await acme.joins(VIC.person, other.tenant_id if elsewhere == "other" else PLATFORM)
    with pytest.raises(Refused, match="belong to others too"):
        await acme.link()
    with pytest.raises(Refused, match="not good any more"):
        await acme.opened(waiting)
    with pytest.raises(Refused, match="open a new sign-in link"):
        await answer_of(
            own_account.set_password, acme.stores, vic, SetPassword(password="correct horse battery")
        )


@pytest.mark.parametrize("ends", ["role", "person"])
async def test_a_link_ends_with_its_makers_rights(acme: MembersOfAcme, ends: str) -> None:
    """Who is admin no more, or removed, leaves no way in behind. Staff's links stay."""
    await create_member(acme.stores.db, acme.tenant, "Abe", "admin", "abe@example.com")
    code, staffs = await acme.link(), await acme.link(NamePerson(person=VIC.person, tenant="acme"), OWNER)
    ada = {"tenant": "acme", "person": "ada@example.com"}
    if ends == "role":
        await answer_of(people.set_role, acme.stores, OWNER, SetRole(**ada, role=Role.VIEWER), WHY)
    else:
        await answer_of(people.close_person, acme.stores, OWNER, NamePerson(**ada), WHY)
    with pytest.raises(Refused, match="not good any more"):
        await acme.opened(code)
    assert (await acme.opened(staffs)).signed_in.person.email == VIC.person


async def test_where_mail_is_set_up_the_admin_never_sees_the_link(acme: MembersOfAcme) -> None:
    """It goes to the member's own address, names the tenant, and opens there."""
    async with post_office(SmtpStub()) as smtp:
        mailing = {"smtp_host": "127.0.0.1", "smtp_port": smtp.port, "smtp_security": "none"}
        changed = acme.stores.settings.model_copy(update=mailing)
        stores = Stores(changed, acme.stores.db, lambda: acme.stores.redis)
        dry = await perform(stores, acme.ada, LINK, VIC, Terms(dry_run=True))
        assert (dry.answer.mailed, smtp.messages) == (True, [])
        made = await answer_of(people.link_person, stores, acme.ada, VIC, WHY)
        assert (made.mailed, made.link) == (True, None)
        (message,) = smtp.messages
        assert (message["To"], message["Subject"]) == (VIC.person, "Sign in to acme at Parley")
        code = re.findall(r"\S+#p=(\S+)", message.get_content())[0]
        assert (await acme.opened(code)).signed_in.person.email == VIC.person


async def test_links_are_made_so_often(acme: MembersOfAcme) -> None:
    """By one admin, as each may be a mail; who asks for more is told to wait."""
    for _ in range(people.LINKS_A_MINUTE):
        await acme.link()
    with pytest.raises(Refused, match="links a minute") as refused:
        await acme.link()
    assert refused.value.refusal.after_ms


async def test_who_is_a_member_already_is_told_of_the_link(acme: MembersOfAcme) -> None:
    """Inviting them again names the way in."""
    ask = InvitePerson(email=VIC.person, role=Role.VIEWER)
    with pytest.raises(
        Refused, match="by a sign-in link, which is made for them beside their name"
    ) as refused:
        await answer_of(people.invite_person, acme.stores, acme.ada, ask, WHY)
    assert refused.value.refusal.field == "email"
