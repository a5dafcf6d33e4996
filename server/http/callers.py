"""Who calls over HTTP: a Bearer key, or a browser's sign-in cookie together with its Origin."""

from starlette.requests import Request
from starlette.responses import Response

from billing.api import Principal
from core.addresses import address_of
from core.clock import now_ms
from core.errors import Refused
from server import cookies
from server.auth import origin_allowed
from server.edge import Edge
from server.http.replies import unauthorized
from server.protocol.codes import ErrorCode, refusal

SAFE_METHODS = frozenset({"GET", "HEAD"})


async def caller(request: Request, edge: Edge) -> Principal:
    """Who calls. Raises Refused: unauthorized, forbidden where a cookie comes from another site's page, or
    rate_limited."""
    principal = await _caller(request, edge)
    edge.rates.known(principal)
    return principal


def failed(request: Request, edge: Edge, shown: str, problem: str) -> Refused:
    """What to raise for a secret that is no good; it counts against the address."""
    refused = unauthorized(problem).refusal
    return Refused(edge.rates.failed(address_of(request.scope), shown, refused))


async def _caller(request: Request, edge: Edge) -> Principal:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        principal = await edge.auth.of_api_key(token.strip())
        if principal is None:
            raise failed(request, edge, "bearer", "this key is wrong, expired or revoked")
        return principal
    value = request.cookies.get(cookies.COOKIE)
    signed_in = cookies.unseal(value, edge.settings.keyring, now_ms()) if value else None
    if signed_in is None:
        raise unauthorized("sign in, or send `Authorization: Bearer <key>`")
    if request.method not in SAFE_METHODS:
        require_own_origin(request, edge)
    principal = await edge.auth.of_key(signed_in.tenant, signed_in.key)
    if principal is None:
        raise unauthorized(
            "you were signed out: your key has expired or was revoked, or your account was closed"
        )
    return principal


def require_own_origin(request: Request, edge: Edge) -> None:
    """Raises Refused (forbidden) where a browser sends this from another site's page."""
    if not origin_allowed(request, edge.settings):
        raise Refused(refusal(ErrorCode.FORBIDDEN, "this Origin is not allowed (PARLEY_PUBLIC_ORIGINS)"))


def set_cookie(reply: Response, request: Request, principal: Principal, edge: Edge) -> None:
    """Sign the browser in as this key."""
    seconds = edge.settings.cookie_seconds
    signed_in = cookies.SignedIn(principal.tenant, principal.key, now_ms() + seconds * 1000)
    reply.set_cookie(
        cookies.COOKIE,
        cookies.seal(signed_in, edge.settings.keyring),
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )
