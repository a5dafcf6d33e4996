"""Routes that sign browsers in and out, and list the signed-in ones."""

from dataclasses import replace

from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from billing.api import BrowserSession, Principal, user_names
from core.errors import Refused
from core.network.addresses import address_of
from core.observability.telemetry import logger
from core.web.cookies import drop_cookie, read_cookie, set_cookie
from server.access.authentication import KEY_PROBLEM
from server.access.authorization import CHAT_SCOPE
from server.access.key_origins import require_origin
from server.context import GatewayContext
from server.http.caller import CODE_PROBLEM, COOKIE, caller, failed, require_own_origin
from server.http.fields import only_fields
from server.http.person import HEADER, person_of
from server.http.replies import bad_request, body_object, json_reply
from server.protocol.codes import ErrorCode, refusal, suspended

log = logger(__name__)
FOR_PROGRAMS = {  # what keys may do that no browser does
    "usage:read": "read what its project uses and costs (/v1/usage, /v1/costs)",
    "usage:read:tenant": "read what your organization uses and costs (/v1/usage, /v1/costs)",
    "requests:read": "read other callers' requests",
    "requests:cancel": "stop other callers' requests",
}


class SessionRoutes:
    """/v1/login, /v1/logout, /v1/me, /v1/sessions."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def login(self, request: Request) -> Response:
        """Exchange a one-time code or an API key for a session. Tickets are refused: each is for one
        socket. The session that the browser had before ends where it was another person's: nobody could
        sign it out any more."""
        self._context.rates.signin(address_of(request.scope))
        require_own_origin(request, self._context)
        body = only_fields(await body_object(request), "code", "key")
        code, key = body.get("code"), body.get("key")
        if isinstance(code, str) and key is None:
            principal = await self._context.auth.of_code(code)
        elif isinstance(key, str) and code is None:
            principal = await self._context.auth.of_api_key(key)
        else:
            raise bad_request("send {code} or {key}, as text")
        if principal is None and key is not None and await self._context.auth.is_suspended(key):
            raise Refused(suspended())
        if principal is None:
            shown, problem = ("code", CODE_PROBLEM) if key is None else ("key", KEY_PROBLEM)
            raise failed(request, self._context, shown, problem)
        require_origin(request, principal)
        _check_chats(principal)
        if key is not None:  # a code is good once, and an operator made it
            self._context.rates.signed_in(principal)
        before = await self._of_cookie(request)
        reply = await self._signed_in(request, principal)
        if before is not None and person_of(before) != reply.headers[HEADER]:
            await self._end(before, before.session)
        return reply

    async def logout(self, request: Request) -> Response:
        """End the browser's session, with its connections, and have it forget its cookie."""
        require_own_origin(request, self._context)
        principal = await self._of_cookie(request)
        if principal is not None:
            await self._end(principal, principal.session)
        reply = json_reply({})
        drop_cookie(reply, request, self._context.settings, COOKIE)
        return reply

    async def me(self, request: Request) -> Response:
        """The signed-in caller; nulls for nobody, so that a page may ask before it shows a sign-in form."""
        shown = request.headers.get("authorization") or read_cookie(request, self._context.settings, COOKIE)
        if not shown:
            return json_reply({"tenant": None, "project": None, "user": None, "person": None})
        return json_reply(await self._me(await caller(request, self._context)))

    async def sessions(self, request: Request) -> Response:
        """The caller's browsers that are signed in, newest first."""
        principal = await caller(request, self._context)
        found = await self._context.auth.sessions(principal)
        names = await user_names(self._context.db, principal.tenant, {row.user_id for row in found})
        shown = [_session(row, names[row.user_id], principal.session) for row in found]
        return json_reply({"sessions": shown})

    async def end(self, request: Request) -> Response:
        """Sign one of the caller's browsers out. An unknown id changes nothing, and gets the same reply as a
        session that has ended."""
        principal = await caller(request, self._context)
        named = request.path_params["id"]
        if await self._context.auth.is_own_session(principal, named):
            await self._end(principal, named)
        return json_reply({})

    async def _of_cookie(self, request: Request) -> Principal | None:
        token = read_cookie(request, self._context.settings, COOKIE)
        return await self._context.auth.of_browser(token) if token else None

    async def _signed_in(self, request: Request, principal: Principal) -> Response:
        agent = request.headers.get("user-agent", "")
        row, token = await self._context.auth.sign_in(principal, address_of(request.scope), agent)
        signed_in = replace(principal, user=row.user_id)
        reply = json_reply(await self._me(signed_in))
        reply.headers[HEADER] = person_of(signed_in)
        set_cookie(reply, request, self._context.settings, COOKIE, token, (row.ends_ms - row.made_ms) // 1000)
        return reply

    async def _end(self, principal: Principal, session: str) -> None:
        try:
            await self._context.auth.sign_out(principal, session)
        except (RedisError, OSError):  # its row has ended; its connections end at the next recheck
            log.warning("browser_session.publish_failed")

    async def _me(self, principal: Principal) -> dict[str, str]:
        user = await self._context.users.name_of(principal.tenant, principal.user)
        facts = {"tenant": principal.tenant, "project": principal.project, "user": user}
        return facts | {"person": person_of(principal)}


def _check_chats(principal: Principal) -> None:
    """Raises Refused (forbidden) for a key that would sign in to a page on which it can do nothing."""
    if CHAT_SCOPE not in principal.scopes:
        what = " and ".join(FOR_PROGRAMS.get(each, each) for each in sorted(principal.scopes))
        problem = f"this key is for programs that {what}; it cannot chat: ask for one with the scope chat"
        raise Refused(refusal(ErrorCode.FORBIDDEN, problem))


def _session(row: BrowserSession, user: str, current: str) -> dict[str, object]:
    return {
        "id": row.id,
        "user": user,
        "made_ms": row.made_ms,
        "seen_ms": row.seen_ms,
        "ends_ms": row.ends_ms,
        "address": row.address,
        "agent": row.agent,
        "current": row.id == current,
    }
