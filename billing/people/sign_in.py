"""Signing in: by link, by password, by invitation; and the code of a second factor.

Each has transactions of its own, so that what was refused is remembered. A wrong password, an unknown address
and a closed person get the same answer after the same time.
"""

from dataclasses import replace

from sqlmodel import col, update
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import lock_chain, record, record_separately
from billing.people import invitations, links
from billing.people.known_browsers import known_browser, make_known_browser
from billing.people.memberships import manages_no_more
from billing.people.own_account import hide_totp_anew, renew_hash
from billing.people.passwords import is_outdated, process_passwords
from billing.people.person_sessions import NewPersonSession, SignedInPerson, author_of, open_person_session
from billing.people.persons import memberships_of, person_of_email
from billing.people.refusals import LINK_IS_SPENT, NOT_SIGNED_IN, unauthorized
from billing.people.totp import matching_step, reveal_secret
from billing.people.tries import SignInTries
from billing.tables.people import Membership, Person, PersonSession
from billing.tables.tenants import PLATFORM, Tenant
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused, forbidden
from core.network.buckets import Rate, TokenBuckets
from core.redis import one_time
from core.redis.client import RedisClient
from core.sql.database import Database
from core.web.local_urls import console_url, portal_url
from core.web.signins import FailedSignins

USED_LINK = "parley:person:"
REFUSED_ROWS_A_MINUTE = 30  # of the audit log


