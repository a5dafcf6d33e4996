"""Operations on people and tokens: by whom, on whose people, and that nothing half done stays."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pyotp.totp import TOTP

from billing.alerts.report_mail import readers_of
from billing.alerts.targets import add_target, list_targets
from billing.audit.log import list_rows
from billing.operations import own_account, people, tokens
from billing.operations.people_facts import (
    CreateToken,
    InvitePerson,
    NamePerson,
    NameSession,
    NameToken,
    NoQuestion,
    SetPassword,
    SetRole,
    ShowCode,
    WhichAdmins,
    WhichPeople,
)
from billing.people.actors import actor_of_bearer, actor_of_cookie
from billing.people.first_owner import owner_url
from billing.people.person_sessions import NewPersonSession, find_person_session
from billing.people.persons import create_member, ensure_owner
from billing.people.sign_in import SignIns
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from core.clock import now_ms
from core.errors import Refused
from core.operations import Role, operation_of
from core.web.local_urls import console_url, portal_url
from tests.billing.operations.acting import OWNER, member_of, stores
from tests.support.mail import SmtpStub, post_office

__all__ = ["stores"]

WHY = Terms(reason="ticket 7")
AT_ONCE = 8
ADDRESS, AGENT = "192.0.2.1", "Browser"


class Signed:
    """People who sign in by what operations hand out."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.ins = SignIns(stores.settings, stores.db, stores.redis)

    async def by_invitation(self, email: str, role: Role, tenant: str = "") -> NewPersonSession:
        """Invited by the owner at the command line."""
        invited = await self.ask(people.invite_person, InvitePerson(email=email, role=role, tenant=tenant))
        assert invited.link is not None
        return await self.ins.by_invitation(_code(invited.link.shown), email.title(), ADDRESS, AGENT)

    async def actor(self, new: NewPersonSession) -> OperationActor:
        """Who the session's cookie says."""
        who = await actor_of_cookie(self.stores.db, new.token, loopback=True)
        assert who is not None
        return who

    async def ask(self, run: Callable[..., Awaitable[Any]], ask: Any, who: OperationActor = OWNER) -> Any:
        """Perform, with a reason."""
        return await answer_of(run, self.stores, who, ask, WHY)


@pytest.fixture
async def signed(stores: Stores) -> Signed:
    """On SQLite and Postgres."""
    return Signed(stores)


async def test_the_first_owner_comes_by_a_command_and_signs_in_by_a_link(signed: Signed) -> None:
    """And by a link again, whenever a command makes one; each is audited, none in a dry run."""
    new = await signed.by_invitation("olga@example.com", Role.OWNER)
    assert (new.signed_in.membership.tenant_id, new.signed_in.membership.role) == (PLATFORM, "owner")
    link = await signed.ask(people.link_person, NamePerson(person="olga@example.com"))
    again = await signed.ins.by_link(_code(link.link.shown), ADDRESS, AGENT)
    assert again.signed_in.person.id == new.signed_in.person.id
    dry = await perform(
        signed.stores,
        OWNER,
        operation_of(people.link_person),
        NamePerson(person="olga@example.com"),
        Terms(dry_run=True),
    )
    assert dry.answer.link.shown == ""
    actions = [row.action for row in await list_rows(signed.stores.db, PLATFORM)]
    assert actions.count("person.link") == 1


async def test_a_fresh_installation_has_one_owner_of_its_users_name(signed: Signed) -> None:
    """Eight at once make one; where others own it, nobody is made."""
    made = await asyncio.gather(*(ensure_owner(signed.stores.db, "root") for _ in range(AT_ONCE)))
    assert len({member.person.id for member in made if member is not None}) == 1
    assert await ensure_owner(signed.stores.db, "somebody") is None
    assert await owner_url(signed.stores.db, signed.stores.settings, "somebody") is None
    url = await owner_url(signed.stores.db, signed.stores.settings, "root")
    assert url is not None
    new = await signed.ins.by_link(_code(url), ADDRESS, AGENT)
    assert new.signed_in.membership.role == "owner"


async def test_a_link_leads_to_the_console_that_takes_its_person(signed: Signed) -> None:
    """Staff to the operators', members to that for tenants: the other one takes neither."""
    settings = signed.stores.settings
    for tenant, role, url in (("", Role.SUPPORT, console_url), ("acme", Role.VIEWER, portal_url)):
        ask = InvitePerson(email="zoe@example.com", role=role, tenant=tenant)
        invited = await signed.ask(people.invite_person, ask)
        assert invited.link.shown.startswith(f"{url(settings)}/#i=")


