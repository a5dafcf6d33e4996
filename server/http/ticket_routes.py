"""Tickets for a browser's WebSocket."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from billing.api import USAGE_SCOPES, Principal
from core.errors import Refused
from core.names import checked_user, same_name
from server.access.authorization import CHAT_SCOPE
from server.context import GatewayContext
from server.http.caller import caller
from server.http.fields import only_fields
from server.http.replies import bad_request, body_object, json_reply
from server.protocol.codes import ErrorCode, refusal

SCOPE_CHARACTERS_MAX = 64
WRITE = "write"


class TicketRoutes:
    """/v1/tickets."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def tickets(self, request: Request) -> Response:
        """A single-use ticket for hello.token; a service key names the user that it is for."""
        principal = await caller(request, self._context)
        body = only_fields(await body_object(request), "user", "scopes", "history")
        user = await self._user(principal, body.get("user"), "user" in body)
        ticket, expires_at = self._context.auth.ticket(
            principal, user, _scopes(principal, body.get("scopes"))
        )
        made: dict[str, object] = {"ticket": ticket, "expires_at": expires_at}
        if wanted := _history(body.get("history", False), user):
            made["history"], made["history_expires_at"] = self._context.auth.history_pass(
                principal, user, writes=wanted == WRITE
            )
        return json_reply(made)

    async def _user(self, principal: Principal, named: Any, is_named: bool) -> str:
        """Id of the user that the ticket is for."""
        users, tenant = self._context.users, principal.tenant
        own = await users.name_of(tenant, principal.user)
        name = own if not is_named or named == own else checked_user(named)
        if principal.fixed_user and not same_name(name, own):
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this key is bound to another user"))
        user = principal.user if same_name(name, own) else await users.id_of(tenant, name)
        if not user and not principal.shared:
            raise bad_request(
                "user: name whom the ticket is for, or let the key's browsers be one "
                "(parley keys create --users-optional)"
            )
        if await self._context.closed_users.has(principal.tenant, user):
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this user is closed"))
        return user


def _history(wanted: Any, user: str) -> bool | str:
    if not isinstance(wanted, bool) and wanted != WRITE:
        raise bad_request(f'history: true, to read, or "{WRITE}", to rename and delete, too')
    if wanted and not user:
        raise bad_request("history: name the user whose conversations are to be read")
    return wanted


def _scopes(principal: Principal, named: Any) -> frozenset[str]:
    """Those of the key's scopes that the body names; `chat` where it names none."""
    if named is None:
        wanted = frozenset({CHAT_SCOPE})
    elif isinstance(named, list) and named and all(isinstance(each, str) for each in named):  # pyright: ignore[reportUnknownVariableType]
        wanted = frozenset[str](named)
    else:
        raise bad_request("scopes: a list of one or more of the key's scopes")
    if not USAGE_SCOPES.isdisjoint(wanted):
        problem = "scopes: usage is read with a service's key itself: no ticket has usage:read"
        raise Refused(refusal(ErrorCode.FORBIDDEN, problem))
    if not wanted <= principal.scopes:
        missing = ascii(sorted(wanted - principal.scopes)[0][:SCOPE_CHARACTERS_MAX])
        raise Refused(refusal(ErrorCode.FORBIDDEN, f"scopes: this key has no scope {missing}"))
    return wanted