class SignIns:
    """Signs people in at one process. Its methods raise Refused: unauthorized, rate_limited, or forbidden for
    whom another console lets in, with its address and before anything is used up. `staff`: whom this process
    is for, staff (True) or members of tenants; None: both."""

    def __init__(
        self, settings: Settings, db: Database, redis: RedisClient, staff: bool | None = None
    ) -> None:
        self._staff = staff
        self._settings = settings
        self._db = db
        self._redis = redis
        self._tries = SignInTries(redis)
        self._failed = FailedSignins(settings.failed_signins_per_address_per_minute)
        self._refused_rows = TokenBuckets(Rate.a_minute(REFUSED_ROWS_A_MINUTE))
        self.passwords = process_passwords

    async def by_link(self, code: str, address: str, agent: str) -> NewPersonSession:
        """Sign in by a one-time link, which this uses up."""
        now = now_ms()
        link = links.read_person_code(code, self._settings.keyring, now)
        if link is None or not await self._is_member(link.person, link.tenant) or await self._ended(link):
            raise await self._refused(address, "person_link", LINK_IS_SPENT)
        self._check_side(link.tenant)
        if not await one_time.use_once(self._redis, USED_LINK + link.id, link.opens_by_ms - now):
            raise await self._refused(address, "person_link", LINK_IS_SPENT)
        new = await self._open(link.person, link.tenant, address, agent)
        if new is None:
            raise await self._refused(address, "person_link", LINK_IS_SPENT)
        return new

    async def by_password(
        self,
        email: str,
        password: str,
        address: str,
        agent: str,
        *,
        totp: str = "",
        tenant: str = "",
        known: str = "",
    ) -> NewPersonSession:
        """Sign in by address and password; with `totp`, the session has its second factor at once. `tenant`:
        which membership to act in, by the tenant's id; empty: the first that this process is for, as staff,
        else the oldest one. `known`: what the browser has of `known_browser`."""
        self._tries.from_address(address)
        account = email.strip().casefold()
        tried = account, address, known_browser(known, self._settings.keyring, account, now_ms())
        person, stored = await self._of_password(tried, password)
        where = tenant or await self._first_tenant(person.id)
        if where is not None:
            self._check_side(where)
        new = await self._open(person.id, where, address, agent, totp, stored)
        if new is None:
            raise await self._refused(address, "password", NOT_SIGNED_IN)
        await self._tries.forget(*tried)
        if is_outdated(stored):
            await renew_hash(self._db, person.id, stored, await self.passwords.hash(password))
        return new

    async def by_invitation(
        self,
        code: str,
        name: str,
        address: str,
        agent: str,
        signed_in: SignedInPerson | None = None,
        *,
        password: str = "",
    ) -> NewPersonSession:
        """Become a member by an invitation's link, and sign in. Who has an account already is `signed_in`
        with it, or shows its `password`, as staff do at the members' console: a link is no proof of an
        address."""
        self._tries.from_address(address)
        who = None if signed_in is None else signed_in.person.id
        found = await invitations.find_invitation(self._db, code)
        if found is not None:
            self._check_side(found.tenant_id)
        if found is not None and password and signed_in is None:
            tried = found.email, address, None
            who = (await self._of_password(tried, password))[0].id
            await self._tries.forget(*tried)
        try:
            return await invitations.accept_invitation(self._db, code, name, address, agent, who)
        except Refused as refused:
            if refused.refusal.code == "unauthorized":
                raise await self._refused(address, "invitation", refused.refusal.message) from refused
            raise

    async def second_factor(
        self, signed_in: SignedInPerson, code: str, address: str, known: str = ""
    ) -> None:
        """Note in a session that its person showed a code of their second factor. `known`: as for a
        password."""
        self._tries.from_address(address)
        browser = known_browser(known, self._settings.keyring, _account_of(signed_in.person), now_ms())
        tried = f"totp {signed_in.person.id}", address, browser
        await self._tries.at_account(*tried)
        now, of = now_ms(), signed_in.session
        async with self._db.transaction() as session:
            await lock_chain(session, of.tenant_id)
            person = await session.get(Person, of.person_id, with_for_update=True)
            taken = person is not None and await self._take_code(session, person, code)
            if person is not None and taken:
                own = (col(PersonSession.tenant_id) == of.tenant_id, col(PersonSession.id) == of.id)
                await session.exec(update(PersonSession).where(*own).values(second_factor_ms=now))
                author = author_of(person, of.tenant_id)
                await record(session, of.tenant_id, "session.confirm", of.id, None, {}, author)
        if not taken:
            raise await self._refused(address, "totp", NOT_SIGNED_IN)
        await self._tries.forget(*tried)
        await hide_totp_anew(self._db, of.person_id, self._settings.keyring)

    def known_browser(self, person: Person) -> str:
        """What a browser keeps in which somebody has just signed in: strangers' tries at their account do not
        slow it."""
        return make_known_browser(self._settings.keyring, _account_of(person), now_ms())

    async def _of_password(self, tried: tuple[str, str, str | None], password: str) -> tuple[Person, str]:
        """The person of an account's address, and the hash that their password has. Raises Refused for a
        wrong one, after as long as for an unknown address; `tried`: account, address, known browser."""
        await self._tries.at_account(*tried)
        async with self._db.session() as session:
            person = await person_of_email(session, tried[0])
        stored = person.password_hash if person is not None and person.closed_ms is None else None
        good = await self.passwords.matches(password, stored)
        if person is None or stored is None or not good:
            raise await self._refused(tried[1], "password", NOT_SIGNED_IN)
        return person, stored

    async def _open(
        self,
        person_id: str,
        tenant: str | None,
        address: str,
        agent: str,
        code: str = "",
        password_hash: str | None = None,
    ) -> NewPersonSession | None:
        """Open a session where the person is still a member there; and has the password that was looked at,
        and the code is right, where one is shown."""
        if tenant is None:
            return None
        async with self._db.transaction() as session:
            await lock_chain(session, tenant)
            person = await session.get(Person, person_id, with_for_update=True)
            row = await session.get(Membership, (tenant, person_id), with_for_update=True)
            if person is None or row is None or not await _lets_in(session, person, row):
                return None
            if password_hash is not None and person.password_hash != password_hash:
                return None
            if code and not await self._take_code(session, person, code):
                return None
            return await open_person_session(session, person, row, address, agent, now_ms() if code else None)

    async def _first_tenant(self, person_id: str) -> str | None:
        """Where a person acts who names no tenant: where this process lets them in, else elsewhere."""
        async with self._db.session() as session:
            rows = await memberships_of(session, person_id)
            there = [row.tenant_id for row in rows if await _is_open(session, row.tenant_id)]
        return next(filter(self._is_here, there), there[0] if there else None)

    def _is_here(self, tenant_id: str) -> bool:
        return self._staff is None or (tenant_id == PLATFORM) == self._staff

    def _check_side(self, tenant_id: str) -> None:
        """Raise Refused for a membership of the other console."""
        if not self._is_here(tenant_id):
            url = console_url(self._settings) if tenant_id == PLATFORM else portal_url(self._settings)
            raise forbidden(f"this signs you in at another console, {url}: nothing is used up, open it there")

    async def _take_code(self, session: AsyncSession, person: Person, code: str) -> bool:
        """True for a right code, which is taken: no other call gets it. The person's row is locked."""
        if person.totp_hidden is None:
            return False
        secret = reveal_secret(person.totp_hidden, person.id, self._settings.keyring)
        if secret is None:
            return False
        step = matching_step(secret, code, now_ms(), person.totp_step)
        if step is None:
            return False
        person.totp_step = step
        session.add(person)
        return True

    async def _is_member(self, person_id: str, tenant: str) -> bool:
        async with self._db.session() as session:
            person = await session.get(Person, person_id)
            row = await session.get(Membership, (tenant, person_id))
            return person is not None and row is not None and await _lets_in(session, person, row)

    async def _ended(self, link: links.PersonLink) -> bool:
        """True for a link of a tenant's admin who manages its people no more, or to somebody who belongs to
        others too by now."""
        if not link.by:
            return False
        async with self._db.session() as session:
            rows = await memberships_of(session, link.person)
            elsewhere = any(row.tenant_id != link.tenant for row in rows)
            return elsewhere or await manages_no_more(session, link.tenant, link.by)

    async def _refused(self, address: str, shown: str, message: str) -> Refused:
        """Count and log what was refused; in the audit log too, unless a flood would fill it."""
        after_ms = self._failed.count(address, shown)
        if not after_ms and not self._refused_rows.take(""):
            author = Author(address, "api")
            await record_separately(self._db, PLATFORM, "person.refuse", address, {"shown": shown}, author)
        refused = unauthorized(message)
        return Refused(replace(refused.refusal, after_ms=after_ms or None))


def _account_of(person: Person) -> str:
    """By what tries at their account are counted. Pure."""
    return person.email or f"person {person.id}"


async def _lets_in(session: AsyncSession, person: Person, row: Membership) -> bool:
    """True where neither the person nor their membership nor its tenant has ended."""
    ended = person.closed_ms is not None or row.ended_ms is not None
    return not ended and await _is_open(session, row.tenant_id)


async def _is_open(session: AsyncSession, tenant_id: str) -> bool:
    if tenant_id == PLATFORM:
        return True
    tenant = await session.get(Tenant, tenant_id)
    return tenant is not None and tenant.closed_ms is None