async def test_an_admin_manages_the_members_of_their_own_tenant(signed: Signed) -> None:
    """They need not name it, see nobody else, and nobody of the staff; a viewer manages nobody."""
    await signed.by_invitation("olga@example.com", Role.OWNER)
    ada = await signed.actor(await signed.by_invitation("ada@example.com", Role.ADMIN, "acme"))
    await signed.by_invitation("eve@example.com", Role.ADMIN, "other")
    vic = await signed.by_invitation("vic@example.com", Role.VIEWER, "acme")
    listed = await signed.ask(people.list_people, WhichPeople(), ada)
    assert [each.email for each in listed.items] == ["ada@example.com", "vic@example.com"]
    for tenant, person in (("", "olga@example.com"), ("", "eve@example.com"), ("other", "eve@example.com")):
        with pytest.raises(Refused) as refused:
            await signed.ask(people.close_person, NamePerson(person=person, tenant=tenant), ada)
        assert refused.value.refusal.unknown
    with pytest.raises(Refused, match="your role, viewer, may not"):
        await signed.ask(people.list_people, WhichPeople(), await signed.actor(vic))
    changed = await signed.ask(people.set_role, SetRole(person="vic@example.com", role=Role.BILLING), ada)
    assert changed.role is Role.BILLING
    assert await find_person_session(signed.stores.db, vic.token) is None


async def test_nobody_ends_their_own_membership_and_a_link_is_no_way_into_others(signed: Signed) -> None:
    """Somebody else has to; an admin makes no link for who is a member of others or staff too."""
    ada = await signed.actor(await signed.by_invitation("ada@example.com", Role.ADMIN, "acme"))
    for run in (people.close_person, people.reopen_person):
        with pytest.raises(Refused, match="somebody else has to do this"):
            await signed.ask(run, NamePerson(person="ada@example.com"), ada)
    eve = await signed.by_invitation("eve@example.com", Role.VIEWER, "acme")
    await signed.ask(people.link_person, NamePerson(person="eve@example.com"), ada)
    staff = InvitePerson(email="eve@example.com", role=Role.SUPPORT)
    invited = await signed.ask(people.invite_person, staff)
    await signed.ins.by_invitation(_code(invited.link.shown), "", ADDRESS, AGENT, eve.signed_in)
    for run in (people.link_person, people.forget_totp):
        with pytest.raises(Refused, match="belong to others too"):
            await signed.ask(run, NamePerson(person="eve@example.com"), ada)


async def test_of_edits_of_one_role_at_once_one_is_done(signed: Signed) -> None:
    """Eight who saw the same version: one changes it, seven learn of that."""
    await signed.by_invitation("ada@example.com", Role.ADMIN, "acme")
    await signed.by_invitation("vic@example.com", Role.VIEWER, "acme")
    named = NamePerson(person="vic@example.com", tenant="acme")
    seen = await perform(signed.stores, OWNER, operation_of(people.show_person), named)
    ask = SetRole(person="vic@example.com", tenant="acme", role=Role.DEVELOPER)
    terms = replace(WHY, version=seen.version)
    done = await asyncio.gather(
        *(answer_of(people.set_role, signed.stores, OWNER, ask, terms) for _ in range(AT_ONCE)),
        return_exceptions=True,
    )
    codes = [each.refusal.code for each in done if isinstance(each, Refused)]
    assert (len(done) - len(codes), codes) == (1, ["conflict"] * (AT_ONCE - 1))


async def test_owners_that_demote_each_other_at_once_leave_one(signed: Signed) -> None:
    """Each acts in a session of their own, which their own demotion ends: nobody waits in a circle, and
    somebody is left who is owner."""
    new = [await signed.by_invitation(f"o{n}@example.com", Role.OWNER) for n in range(4)]
    actors = [await signed.actor(each) for each in new]

    async def demote(number: int) -> Any:
        other = new[(number + 1) % len(new)].signed_in.person.id
        return await signed.ask(people.set_role, SetRole(person=other, role=Role.SUPPORT), actors[number])

    done = await asyncio.gather(*map(demote, range(len(new))), return_exceptions=True)
    assert [each for each in done if isinstance(each, BaseException) and not isinstance(each, Refused)] == []
    listed = await signed.ask(people.list_people, WhichPeople())
    assert Role.OWNER in {each.role for each in listed.items}


