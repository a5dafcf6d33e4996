"""Operations on people: who is staff, or a member of a tenant, with which role; their links and sessions.

Owners manage the staff and every tenant's members, admins their own tenant's.
"""

from msgspec import UNSET
from sqlmodel import col, select

from billing.alerts.targets import remove_mail_targets
from billing.operations.people_facts import (
    AdminName,
    EditPerson,
    InvitationFacts,
    InvitedPerson,
    InvitePerson,
    NameInvitation,
    NamePerson,
    NameSession,
    PersonFacts,
    PersonLinkShown,
    PersonSessionFacts,
    SetRole,
    WhichAdmins,
    WhichPeople,
)
from billing.operations.tenants import AUDIT
from billing.people import invitations, memberships, own_account, persons
from billing.people.account_edits import edit_person
from billing.people.invitation_mail import tell_invitation
from billing.people.link_mail import tell_link
from billing.people.links import INVITATION_MARK, LINK_MARK, link_url, make_person_code
from billing.people.memberships import no_member
from billing.people.person_sessions import end_person_session, list_person_sessions
from billing.people.persons import Member
from billing.tables.people import Invitation, Membership, Person
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.listing import listed_page
from billing.unit_of_work.units import Change, Look
from core.errors import Refusal, Refused, bad_request, see, see_help, unknown
from core.network.buckets import Rate, TokenBuckets
from core.operations import ADMINS, MEMBERS, OWNERS, STAFF, ListedPage, Role, Secret, Uses, operation

MANAGERS = OWNERS | ADMINS
ANYBODY = STAFF | MEMBERS
ME = "me"
OWN = "you change your own account by itself (PATCH /me)"
NOT_BY_TOKEN = "a token lets nobody else in: sign in for this"
LINKS_A_MINUTE = 10  # of one admin of a tenant at one process
_links = TokenBuckets(Rate.a_minute(LINKS_A_MINUTE))


@operation("people.list", "GET /people", may=MANAGERS, uses=Uses(reads="tenant person membership"))
async def list_people(look: Look, ask: WhichPeople) -> ListedPage[PersonFacts]:
    """List people and their roles, in the order in which they came; removed and closed ones too."""
    chain = await chain_of(look, ask.tenant)
    statement = select(Membership).where(col(Membership.tenant_id) == chain)
    page: ListedPage[Membership] = await listed_page(
        look, ask, statement, col(Membership.person_id), lambda row: row
    )
    named = select(Person).where(col(Person.id).in_([row.person_id for row in page.items]))
    async with look.db.session() as session:
        people = {person.id: person for person in (await session.exec(named)).all()}
    return ListedPage([PersonFacts.of(Member(people[row.person_id], row)) for row in page.items], page.next)


