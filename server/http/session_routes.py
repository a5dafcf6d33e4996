"""Signing browsers in and out."""

from starlette.requests import Request
from starlette.responses import Response

from billing.api import Principal
from core.addresses import address_of
from server import cookies
from server.edge import Edge
from server.http.callers import caller, failed, require_own_origin, set_cookie
from server.http.fields import only
from server.http.replies import bad_request, body_object, json_reply


class SessionRoutes:
    """/v1/login, /v1/logout, /v1/me."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    async def login(self, request: Request) -> Response:
        """A one-time code or an API key becomes a cookie. No ticket does: it is for one connection."""
        self._edge.rates.signin(address_of(request.scope))
        require_own_origin(request, self._edge)
        body = only(await body_object(request), "code", "key")
        code, key = body.get("code"), body.get("key")
        if isinstance(code, str) and key is None:
            principal = await self._edge.auth.of_code(code)
        elif isinstance(key, str) and code is None:
            principal = await self._edge.auth.of_api_key(key)
        else:
            raise bad_request("send {code} or {key}, as text")
        if principal is None:
            shown, problem = (
                ("key", "this key is wrong, expired or revoked")
                if key
                else ("code", "this link was used or is too old: use the key")
            )
            raise failed(request, self._edge, shown, problem)
        reply = json_reply(_me(principal))
        set_cookie(reply, request, principal, self._edge)
        return reply

    async def logout(self, request: Request) -> Response:
        """Forget the cookie."""
        require_own_origin(request, self._edge)
        reply = json_reply({})
        reply.delete_cookie(cookies.COOKIE, path="/", httponly=True, samesite="strict")
        return reply

    async def me(self, request: Request) -> Response:
        """Who is signed in; nobody is an answer too, so that a page may ask before it asks to sign in."""
        if not request.headers.get("authorization") and cookies.COOKIE not in request.cookies:
            return json_reply({"tenant": None, "project": None, "user": None})
        return json_reply(_me(await caller(request, self._edge)))


def _me(principal: Principal) -> dict[str, str]:
    return {"tenant": principal.tenant, "project": principal.project, "user": principal.user}
