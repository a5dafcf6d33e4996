"""What operations on people are asked and answer. Times are RFC 3339 in UTC."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from billing.people.persons import Member
from billing.tables.people import Invitation, Person, PersonSession, ServiceToken
from billing.unit_of_work.listing import ListQuestion
from core.clock import iso_time
from core.operations import Role, Secret

OF_TENANT = (
    "A tenant's name or id: its members and tokens. By default your own tenant's; for staff, the platform's."
)
PersonName = Annotated[str, Meta(description="The person's e-mail address, name or id.")]
OwnerTenant = Annotated[str, Meta(description=OF_TENANT)]
AnyRole = Annotated[
    Role,
    Meta(
        description="owner, operator, finance or support of the staff; admin, billing, developer or viewer "
        "of a tenant."
    ),
]
DAYS = 90


class WhichPeople(ListQuestion, frozen=True, kw_only=True):
    """Whose people, or tokens."""

    tenant: OwnerTenant = ""


class NamePerson(msgspec.Struct, frozen=True, kw_only=True):
    """Which person."""

    person: PersonName
    tenant: OwnerTenant = ""


class WhichAdmins(ListQuestion, frozen=True, kw_only=True):
    """Whose admins."""

    tenant: Annotated[str, Meta(description="The tenant's name or id.")]


class SetRole(NamePerson, frozen=True, kw_only=True):
    """Which role they get."""

    role: AnyRole


class EditPerson(NamePerson, frozen=True, kw_only=True):
    """What to change; what is not named stays as it is."""

    name: Annotated[str | UnsetType, Meta(description="Their name. That of staff stays.")] = UNSET
    email: Annotated[
        str | UnsetType,
        Meta(description="The address that they sign in with, which nobody else has. Staff set it."),
    ] = UNSET


class EditOwnAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of your own account; what is not named stays as it is."""

    name: Annotated[str | UnsetType, Meta(description="Your name. That of staff stays.")] = UNSET
    email: Annotated[
        str | UnsetType,
        Meta(description="The address that you sign in with, which nobody else has. For staff."),
    ] = UNSET
    language: Annotated[
        str | UnsetType, Meta(description="Your language, like `en` or `pt-BR`; empty: none.")
    ] = UNSET
    current: Annotated[
        str,
        Meta(max_length=1000, description="For the address: your password; not soon after you signed in."),
    ] = ""


