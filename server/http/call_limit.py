"""Refuses HTTP calls above an address's rate before anything is read of them."""

from starlette.types import ASGIApp, Receive, Scope, Send

from core.errors import Refused
from core.network.addresses import address_of
from server.access.rates import CallRates
from server.http.replies import ReplyOf, gateways_reply

FREE = frozenset({"/healthz", "/readyz"})
"""Paths that balancers ask, which may share an address with everybody; they cost nothing."""


class LimitedCalls:
    """ASGI middleware in front of the application."""

    def __init__(self, app: ASGIApp, rates: CallRates, reply_of: ReplyOf = gateways_reply) -> None:
        self._app = app
        self._rates = rates
        self._reply_of = reply_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["path"] not in FREE:
            try:
                self._rates.call(address_of(scope))
            except Refused as refused:
                await self._reply_of(scope["path"])(refused.refusal, None)(scope, receive, send)
                return
        await self._app(scope, receive, send)
