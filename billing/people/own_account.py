"""What people change of their own account: the password, and the second factor."""

from sqlalchemy import update
from sqlmodel import col
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import lock_chain, record
from billing.people import totp
from billing.people.memberships import no_member
from billing.people.passwords import process_passwords
from billing.people.persons import memberships_of, recorded_of
from billing.tables.people import Person, PersonSession
from billing.tables.tenants import PLATFORM
from core.actor import Author
from core.clock import now_ms
from core.errors import bad_request, see_help
from core.signing.signed_text import Keyring
from core.sql.database import Database

FRESH_MS = 15 * 60_000
OURSELVES = Author("parley", "process")
NO_ADDRESS = "a password signs in with an e-mail address, and you have none: set that first"
SIGN_IN_ANEW = (
    f"a first password is set within {FRESH_MS // 60_000} minutes after signing in: open a new sign-in link, "
    "then set it at once"
)
WRONG_CODE = "this code is not right now: wait for the next one, and look at the clock of your telephone"


async def check_may_set(db: Database, person_id: str, tenant_id: str, session_id: str, current: str) -> None:
    """Raise Refused unless a session may set its person's password: they show the present one, or signed in a
    moment ago. Who got into a session makes it no key to the person's other memberships."""
    async with db.session() as session:
        person = await session.get(Person, person_id)
        own = await session.get(PersonSession, (tenant_id, session_id))
        others = [row for row in await memberships_of(session, person_id) if row.tenant_id != tenant_id]
    if person is None or own is None:
        raise no_member(person_id)
    if current:
        if not await process_passwords.matches(current, person.password_hash):
            raise bad_request("this is not your present password", field="current")
        return
    is_fresh = now_ms() - own.made_ms < FRESH_MS
    if person.password_hash is None:
        joined_ms = 0 if tenant_id == PLATFORM else max((row.created_ms for row in others), default=0)
        if not is_fresh or own.made_ms < joined_ms:
            raise bad_request(SIGN_IN_ANEW, field="password")
    elif not is_fresh or (others and tenant_id != PLATFORM):
        raise bad_request("show your present password too, or sign in anew", field="current")


async def set_password(db: Database, person_id: str, password_hash: str, session_id: str = "") -> int:
    """Give a person another password; their sessions end, but for this one. Returns how many ended."""
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        if person.email is None:
            raise bad_request(NO_ADDRESS, see=see_help("people.edit"))
        before = recorded_of(person)
        person.password_hash = password_hash
        session.add(person)
        others = update(PersonSession).where(
            col(PersonSession.person_id) == person_id,
            col(PersonSession.id) != session_id,
            col(PersonSession.ended_ms).is_(None),
        )
        ended = (await session.exec(others.values(ended_ms=now_ms()))).rowcount
        after = {**recorded_of(person), "sessions_ended": ended}
        await record(session, PLATFORM, "person.set_password", person_id, before, after)
    return ended


async def enroll_totp(db: Database, person_id: str, tenant_id: str, session_id: str, keyring: Keyring) -> str:
    """Return a new secret of a second factor, which counts once a code confirms it. Who has one already shows
    a code of it in this session first."""
    secret = totp.new_secret()
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        own = await session.get(PersonSession, (tenant_id, session_id))
        if person.totp_hidden is not None and (own is None or own.second_factor_ms is None):
            raise bad_request("show a code of the second factor that you have first", field="totp")
        person.totp_pending = totp.hide_secret(secret, person_id, keyring)
        session.add(person)
        await record(session, PLATFORM, "person.enroll_totp", person_id, None, {})
    return secret


async def confirm_totp(
    db: Database, person_id: str, tenant_id: str, session_id: str, code: str, keyring: Keyring
) -> None:
    """Make the enrolled secret the second factor, by a code of it, which this session has shown with that.
    Raises Refused for a wrong code."""
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        secret = totp.reveal_secret(person.totp_pending or "", person_id, keyring)
        step = totp.matching_step(secret, code, now_ms(), 0) if secret is not None else None
        if step is None:
            raise bad_request(WRONG_CODE, field="code")
        before = recorded_of(person)
        person.totp_hidden, person.totp_pending, person.totp_step = person.totp_pending, None, step
        session.add(person)
        own = (col(PersonSession.tenant_id) == tenant_id, col(PersonSession.id) == session_id)
        await session.exec(update(PersonSession).where(*own).values(second_factor_ms=now_ms()))
        await record(session, PLATFORM, "person.confirm_totp", person_id, before, recorded_of(person))


async def forget_totp(db: Database, person_id: str) -> Person:
    """Take a person's second factor away, who lost it: they enroll another one."""
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        if person.totp_hidden is None:
            raise bad_request("they have no second factor", field="person")
        before = recorded_of(person)
        person.totp_hidden = person.totp_pending = None
        session.add(person)
        await record(session, PLATFORM, "person.forget_totp", person_id, before, recorded_of(person))
    return person


async def renew_hash(db: Database, person_id: str, stored: str, renewed: str) -> None:
    """Replace a hash of weaker parameters, unless the password was changed meanwhile."""
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        if person.password_hash == stored:
            before = recorded_of(person)
            person.password_hash = renewed
            session.add(person)
            await record(
                session, PLATFORM, "person.rehash", person_id, before, recorded_of(person), OURSELVES
            )


async def hide_totp_anew(db: Database, person_id: str, keyring: Keyring) -> None:
    """Hide a second factor under the installation's present secret, where the previous one hid it: it is good
    when that is gone."""
    async with db.session() as session:
        person = await session.get(Person, person_id)
    if person is None or totp.hidden_anew(person.totp_hidden or "", person_id, keyring) is None:
        return
    async with db.transaction() as session:
        person = await _own_row(session, person_id)
        hidden = totp.hidden_anew(person.totp_hidden or "", person_id, keyring)
        if hidden is not None:
            before = recorded_of(person)
            person.totp_hidden = hidden
            session.add(person)
            await record(
                session, PLATFORM, "person.rehide", person_id, before, recorded_of(person), OURSELVES
            )


async def record_link(db: Database, tenant_id: str, person_id: str) -> None:
    """Record that a sign-in link is made for a person."""
    async with db.transaction() as session:
        await record(session, tenant_id, "person.link", person_id, None, {})


async def _own_row(session: AsyncSession, person_id: str) -> Person:
    """The person, locked behind the platform's chain (memberships.py, `lock_people`)."""
    await lock_chain(session, PLATFORM)
    person = await session.get(Person, person_id, with_for_update=True)
    if person is None or person.closed_ms is not None:
        raise no_member(person_id)
    return person