class InvitePerson(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to invite."""

    email: Annotated[str, Meta(description="Their e-mail address.")]
    role: AnyRole
    tenant: OwnerTenant = ""


class NameInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """Which invitation."""

    invitation: Annotated[str, Meta(description="Its id, or the address that was invited.")]
    tenant: OwnerTenant = ""


class NameSession(NamePerson, frozen=True, kw_only=True):
    """Which session of whom; `me`: your own."""

    session: Annotated[str, Meta(description="The session's id, as `people sessions` shows it.")]


class SetPassword(msgspec.Struct, frozen=True, kw_only=True):
    """Your new password."""

    password: Annotated[str, Meta(description="12 to 200 characters, of any kind.")]
    current: Annotated[
        str, Meta(max_length=1000, description="Your present one; not needed soon after you signed in.")
    ] = ""


class NoQuestion(msgspec.Struct, frozen=True):
    """Nothing has to be said."""


class ShowCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code of the second factor."""

    code: Annotated[str, Meta(description="The six digits that the app shows now.")]


class CreateToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token."""

    name: Annotated[str, Meta(description="What it is for.")]
    role: AnyRole
    days: Annotated[int, Meta(ge=1, le=366, description="How long it lasts.")] = DAYS
    tenant: OwnerTenant = ""


class NameToken(msgspec.Struct, frozen=True, kw_only=True):
    """Which token."""

    token: Annotated[str, Meta(description="The token's prefix, name or id.")]
    tenant: OwnerTenant = ""


class PersonState(StrEnum):
    """REMOVED: a member no more. CLOSED: signs in nowhere."""

    ACTIVE = "active"
    REMOVED = "removed"
    CLOSED = "closed"


class PersonFacts(msgspec.Struct, frozen=True):
    """A person in one tenant, or (`tenant` empty) among the staff."""

    person: str
    name: str
    email: str | None
    tenant: str
    role: Role
    state: PersonState
    password: bool
    second_factor: bool
    since: str | None

    @classmethod
    def of(cls, member: Member) -> "PersonFacts":
        """The facts of a member."""
        person, row = member.person, member.membership
        state = PersonState.REMOVED if row.ended_ms is not None else PersonState.ACTIVE
        return cls(
            person=person.id,
            name=person.name,
            email=person.email,
            tenant=row.tenant_id,
            role=Role(row.role),
            state=PersonState.CLOSED if person.closed_ms is not None else state,
            password=person.password_hash is not None,
            second_factor=person.totp_hidden is not None,
            since=iso_time(row.created_ms),
        )


class AdminName(msgspec.Struct, frozen=True):
    """An admin, as their colleagues know them."""

    name: str


class InvitationFacts(msgspec.Struct, frozen=True):
    """An invitation that waits."""

    invitation: str
    email: str
    tenant: str
    role: Role
    expires: str | None

    @classmethod
    def of(cls, row: Invitation) -> "InvitationFacts":
        """The facts of a row."""
        return cls(row.id, row.email, row.tenant_id, Role(row.role), iso_time(row.expires_ms))


class InvitedPerson(msgspec.Struct, frozen=True):
    """An invitation, and its link where no mail brings it."""

    invitation: InvitationFacts
    mailed: bool
    link: Secret | None


class PersonLinkShown(msgspec.Struct, frozen=True):
    """A link that signs one browser in as a person; None where a mail brings it to them."""

    link: Secret | None
    mailed: bool


class PersonSessionFacts(msgspec.Struct, frozen=True):
    """A browser in which somebody is signed in."""

    session: str
    person: str
    made: str | None
    seen: str | None
    ends: str | None
    address: str
    agent: str
    second_factor: bool
    this: bool

    @classmethod
    def of(cls, row: PersonSession, own: str = "") -> "PersonSessionFacts":
        """The facts of a row. `own`: the session that asks."""
        return cls(
            session=row.id,
            person=row.person_id,
            made=iso_time(row.made_ms),
            seen=iso_time(row.seen_ms),
            ends=iso_time(row.ends_ms),
            address=row.address,
            agent=row.agent,
            second_factor=row.second_factor_ms is not None,
            this=row.id == own,
        )


class OwnAccount(msgspec.Struct, frozen=True):
    """What an account says of its person."""

    person: str
    name: str
    email: str | None
    language: str
    password: bool
    second_factor: bool

    @classmethod
    def of(cls, row: Person) -> "OwnAccount":
        """The account of a person."""
        has = row.password_hash is not None, row.totp_hidden is not None
        return cls(row.id, row.name, row.email, row.language, *has)


class OtherSessionsEnded(msgspec.Struct, frozen=True):
    """How many of one's sessions ended."""

    ended: int


class TotpSecret(msgspec.Struct, frozen=True):
    """A secret for an app that makes codes, and the same as an address that a QR code holds. It counts once
    a code of it is confirmed."""

    secret: Secret
    uri: Secret


class TokenFacts(msgspec.Struct, frozen=True):
    """A service token. `by`: the id of the person who made it; empty: a command did."""

    token: str
    prefix: str
    name: str
    tenant: str
    role: Role
    by: str
    created: str | None
    expires: str | None
    last_used: str | None
    revoked: str | None

    @classmethod
    def of(cls, row: ServiceToken) -> "TokenFacts":
        """The facts of a row."""
        return cls(
            token=row.id,
            prefix=f"pt_{row.prefix}",
            name=row.name,
            tenant=row.tenant_id,
            role=Role(row.role),
            by=row.by,
            created=iso_time(row.created_ms),
            expires=iso_time(row.expires_ms),
            last_used=iso_time(row.last_used_ms),
            revoked=iso_time(row.revoked_ms),
        )


class NewToken(msgspec.Struct, frozen=True):
    """A new token and its secret, which is stored nowhere."""

    secret: Secret
    token: TokenFacts