@operation(
    "people.admins",
    "GET /tenants/{tenant}/admins",
    may=OWNERS | MEMBERS,
    uses=Uses(reads="tenant person membership"),
)
async def list_admins(look: Look, ask: WhichAdmins) -> ListedPage[AdminName]:
    """List whom the members of a tenant may ask for what their own role cannot do, by name alone."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = (
        select(Person)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(
            col(Membership.tenant_id) == owner,
            col(Membership.role) == Role.ADMIN.value,
            col(Membership.ended_ms).is_(None),
            col(Person.closed_ms).is_(None),
        )
    )
    return await listed_page(look, ask, statement, col(Person.id), lambda row: AdminName(row.name))


@operation(
    "people.show",
    "GET /people/{person}",
    may=MANAGERS,
    uses=Uses(reads="tenant person membership audit_state"),
)
async def show_person(look: Look, ask: NamePerson) -> PersonFacts:
    """Show a person and their role."""
    member = await _member(look, ask)
    await look.seen(Membership, member.membership.tenant_id, member.membership.tenant_id, member.person.id)
    return PersonFacts.of(member)


@operation(
    "people.invite",
    "POST /invitations",
    may=MANAGERS,
    audit="invitation.create",
    uses=Uses(reads="tenant person membership", writes=f"tenant invitation {AUDIT}"),
)
async def invite_person(change: Change, ask: InvitePerson) -> InvitedPerson:
    """Invite somebody: by mail where a mail server is set, else by a link that is shown this once.

    An earlier invitation of the same address is good no more. It lasts a week."""
    _check_no_token(change)
    chain = await chain_of(change, ask.tenant)
    row, code = await invitations.invite(change.db, chain, ask.email, ask.role, change.who.id)
    url = link_url(change.settings, INVITATION_MARK, code, chain)
    mailed = bool(change.settings.smtp_host)
    if mailed:
        change.after(tell_invitation, change.settings, row, url)
    return InvitedPerson(InvitationFacts.of(row), mailed, None if mailed else Secret(url))


@operation("people.invitations", "GET /invitations", may=MANAGERS, uses=Uses(reads="tenant invitation"))
async def list_invited(look: Look, ask: WhichPeople) -> ListedPage[InvitationFacts]:
    """List invitations that wait, oldest first."""
    chain = await chain_of(look, ask.tenant)
    waiting = invitations.waiting(chain, look.now_ms())
    return await listed_page(look, ask, waiting, col(Invitation.id), InvitationFacts.of)


@operation(
    "people.withdraw",
    "POST /invitations/{invitation}/withdraw",
    may=MANAGERS,
    audit="invitation.withdraw",
    uses=Uses(writes=f"tenant invitation {AUDIT}"),
)
async def withdraw_invitation(change: Change, ask: NameInvitation) -> InvitationFacts:
    """Let the link of an invitation be good no more."""
    chain = await chain_of(change, ask.tenant)
    return InvitationFacts.of(await invitations.withdraw_invitation(change.db, chain, ask.invitation))


@operation(
    "people.set_role",
    "PATCH /people/{person}",
    may=MANAGERS,
    audit="membership.set",
    reason=True,
    edits=True,
    uses=Uses(reads="person", writes=f"tenant membership person_session {AUDIT}"),
)
async def set_role(change: Change, ask: SetRole) -> PersonFacts:
    """Give somebody another role. Their sessions end, and sign in again with it. While they manage people no
    more, tokens and invitations that they made are refused."""
    member = await _other(change, ask)
    chain = member.membership.tenant_id
    await change.editing(Membership, chain, chain, member.person.id)
    row = await memberships.set_role(change.db, chain, member.person.id, ask.role)
    return PersonFacts.of(Member(member.person, row))


@operation(
    "people.edit",
    "PATCH /people/{person}/account",
    may=MANAGERS,
    audit="person.edit",
    reason=True,
    uses=Uses(reads="membership", writes=f"tenant person {AUDIT}"),
)
async def edit_person_of(change: Change, ask: EditPerson) -> PersonFacts:
    """Change somebody's e-mail address, with which they sign in, or a member's name. Addresses are for owners
    to set; a tenant's admin invites another one."""
    member = await _member(change, ask)
    if member.person.id == change.who.id:
        raise bad_request(OWN, field="person")
    if change.who.tenant is not None:
        await persons.check_only_here(change.db, member.person.id, member.membership.tenant_id)
        if ask.email is not UNSET:
            raise bad_request("an invitation proves an address", field="email", see=see_help("people.invite"))
    facts = {key: value for key in ("name", "email") if (value := getattr(ask, key)) is not UNSET}
    return PersonFacts.of(Member(await edit_person(change.db, member.person.id, **facts), member.membership))


@operation(
    "people.close",
    "POST /people/{person}/close",
    may=MANAGERS,
    audit="person.close membership.end alert_target.remove",
    reason=True,
    uses=Uses(writes=f"tenant person membership person_session alert_target {AUDIT}"),
)
async def close_person(change: Change, ask: NamePerson) -> PersonFacts:
    """Let somebody in no more: staff nowhere, a member not into this tenant. Their sessions end, tokens and
    invitations that they made are refused, and alerts to their address end."""
    member = await _other(change, ask)
    chain, person = member.membership.tenant_id, member.person
    if chain == PLATFORM:
        person, row = await persons.close_person(change.db, person.id), member.membership
    else:
        row = await memberships.end_membership(change.db, chain, person.id)
    if person.email:
        await remove_mail_targets(change.db, chain, person.email)
    return PersonFacts.of(Member(person, row))


@operation(
    "people.reopen",
    "POST /people/{person}/reopen",
    may=MANAGERS,
    audit="person.reopen membership.begin",
    reason=True,
    uses=Uses(writes=f"tenant person membership {AUDIT}"),
)
async def reopen_person(change: Change, ask: NamePerson) -> PersonFacts:
    """Let somebody in again, with the role that they had."""
    member = await _other(change, ask)
    chain, id = member.membership.tenant_id, member.person.id
    if chain == PLATFORM:
        return PersonFacts.of(Member(await persons.reopen_person(change.db, id), member.membership))
    most = change.settings.people_per_tenant_max
    row = await memberships.resume_membership(change.db, chain, id, most)
    return PersonFacts.of(Member(member.person, row))