async def test_ones_own_password_and_second_factor(signed: Signed) -> None:
    """Set in a session; other sessions end. Who has a second factor shows it before another one is set up."""
    first = await signed.by_invitation("olga@example.com", Role.OWNER)
    link = await signed.ask(people.link_person, NamePerson(person="olga@example.com"))
    olga = await signed.actor(await signed.ins.by_link(_code(link.link.shown), ADDRESS, AGENT))
    with pytest.raises(Refused, match="12 to 200"):
        await signed.ask(own_account.set_password, SetPassword(password="short"), olga)
    ended = await signed.ask(own_account.set_password, SetPassword(password="long enough for it"), olga)
    assert ended.ended == 1
    assert await find_person_session(signed.stores.db, first.token) is None
    waits = replace(olga, second_factor=False)  # at a console that others reach too
    secret = await signed.ask(own_account.enroll_totp, NoQuestion(), waits)
    code = TOTP(secret.secret.shown).at(now_ms() // 1000)
    await signed.ask(own_account.confirm_totp, ShowCode(code=code), waits)
    new = await signed.ins.by_password("olga@example.com", "long enough for it", ADDRESS, AGENT)
    with pytest.raises(Refused, match="that you have first"):
        await signed.ask(own_account.enroll_totp, NoQuestion(), await signed.actor(new))
    with pytest.raises(Refused, match="signed in"):
        await signed.ask(own_account.enroll_totp, NoQuestion(), OWNER)
    shown = await signed.ask(people.forget_totp, NamePerson(person="olga@example.com"))
    assert not shown.second_factor


async def test_sessions_are_their_persons_and_their_managers_to_see_and_end(signed: Signed) -> None:
    """A viewer sees their own alone; the one that asks is marked, and not ended that way."""
    ada = await signed.actor(await signed.by_invitation("ada@example.com", Role.ADMIN, "acme"))
    new = await signed.by_invitation("vic@example.com", Role.VIEWER, "acme")
    vic = await signed.actor(new)
    mine = await signed.ask(people.list_person_sessions_of, NamePerson(person="me"), vic)
    assert [(each.session, each.this) for each in mine.items] == [(vic.session, True)]
    with pytest.raises(Refused, match="there is nobody"):
        await signed.ask(people.list_person_sessions_of, NamePerson(person="ada@example.com"), vic)
    with pytest.raises(Refused, match="sign out instead"):
        await signed.ask(people.end_session_of, NameSession(person="me", session=vic.session), vic)
    end = NameSession(person="vic@example.com", session=vic.session)
    await signed.ask(people.end_session_of, end, ada)
    assert await find_person_session(signed.stores.db, new.token) is None
    with pytest.raises(Refused, match="no open session"):
        await signed.ask(people.end_session_of, end, ada)


async def test_tokens_are_made_by_people_and_end_with_them(signed: Signed) -> None:
    """An owner's works for a tenant too; a token makes none, and invites nobody."""
    owner = await signed.actor(await signed.by_invitation("olga@example.com", Role.OWNER))
    made = await signed.ask(
        tokens.create_token, CreateToken(name="ci", role=Role.ADMIN, tenant="acme"), owner
    )
    who = await actor_of_bearer(signed.stores.db, made.secret.shown)
    assert who is not None
    acme = await find_tenant(signed.stores.db, "acme")
    assert acme is not None
    assert (who.role, who.tenant) == (Role.ADMIN, acme.tenant_id)
    listed = await signed.ask(tokens.list_tokens, WhichPeople(), who)
    assert [each.name for each in listed.items] == ["ci"]
    for run, ask in (
        (tokens.create_token, CreateToken(name="more", role=Role.ADMIN)),
        (people.invite_person, InvitePerson(email="eve@example.com", role=Role.ADMIN)),
    ):
        with pytest.raises(Refused, match="sign in for this"):
            await signed.ask(run, ask, who)
    await create_member(signed.stores.db, PLATFORM, "Otto", "owner")
    await signed.ask(people.close_person, NamePerson(person="olga@example.com"))
    assert await actor_of_bearer(signed.stores.db, made.secret.shown) is None
    revoked = await signed.ask(tokens.revoke_token, NameToken(token=made.token.prefix, tenant="acme"))
    assert revoked.revoked is not None


async def test_an_invitation_goes_by_mail_where_there_is_a_mail_server(signed: Signed) -> None:
    """It names the tenant, and its link is not shown then; where the server refuses, that is said, and the
    invitation stands."""
    async with post_office(SmtpStub()) as smtp:
        changed = signed.stores.settings.model_copy(
            update={"smtp_host": "127.0.0.1", "smtp_port": smtp.port, "smtp_security": "none"}
        )
        mailing = Stores(changed, signed.stores.db, lambda: signed.stores.redis)
        ask = InvitePerson(email="olga@example.com", role=Role.OWNER)
        invited = await answer_of(people.invite_person, mailing, OWNER, ask, WHY)
        assert (invited.mailed, invited.link) == (True, None)
        (message,) = smtp.messages
        assert (message["To"], message["Subject"]) == ("olga@example.com", "You are invited to manage Parley")
        new = await signed.ins.by_invitation(
            _code(re.findall(r"\S+#i=\S+", message.get_content())[0]), "Olga", ADDRESS, AGENT
        )
        assert new.signed_in.person.email == "olga@example.com"
        acme = InvitePerson(email="ann@example.com", role=Role.ADMIN, tenant="acme")
        await answer_of(people.invite_person, mailing, OWNER, acme, WHY)
        assert smtp.messages[-1]["Subject"] == "You are invited to join acme on Parley"
        assert "invited to join acme on Parley, as admin" in smtp.messages[-1].get_content()
        smtp.says["RCPT"] = "550 no"
        ask = msgspec.structs.replace(ask, email="x@example.com")
        done = await perform(mailing, OWNER, operation_of(people.invite_person), ask, WHY)
        assert isinstance(done.untold, Refused)
        assert "no mail could be sent" in done.untold.refusal.message
    listed = await signed.ask(people.list_invited, WhichPeople())
    assert [each.email for each in listed.items] == ["x@example.com"]


def _code(url: str) -> str:
    return url.partition("=")[2]


@pytest.mark.parametrize("of", ["acme", ""], ids=["member", "staff"])
async def test_who_is_removed_gets_no_alert_or_report_by_mail(stores: Stores, of: str) -> None:
    """Alerts to their own address end with them, in whichever case, and there alone; others stay."""
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    tenant = acme.tenant_id if of else PLATFORM
    role = "billing" if of else "finance"
    await create_member(stores.db, tenant, "Eve", role, "eve@acme.example")
    for chain in {tenant, acme.tenant_id, PLATFORM}:
        for address in ("Eve@acme.example", "books@acme.example"):
            await add_target(stores.db, chain, "email", address)
    await answer_of(people.close_person, stores, OWNER, NamePerson(tenant=of, person="Eve"), WHY)
    left = {chain: len(await list_targets(stores.db, chain)) for chain in (acme.tenant_id, PLATFORM)}
    assert left == {chain: 1 if chain == tenant else 2 for chain in left}
    (kept,) = await list_targets(stores.db, tenant)
    assert kept.address == "books@acme.example"
    async with stores.db.session() as session:
        assert await readers_of(session, acme.tenant_id) == {}
    assert "alert_target.remove" in [row.action for row in await list_rows(stores.db, tenant)]


async def test_each_member_learns_by_name_which_admins_they_may_ask(stores: Stores) -> None:
    """Of their own tenant, those who are let in now; nothing else of them."""
    acme = await find_tenant(stores.db, "acme")
    assert acme is not None
    for name, role in (("Ada", "admin"), ("Abe", "admin"), ("Bo", "billing")):
        await create_member(stores.db, acme.tenant_id, name, role)
    await answer_of(people.close_person, stores, OWNER, NamePerson(tenant="acme", person="Abe"), WHY)
    viewer = member_of(acme.tenant_id, Role.VIEWER)
    listed = (await answer_of(people.list_admins, stores, viewer, WhichAdmins(tenant="acme"))).items
    assert [msgspec.to_builtins(each) for each in listed] == [{"name": "Ada"}]
    with pytest.raises(Refused, match="no tenant"):
        await answer_of(people.list_admins, stores, viewer, WhichAdmins(tenant="other"))
