"""Turns away requests for another name (core/network/hosts.py); logs the setting that lets them in."""

from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from core.network.hosts import Hosts
from core.observability.telemetry import RepeatedWarning, logger

SHOWN_CHARACTERS_MAX = 100
MISDIRECTED = "this name is not served here\n"

repeated = RepeatedWarning(logger(__name__))


def refused(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Log a refused name, every few seconds at most."""
    said = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
    shown = ascii(said[:SHOWN_CHARACTERS_MAX])
    repeated.warning("http.host_refused", host=shown, setting="PARLEY_ALLOWED_HOSTS")


class AllowedHosts:
    """ASGI middleware that answers 421 to calls for another name, upgrades too, before the application."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] not in ("http", "websocket") or self._hosts.allow(scope["headers"]):
            await self._app(scope, receive, send)
            return
        refused(scope["headers"])
        reply = PlainTextResponse(MISDIRECTED, 421)
        if scope["type"] == "http":
            await reply(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(reply)
