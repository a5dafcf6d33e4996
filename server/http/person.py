"""Names the person whom a caller is, so that a page finds out when its browser has become somebody else's."""

from hashlib import sha256

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from billing.api import Principal

HEADER = "x-parley-person"
DIGITS = 32


def person_of(principal: Principal) -> str:
    """An opaque id: the same for each proof of one user of a project, another one for everybody else. A
    service key without a user is one person."""
    whose = (principal.tenant, principal.project, principal.user or principal.owner_key)
    return sha256("\n".join(whose).encode()).hexdigest()[:DIGITS]


class PersonHeader:
    """Puts HEADER on each reply to a caller who was identified (server/http/replies.py, remember_caller)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""

        async def send_named(message: Message) -> None:
            principal = scope.get("state", {}).get("principal")
            if message["type"] == "http.response.start" and principal is not None:
                MutableHeaders(scope=message)[HEADER] = person_of(principal)
            await send(message)

        await self._app(scope, receive, send_named if scope["type"] == "http" else send)
