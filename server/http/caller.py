"""Identifies HTTP callers: a Bearer key, or a browser's sign-in cookie together with its Origin."""

from starlette.requests import Request

from billing.api import Principal
from core.errors import Refused
from core.network.addresses import address_of
from core.web.cookies import read_cookie
from server.access import history_passes, tickets
from server.access.authentication import KEY_PROBLEM, ORIGIN_PROBLEM, origin_allowed
from server.access.key_origins import require_origin
from server.context import GatewayContext
from server.http.replies import remember_caller, unauthorized
from server.protocol.codes import ErrorCode, refusal, suspended

COOKIE = "parley_session"
SAFE_METHODS = frozenset({"GET", "HEAD"})
# The texts hold for each possible cause, so that they do not tell which one it is (as KEY_PROBLEM).
CODE_PROBLEM = (
    "this link does not work: it was used, is too old, or is for somebody who may not come in; ask for a new "
    "one, or use a key"
)
SIGNED_OUT_PROBLEM = (
    "this browser is not signed in any more: its time is over, it was signed out, or its key or account "
    "does not work any more; sign in again"
)


async def caller(request: Request, context: GatewayContext) -> Principal:
    """The caller's principal. Raises Refused: unauthorized, forbidden where a cookie comes from another
    site's page or a key from a page that may not use it, or rate_limited."""
    principal = await _caller(request, context)
    remember_caller(request, principal)
    context.rates.known(principal)
    require_origin(request, principal, by_cookie=bearer_of(request) is None)
    return principal


async def reader(request: Request, context: GatewayContext) -> Principal:
    """As `caller`, for routes of a user's conversations: accepts a history pass, too. Raises Refused
    (forbidden) where one that only reads would write."""
    token = bearer_of(request)
    if token is None or not token.startswith(history_passes.PREFIX):
        return await caller(request, context)
    principal = await context.auth.of_history_pass(token)
    if principal is None and await context.auth.is_suspended(token):
        raise Refused(suspended())
    if principal is None:
        raise failed(request, context, "history", "this pass is wrong or over: get a new one with a ticket")
    remember_caller(request, principal)
    context.rates.known(principal)
    require_origin(request, principal)
    if request.method not in SAFE_METHODS and history_passes.WRITE_SCOPE not in principal.scopes:
        problem = 'this pass only reads: get one with a ticket that has `history: "write"`'
        raise Refused(refusal(ErrorCode.FORBIDDEN, problem))
    return principal


def failed(request: Request, context: GatewayContext, shown: str, problem: str) -> Refused:
    """The exception for a wrong secret, which counts against the address."""
    refused = unauthorized(problem).refusal
    return Refused(context.rates.failed(address_of(request.scope), shown, refused))


def not_a_key(token: str) -> str:
    """The message for a Bearer that is no key, chosen by its prefix: it does not tell whether it is good."""
    if token.startswith(tickets.PREFIX):
        return "this is a ticket, for `hello` or `auth` over the WebSocket: no route takes one"
    if token.startswith(history_passes.PREFIX):
        return "this is a history pass: it is for a user's conversations and nothing else"
    return KEY_PROBLEM


async def _caller(request: Request, context: GatewayContext) -> Principal:
    token = bearer_of(request)
    if token is not None:
        principal = await context.auth.of_api_key(token)
        if principal is None and await context.auth.is_suspended(token):
            raise Refused(suspended())
        if principal is None:
            raise failed(request, context, "bearer", not_a_key(token))
        return principal
    cookie = read_cookie(request, context.settings, COOKIE)
    if not cookie:
        raise unauthorized("sign in, or send `Authorization: Bearer <key>`")
    if request.method not in SAFE_METHODS:
        require_own_page(request, context)
    principal = await context.auth.of_browser(cookie)
    if principal is None and await context.auth.is_suspended_browser(cookie):
        raise Refused(suspended())
    if principal is None:
        raise unauthorized(SIGNED_OUT_PROBLEM)
    return principal


def bearer_of(request: Request) -> str | None:
    """The token of the Authorization header, where it has one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def require_own_origin(request: Request, context: GatewayContext) -> None:
    """Raises Refused (forbidden) where a browser sends this from another site's page."""
    if not origin_allowed(request, context.settings):
        raise Refused(refusal(ErrorCode.FORBIDDEN, ORIGIN_PROBLEM))


def require_own_page(request: Request, context: GatewayContext) -> None:
    """Raises Refused (forbidden) where a cookie comes without the Origin that browsers send with every
    write, or with another site's."""
    require_own_origin(request, context)
    if "origin" not in request.headers:
        raise Refused(refusal(ErrorCode.FORBIDDEN, "a cookie without an Origin writes nothing: use a key"))