@operation(
    "people.link",
    "POST /people/{person}/link",
    may=MANAGERS,
    audit="person.link",
    uses=Uses(reads="tenant person membership", writes=AUDIT),
)
async def link_person(change: Change, ask: NamePerson) -> PersonLinkShown:
    """Make a link that signs one browser in as a person, once, within an hour. A dry run makes no code.

    What a tenant's admin makes goes to the member by mail where a mail server is set, and is shown to nobody;
    it opens none who belong to others too, and ends with the admin's own rights."""
    _check_no_token(change)
    member = await _member(change, ask)
    chain, id = member.membership.tenant_id, member.person.id
    if PersonFacts.of(member).state != "active":
        raise bad_request("they are let in no more", field="person", see=see_help("people.reopen"))
    by = ""
    if change.who.tenant is not None:
        await persons.check_only_here(change.db, id, chain)
        by = _paced_maker(change)
    await own_account.record_link(change.db, chain, id)
    code = ""
    if not change.terms.dry_run:  # a code works whatever is rolled back
        code = make_person_code(change.settings.keyring, id, chain, change.now_ms(), by)
    url, email = link_url(change.settings, LINK_MARK, code, chain), member.person.email
    if not by or not email or not change.settings.smtp_host:
        return PersonLinkShown(Secret(url), mailed=False)
    change.after(tell_link, change.settings, email, (await change.tenant(chain)).name, url)
    return PersonLinkShown(None, mailed=True)


@operation(
    "people.forget_totp",
    "POST /people/{person}/totp/forget",
    may=MANAGERS,
    audit="person.forget_totp",
    reason=True,
    uses=Uses(reads="tenant membership", writes=f"person {AUDIT}"),
)
async def forget_totp(change: Change, ask: NamePerson) -> PersonFacts:
    """Take the second factor of somebody away who lost it: they set another one up."""
    member = await _other(change, ask)
    if change.who.tenant is not None:
        await persons.check_only_here(change.db, member.person.id, member.membership.tenant_id)
    person = await own_account.forget_totp(change.db, member.person.id)
    return PersonFacts.of(Member(person, member.membership))


@operation(
    "people.sessions",
    "GET /people/{person}/sessions",
    may=ANYBODY,
    uses=Uses(reads="tenant person membership person_session"),
)
async def list_person_sessions_of(look: Look, ask: NamePerson) -> ListedPage[PersonSessionFacts]:
    """List the browsers in which somebody is signed in, newest first. `me`: your own."""
    chain, id = await _whose(look, ask)
    rows = await list_person_sessions(look.db, chain, id)
    return ListedPage([PersonSessionFacts.of(row, look.who.session) for row in rows])


@operation(
    "people.end_session",
    "POST /people/{person}/sessions/{session}/end",
    may=ANYBODY,
    audit="session.end",
    uses=Uses(reads="tenant person membership", writes=f"person_session {AUDIT}"),
)
async def end_session_of(change: Change, ask: NameSession) -> PersonSessionFacts:
    """Sign a browser out. The one that asks signs out by itself."""
    chain, id = await _whose(change, ask)
    if ask.session == change.who.session:
        raise bad_request("this is the session that you ask with: sign out instead", field="session")
    row = await end_person_session(change.db, chain, ask.session, id)
    if row is None:
        raise unknown(f"there is no open session {ask.session!r}", field="session")
    return PersonSessionFacts.of(row)


async def chain_of(unit: Look | Change, named: str) -> str:
    """The tenant whose people are meant; where none is named the caller's own, PLATFORM for staff. Raises
    Refused for one that does not exist for them."""
    return (await unit.tenant(named)).tenant_id if named else unit.who.tenant or PLATFORM


async def _member(unit: Look | Change, ask: NamePerson) -> Member:
    return await persons.find_member(unit.db, await chain_of(unit, ask.tenant), ask.person)


async def _other(change: Change, ask: NamePerson) -> Member:
    """The person, who is not the caller: what ends a session cannot be done in it."""
    member = await _member(change, ask)
    if member.person.id == change.who.id:
        raise bad_request("somebody else has to do this to you", field="person")
    return member


async def _whose(unit: Look | Change, ask: NamePerson) -> tuple[str, str]:
    """Whose sessions: the caller's own, or for those who manage people anybody's."""
    if ask.person in (ME, unit.who.id):
        if not unit.who.session:
            raise bad_request("only people have sessions: name one", field="person", see=see("people.list"))
        return unit.who.tenant or PLATFORM, unit.who.id
    if unit.who.role not in MANAGERS:
        raise no_member(ask.person)
    member = await _member(unit, ask)
    return member.membership.tenant_id, member.person.id


def _paced_maker(change: Change) -> str:
    """The id of the admin who makes a link, each of which may be a mail. Raises Refused where they make very
    many."""
    after_ms = 0 if change.terms.dry_run else _links.take(change.who.id)
    if after_ms:
        told = f"you make {LINKS_A_MINUTE} links a minute: wait a while"
        raise Refused(Refusal("rate_limited", told, retry=True, after_ms=after_ms))
    return change.who.id


def _check_no_token(change: Change) -> None:
    """Raise Refused for a token: what it lets in would outlive it."""
    if change.who.id and not change.who.session:
        raise bad_request(NOT_BY_TOKEN)


OPERATIONS = (
    list_people,
    list_admins,
    show_person,
    invite_person,
    list_invited,
    withdraw_invitation,
    set_role,
    edit_person_of,
    close_person,
    reopen_person,
    link_person,
    forget_totp,
    list_person_sessions_of,
    end_session_of,
)
