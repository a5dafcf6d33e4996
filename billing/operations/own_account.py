"""Operations of people on their own account: their facts, the password and the second factor."""

from msgspec import UNSET

from billing.operations.people import ANYBODY
from billing.operations.people_facts import (
    EditOwnAccount,
    NoQuestion,
    OtherSessionsEnded,
    OwnAccount,
    SetPassword,
    ShowCode,
    TotpSecret,
)
from billing.operations.tenants import AUDIT
from billing.people import own_account, totp
from billing.people.account_edits import edit_person
from billing.people.passwords import checked_password, process_passwords
from billing.tables.people import Person
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.units import Change, Stores
from core.errors import Refusal, Refused, bad_request
from core.network.buckets import Rate, TokenBuckets
from core.operations import Secret, Uses, operation

BY_INVITATION = "an invitation proves a member's address: have your new one invited"
EDITS_A_MINUTE = 10  # of one person at one process: each locks the platform's people, and is recorded
_edits = TokenBuckets(Rate.a_minute(EDITS_A_MINUTE))


async def paced(_: Stores, who: OperationActor, __: object) -> None:
    """Count that somebody changes their account. Raises Refused where they do too often, or have none."""
    _check_own(who)
    if after_ms := _edits.take(who.id):
        told = "you change your account very often: wait a while"
        raise Refused(Refusal("rate_limited", told, retry=True, after_ms=after_ms))


async def hashed(stores: Stores, who: OperationActor, ask: SetPassword) -> str:
    """The hash of the new password, which takes long. Raises Refused as `paced`, and where too many wait."""
    password = checked_password(ask.password)
    await paced(stores, who, ask)
    await own_account.check_may_set(stores.db, who.id, who.tenant or PLATFORM, who.session, ask.current)
    return await process_passwords.hash(password)


async def proved(stores: Stores, who: OperationActor, ask: EditOwnAccount) -> None:
    """Whoever gives themselves another address proves who they are, as for a password. Raises Refused as
    `paced`, and for a tenant's member, of whom nobody looked whether an address is theirs."""
    await paced(stores, who, ask)
    if ask.email is UNSET:
        return
    if who.tenant is not None:
        raise bad_request(BY_INVITATION, field="email")
    await own_account.check_may_set(stores.db, who.id, PLATFORM, who.session, ask.current)


@operation(
    "people.edit_own",
    "PATCH /me",
    may=ANYBODY,
    audit="person.edit",
    before=proved,
    uses=Uses(reads="membership person_session", writes=f"person tenant {AUDIT}"),
)
async def edit_own(change: Change, ask: EditOwnAccount) -> OwnAccount:
    """Change your name, language or, as staff, the address that you sign in with. Who signed in long ago
    shows the password for that."""
    person, _, _ = _own(change)
    given = {"name": ask.name, "email": ask.email, "language": ask.language}
    facts = {name: value for name, value in given.items() if value is not UNSET}
    return OwnAccount.of(await edit_person(change.db, person, **facts))


@operation(
    "people.set_password",
    "PUT /me/password",
    may=ANYBODY,
    audit="person.set_password",
    before=hashed,
    uses=Uses(writes=f"person person_session {AUDIT}"),
)
async def set_password(change: Change, ask: SetPassword) -> OtherSessionsEnded:
    """Set your password. Your other sessions end. Who signed in long ago shows the present one."""
    person, _, session = _own(change)
    return OtherSessionsEnded(await own_account.set_password(change.db, person, change.prepared, session))


@operation(
    "people.enroll_totp",
    "POST /me/totp",
    may=ANYBODY,
    audit="person.enroll_totp",
    own=True,
    before=paced,
    uses=Uses(reads="person_session", writes=f"person {AUDIT}"),
)
async def enroll_totp(change: Change, ask: NoQuestion) -> TotpSecret:
    """Set up a second factor: a secret for an app. It counts once `people.confirm_totp` gets a code of it."""
    person, tenant, session = _own(change)
    keyring = change.settings.keyring
    secret = await own_account.enroll_totp(change.db, person, tenant, session, keyring)
    async with change.db.session() as reading:
        row = await reading.get(Person, person)
    name = (row.email or row.name) if row is not None else person
    return TotpSecret(Secret(secret), Secret(totp.secret_uri(secret, name)))


@operation(
    "people.confirm_totp",
    "POST /me/totp/confirm",
    may=ANYBODY,
    audit="person.confirm_totp",
    own=True,
    before=paced,
    uses=Uses(writes=f"person person_session {AUDIT}"),
)
async def confirm_totp(change: Change, ask: ShowCode) -> NoQuestion:
    """Confirm the second factor that you set up, by a code of it."""
    person, tenant, session = _own(change)
    keyring = change.settings.keyring
    await own_account.confirm_totp(change.db, person, tenant, session, ask.code, keyring)
    return NoQuestion()


def _own(change: Change) -> tuple[str, str, str]:
    """Person, tenant and session of the caller. Raises Refused for a command or a token."""
    _check_own(change.who)
    return change.who.id, change.who.tenant or PLATFORM, change.who.session


def _check_own(who: OperationActor) -> None:
    if not who.session:
        raise bad_request("only somebody who is signed in has an account of their own")


OPERATIONS = (edit_own, set_password, enroll_totp, confirm_totp)
