"""Identifies callers: API keys, single-use tickets for browsers, one-time sign-in codes, and the Origin
check.

No proof here turns a caller who is fixed to a user into one who is not, or gives more than the key's scopes.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from redis.exceptions import RedisError
from starlette.requests import HTTPConnection

from billing.api import (
    BrowserSession,
    Principal,
    authenticate_key,
    end_session,
    is_own_session,
    is_suspended_key,
    is_suspended_secret,
    is_suspended_session,
    is_suspended_token,
    open_session,
    principal_of_key,
    principal_of_session,
    principal_of_session_id,
    publish_session_end,
    read_link_code,
    sessions_of,
)
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.network.comma_list import split_list
from core.observability.telemetry import logger
from core.redis import one_time
from core.redis.client import RedisClient
from core.sql.database import Database
from server.access import history_passes, tickets
from server.access.history_passes import HistoryPass
from server.access.tickets import Ticket

TICKET_ID_BYTES = 12
KEY_PROBLEM = (
    "this key does not work: it is wrong, has expired or was revoked, or what it is for is closed; ask "
    "whoever runs this for a new key or a sign-in link"
)
TICKET_PROBLEM = (
    "this ticket does not work: it is wrong, was used, is too old, or what it is for has ended; get a new one"
)
ORIGIN_PROBLEM = (
    "this page's Origin is not allowed here: whoever runs the gateway lists it in PARLEY_PUBLIC_ORIGINS"
)

log = logger(__name__)


class Authenticator:
    """Checks the proofs that callers show. Asks the database each time, so a revocation holds at once."""

    def __init__(self, db: Database, redis: RedisClient, settings: Settings) -> None:
        self._db = db
        self._redis = redis
        self._settings = settings

    async def of_api_key(self, secret: str) -> Principal | None:
        """The principal of an API key; None for a bad one."""
        return await authenticate_key(self._db, secret)

    async def of_token(self, token: str) -> Principal | None:
        """The principal of a WebSocket's API key or ticket, None for a bad one. Uses the ticket up."""
        if not token.startswith(tickets.PREFIX):
            return await authenticate_key(self._db, token)
        now = now_ms()
        ticket = tickets.unseal(token, self._settings.keyring, now)
        if ticket is None or not await self._spend(ticket, now):
            return None
        principal = await self.standing(ticket.tenant, ticket.key, ticket.session, ticket.user)
        if principal is None or (principal.fixed_user and principal.user != ticket.user):
            return None
        return replace(
            principal,
            user=ticket.user,
            fixed_user=True,
            scopes=principal.scopes.intersection(ticket.scopes),
            access_ends_ms=_sooner(ticket.ends_ms, principal.access_ends_ms),
        )

    @staticmethod
    def problem_of(token: str) -> str:
        """The message at hello for a refused token, chosen by its prefix alone."""
        if not token:
            return "show an API key or a ticket: `token` in hello, or `Authorization: Bearer` before"
        return TICKET_PROBLEM if token.startswith(tickets.PREFIX) else KEY_PROBLEM

    async def of_history_pass(self, token: str) -> Principal | None:
        """The principal of a history pass, who has at most the scope to write one user's conversations; None
        for a bad one."""
        found = history_passes.unseal(token, self._settings.keyring, now_ms())
        if found is None:
            return None
        principal = await self.standing(found.tenant, found.key, found.session, found.user)
        if principal is None or (principal.fixed_user and principal.user != found.user):
            return None
        ends_ms = _sooner(found.ends_ms, principal.access_ends_ms)
        scopes = frozenset({history_passes.WRITE_SCOPE}) if found.writes else frozenset[str]()
        facts = {"shared": False, "scopes": scopes, "access_ends_ms": ends_ms}
        return replace(principal, user=found.user, fixed_user=True, **facts)

    async def of_browser(self, token: str) -> Principal | None:
        """The principal of a browser's cookie; None for a bad one."""
        return await principal_of_session(self._db, token)

    async def is_suspended(self, token: str) -> bool:
        """True for a key, ticket or history pass that fails only for its tenant's closing. Uses up none."""
        now, keyring = now_ms(), self._settings.keyring
        if token.startswith(tickets.PREFIX):
            found = tickets.unseal(token, keyring, now)
        elif token.startswith(history_passes.PREFIX):
            found = history_passes.unseal(token, keyring, now)
        else:
            return await is_suspended_secret(self._db, token)
        return found is not None and await self.is_suspended_proof(found.tenant, found.key, found.session)

    async def is_suspended_browser(self, token: str) -> bool:
        """`is_suspended` for a browser's cookie."""
        return await is_suspended_token(self._db, token)

    async def is_suspended_proof(self, tenant: str, key: str, session: str) -> bool:
        """`is_suspended` for the key or session of an open connection."""
        if session:
            return await is_suspended_session(self._db, tenant, session)
        return await is_suspended_key(self._db, tenant, key)

    async def standing(self, tenant: str, key: str, session: str, user: str = "") -> Principal | None:
        """The present principal of a key or of a browser's session; None where it has ended. `user`: the one
        that a service key is used for, who must not be closed either."""
        if session:
            return await principal_of_session_id(self._db, tenant, session)
        return await principal_of_key(self._db, tenant, key, user)

    async def of_code(self, code: str) -> Principal | None:
        """The principal of a sign-in link's code, None for a bad one. Uses the code up."""
        now = now_ms()
        link = read_link_code(code, self._settings.keyring, now)
        if link is None or not await one_time.use_once(
            self._redis, f"parley:code:{link.id}", link.opens_by_ms - now
        ):
            return None
        principal = await principal_of_key(self._db, link.tenant, link.key, link.user)
        if principal is None or (principal.fixed_user and principal.user != link.user):
            return None
        return replace(principal, user=link.user, fixed_user=bool(link.user))

    async def sign_in(self, principal: Principal, address: str, agent: str) -> tuple[BrowserSession, str]:
        """A new session of one browser, and the token for its cookie. Above the maximum the oldest end."""
        row, token, ended = await open_session(self._db, principal, self._settings, address, agent)
        try:
            await publish_session_end(self._redis, row.tenant_id, ended)
        except (RedisError, OSError):  # their rows have ended; their connections end at the next recheck
            log.warning("browser_session.publish_failed")
        return row, token

    async def sign_out(self, principal: Principal, session: str) -> None:
        """End a browser's session and its connections. The caller has checked the right to do so."""
        author = Author(principal.user or principal.key, "api")
        await end_session(self._db, self._redis, principal.tenant, session, author)

    async def sessions(self, principal: Principal) -> Sequence[BrowserSession]:
        """The browsers that are signed in as the caller."""
        return await sessions_of(self._db, principal)

    async def is_own_session(self, principal: Principal, session: str) -> bool:
        """True where this session is one of the caller's."""
        return await is_own_session(self._db, principal, session)

    def ticket(self, principal: Principal, user: str, scopes: Collection[str]) -> tuple[str, int]:
        """A single-use ticket that lets its bearer be `user` with these scopes, and the Unix ms by which it
        must be shown. Its access ends at a fixed time, never after that of the access it was made with."""
        now = now_ms()
        lasts_seconds = min(self._settings.access_seconds, tickets.LIFETIME_SECONDS_MAX)
        ends_ms = _sooner(now + lasts_seconds * 1000, principal.access_ends_ms)
        opens_seconds = min(self._settings.ticket_seconds, tickets.OPENS_SECONDS_MAX)
        opens_by_ms = min(now + opens_seconds * 1000, ends_ms)
        ticket = Ticket(
            id=secrets.token_urlsafe(TICKET_ID_BYTES),
            tenant=principal.tenant,
            key=principal.key,
            session=principal.session,
            user=user,
            scopes=tuple(sorted(scopes)),
            opens_by_ms=opens_by_ms,
            ends_ms=ends_ms,
        )
        return tickets.seal(ticket, self._settings.keyring), opens_by_ms

    def history_pass(self, principal: Principal, user: str, writes: bool) -> tuple[str, int]:
        """A pass that reads this user's conversations, also changes them where it `writes`, and the Unix ms
        of its end."""
        ends_ms = _sooner(now_ms() + history_passes.LIFETIME_SECONDS * 1000, principal.access_ends_ms)
        found = HistoryPass(principal.tenant, principal.key, principal.session, user, ends_ms, writes)
        return history_passes.seal(found, self._settings.keyring), ends_ms

    async def _spend(self, ticket: Ticket, now: int) -> bool:
        name = f"{{t:{ticket.tenant}}}ticket:{ticket.id}"
        return await one_time.use_once(self._redis, name, ticket.opens_by_ms - now)


def origin_allowed(caller: HTTPConnection, settings: Settings) -> bool:
    """True where a browser's Origin is the gateway's own (its Host) or in PARLEY_PUBLIC_ORIGINS. For a call
    over TLS a page without TLS is another site, which anybody on its way could have written. (The other way
    round, TLS ends at a proxy that PARLEY_TRUSTED_PROXIES does not name.)"""
    origin = caller.headers.get("origin")
    if origin is None:
        return True
    if origin in listed_origins(settings):
        return True
    try:
        page = urlsplit(origin)
    except ValueError:  # `http://[`
        return False
    schemes = ("https",) if caller.scope["scheme"] in ("https", "wss") else ("http", "https")
    return page.scheme in schemes and page.netloc == caller.headers.get("host")


def listed_origins(settings: Settings) -> list[str]:
    """PARLEY_PUBLIC_ORIGINS: the other sites whose pages may call."""
    return [each.rstrip("/") for each in split_list(settings.public_origins)]


def _sooner(ends_ms: int, other_ms: int | None) -> int:
    return ends_ms if other_ms is None else min(ends_ms, other_ms)
