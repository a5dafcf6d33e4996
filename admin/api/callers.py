"""Who calls the API: a person by the cookie of a session, or a script by a service token.

A browser proves on each write that our own page made the call: its Origin is ours, and it repeats the
session's CSRF value, which no other page can read.
"""

import hmac
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from billing.api import (
    KNOWN_SECONDS,
    PERSON_SESSION_SECONDS,
    NewPersonSession,
    OperationActor,
    SignedInPerson,
    Stores,
    actor_of_bearer,
    actor_of_session,
    find_person_session,
)
from core.errors import Refusal, Refused, forbidden
from core.network.addresses import address_of
from core.network.hosts import LOOPBACK, host_of, is_loopback
from core.operations import MEMBERS, STAFF, Operation
from core.signing.signed_text import mac
from core.web.cookies import drop_cookie, read_cookie, set_cookie
from core.web.signins import FailedSignins
from server.api import origin_allowed

CSRF_HEADER = "x-parley-csrf"
KNOWN_COOKIE = "parley_known"  # one for both sides
TOKEN = "pt_"  # what service tokens begin with
CSRF_PURPOSE = b"parley csrf v1"
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
NOT_SIGNED_IN = "sign in by a link or a password; scripts send a service token"


@dataclass(frozen=True)
class ApiSide:
    """One of the two doors of the API. `cookie`: its name, which the other's does not share;
    `setting`: part of the names of settings of its bind."""

    name: str
    cookie: str
    staff: bool
    setting: str

    def serves(self, declared: Operation) -> bool:
        """True for what somebody of this side may do."""
        return not declared.may.isdisjoint(STAFF if self.staff else MEMBERS)

    def takes(self, actor: OperationActor) -> bool:
        """True for those whom this side is for: staff, or members of tenants."""
        return (actor.tenant is None) == self.staff


OPERATORS_SIDE = ApiSide("operators", "parley_staff", True, "CONSOLE")
TENANTS_SIDE = ApiSide("tenants", "parley_member", False, "PORTAL")
SIDES = {side.name: side for side in (OPERATORS_SIDE, TENANTS_SIDE)}


class ApiCallers:
    """Finds callers of one side. `loopback`: it listens on this machine alone, so that staff who call from
    here need no second factor."""

    def __init__(self, stores: Stores, side: ApiSide, loopback: bool) -> None:
        self.side = side
        self._stores = stores
        self._loopback = loopback
        self._failed = FailedSignins(stores.settings.failed_signins_per_address_per_minute)

    async def actor_of(self, request: Request, declared: Operation) -> OperationActor:
        """The caller of an operation. Raises Refused where nobody is signed in, or a page that is not ours
        made the call."""
        actor, who = await self.whoever(request)
        if declared.asks_by_body and who is not None:
            self.check_page(request, who)
        return actor

    async def whoever(self, request: Request) -> tuple[OperationActor, SignedInPerson | None]:
        """The caller, and the person where it is a browser. Raises Refused where nobody is signed in."""
        bearer = _bearer(request)
        if bearer is not None:
            return await self._by_token(request, bearer), None
        who = await self.person(request)
        if who is None:
            raise Refused(Refusal("unauthorized", NOT_SIGNED_IN))
        return self.actor_of_person(request, who), who

    def actor_of_person(self, request: Request, who: SignedInPerson) -> OperationActor:
        """The person as they act here."""
        return actor_of_session(who, self._loopback and is_from_here(request))

    async def person(self, request: Request) -> SignedInPerson | None:
        """The person who is signed in with this browser; None: nobody is, or at the other side."""
        token = read_cookie(request, self._stores.settings, self.side.cookie)
        who = await find_person_session(self._stores.db, token) if token else None
        return who if who is not None and self.side.takes(self.actor_of_person(request, who)) else None

    def csrf_of(self, who: SignedInPerson) -> str:
        """The value that our page repeats on writes of this session."""
        return mac(who.session.id.encode(), self._stores.settings.keyring.key(CSRF_PURPOSE)).hex()

    def check_page(self, request: Request, who: SignedInPerson) -> None:
        """Raise Refused for a write that another page made."""
        if not origin_allowed(request, self._stores.settings):
            raise forbidden("this Origin is not allowed")
        given = request.headers.get(CSRF_HEADER, "").encode()
        if not hmac.compare_digest(given, self.csrf_of(who).encode()):
            problem = f"send the header {CSRF_HEADER} with the value that /api/me says"
            raise Refused(Refusal("forbidden", problem, field=CSRF_HEADER))

    def signed_in(self, request: Request, reply: Response, opened: NewPersonSession, known: str) -> None:
        """Give the browser its session, and by what it is known when its person comes again."""
        settings = self._stores.settings
        set_cookie(reply, request, settings, self.side.cookie, opened.token, PERSON_SESSION_SECONDS)
        set_cookie(reply, request, settings, KNOWN_COOKIE, known, KNOWN_SECONDS)

    def known_browser(self, request: Request) -> str:
        """By what the browser is known in which somebody signed in before; empty: it is a stranger's."""
        return read_cookie(request, self._stores.settings, KNOWN_COOKIE) or ""

    def signed_out(self, request: Request, reply: Response) -> None:
        """Have the browser forget its session."""
        drop_cookie(reply, request, self._stores.settings, self.side.cookie)

    async def _by_token(self, request: Request, secret: str) -> OperationActor:
        actor = await actor_of_bearer(self._stores.db, secret)
        if actor is not None and self.side.takes(actor):
            return actor
        after_ms = self._failed.count(address_of(request.scope), "token")
        if after_ms:
            problem = "too many failed calls from this address"
            raise Refused(Refusal("rate_limited", problem, retry=True, after_ms=after_ms))
        raise Refused(Refusal("unauthorized", "this token is unknown here, or has ended or was revoked"))


def is_from_here(request: Request) -> bool:
    """True where this machine made a call at a loopback bind: under loopback's name, and no proxy says that
    it passes on another's."""
    host = host_of(request.headers.get("host", LOOPBACK))
    named = is_loopback(host) or host.endswith(f".{LOOPBACK}")
    passed_on = any(name in request.headers for name in FORWARDED)
    return named and not passed_on and is_loopback(address_of(request.scope))


def _bearer(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" and secret.strip().startswith(TOKEN) else None
