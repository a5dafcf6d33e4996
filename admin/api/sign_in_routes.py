"""Routes of people's sessions: signing in by a link, a password or an invitation, the second factor, signing
out, and who one is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from admin.api.bodies import SIGN_IN_BYTES_MAX, read_body
from admin.api.callers import NOT_SIGNED_IN, ApiCallers
from admin.api.problems import problem
from admin.api.reading import check_storable, refused_field
from admin.api.routes import NO_STORE
from admin.api.session_calls import InvitationSignIn, LinkSignIn, Me, PasswordSignIn, SecondFactor, SignIn
from billing.api import NewPersonSession, OperationActor, SignedInPerson, SignIns, Stores, end_person_session
from core.errors import Refusal, Refused, bad_request, forbidden
from core.network.addresses import address_of
from core.operations import Operation
from core.web.local_urls import gateway_url
from server.api import CallRates, origin_allowed


class SignInRoutes:
    """These routes, at one side of the API."""

    def __init__(
        self,
        stores: Stores,
        callers: ApiCallers,
        sign_ins: SignIns,
        operations: Sequence[Operation],
        rates: CallRates,
    ) -> None:
        self._rates = rates
        self._stores = stores
        self._callers = callers
        self._sign_ins = sign_ins
        self._operations = operations

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/api/me", refusing(self.me), methods=["GET"]),
            Route("/api/sign-in", refusing(self.sign_in), methods=["POST"]),
            Route("/api/second-factor", refusing(self.second_factor), methods=["POST"]),
            Route("/api/sign-out", refusing(self.sign_out), methods=["POST"]),
        ]

    async def me(self, request: Request) -> Response:
        """Who calls, where, and what they may do."""
        actor, who = await self._callers.whoever(request)
        return _json(self._me(actor, who))

    async def sign_in(self, request: Request) -> Response:
        """Open a session. The answer is that of /api/me."""
        self._rates.signin(address_of(request.scope))
        self._check_origin(request)
        given: SignIn = await _body_of(request, SignIn)
        before = await self._callers.person(request)
        opened = await self._opened(request, given, before)
        if before is not None:  # the browser forgets it now
            await end_person_session(self._stores.db, before.session.tenant_id, before.session.id)
        who = opened.signed_in
        actor = self._callers.actor_of_person(request, who)
        reply = _json(self._me(actor, who))
        self._callers.signed_in(request, reply, opened, self._sign_ins.known_browser(who.person))
        return reply

    async def second_factor(self, request: Request) -> Response:
        """Take the code of the person's authenticator: from now on this session may write."""
        who = await self._person(request)
        self._callers.check_page(request, who)
        given: SecondFactor = await _body_of(request, SecondFactor)
        known = self._callers.known_browser(request)
        await self._sign_ins.second_factor(who, given.totp, address_of(request.scope), known)
        return await self.me(request)

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        who = await self._callers.person(request)
        reply = _json({})
        if who is not None:
            self._callers.check_page(request, who)
            await end_person_session(self._stores.db, who.session.tenant_id, who.session.id)
        self._callers.signed_out(request, reply)
        return reply

    async def _person(self, request: Request) -> SignedInPerson:
        who = await self._callers.person(request)
        if who is None:
            raise Refused(Refusal("unauthorized", NOT_SIGNED_IN))
        return who

    async def _opened(
        self, request: Request, given: SignIn, before: SignedInPerson | None
    ) -> NewPersonSession:
        """A new session. `before`: whose browser it is: by an invitation to their own address they join."""
        address, agent = address_of(request.scope), request.headers.get("user-agent", "")
        match given:
            case LinkSignIn(code):
                return await self._sign_ins.by_link(code, address, agent)
            case InvitationSignIn(code, name, password):
                return await self._sign_ins.by_invitation(
                    code, name, address, agent, before, password=password
                )
            case PasswordSignIn(email, password, totp, tenant):
                known = self._callers.known_browser(request)
                return await self._sign_ins.by_password(
                    email, password, address, agent, totp=totp, tenant=tenant, known=known
                )

    def _check_origin(self, request: Request) -> None:
        if not origin_allowed(request, self._stores.settings):
            raise forbidden("this Origin is not allowed")

    def _me(self, actor: OperationActor, who: SignedInPerson | None) -> Me:
        may = sorted(each.name for each in self._operations if actor.role in each.may)
        return Me(
            side=self._callers.side.name,
            name=who.person.name if who else actor.author.name,
            email=who.person.email if who else None,
            language=who.person.language if who else None,
            tenant=actor.tenant,
            role=actor.role.value,
            may=may,
            csrf=self._callers.csrf_of(who) if who else None,
            second_factor="shown" if actor.second_factor else "needed",
            gateway=gateway_url(self._stores.settings),
            has_password=who is not None and who.person.password_hash is not None,
            has_second_factor=who is not None and who.person.totp_hidden is not None,
        )


def refusing(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Answer what a handler refuses as a problem."""

    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except Refused as refused:
            return problem(refused.refusal)

    return handled


async def _body_of(request: Request, of: Any) -> Any:
    body = await read_body(request, SIGN_IN_BYTES_MAX)
    try:
        given = msgspec.json.decode(body, type=of)
    except msgspec.ValidationError as error:
        raise refused_field(error, of) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request("the body is no JSON") from error
    check_storable(msgspec.structs.asdict(given))
    return given


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), 200, NO_STORE, "application/json")
