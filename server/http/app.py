"""The gateway's HTTP routes, the chat page, and the headers that lock it down."""

from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.web.cookies import STRICT_TRANSPORT, secure
from server.context import GatewayContext
from server.http.conversation_routes import ConversationRoutes
from server.http.cross_origin import cross_origin
from server.http.health import Health
from server.http.limit_routes import LimitRoutes
from server.http.session_routes import SessionRoutes
from server.http.ticket_routes import TicketRoutes
from server.http.web_files import page, web_routes

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-dns-prefetch-control": "off",  # an answer's link is no look-up before somebody opens it
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

READ = ("GET", "OPTIONS")
CHANGE = ("PATCH", "DELETE", "OPTIONS")


def routes(context: GatewayContext, health: Health) -> list[BaseRoute]:
    """Everything but the WebSocket."""
    session, conversations, limits = SessionRoutes(context), ConversationRoutes(context), LimitRoutes(context)
    settings, change = context.settings, "PATCH, DELETE"
    return [
        Route("/", page, methods=["GET"]),
        Route("/v1/login", session.login, methods=["POST"]),
        Route("/v1/logout", session.logout, methods=["POST"]),
        Route("/v1/me", session.me, methods=["GET"]),
        Route("/v1/sessions", session.sessions, methods=["GET"]),
        Route("/v1/sessions/{id}", session.end, methods=["DELETE"]),
        Route("/v1/tickets", TicketRoutes(context).tickets, methods=["POST"]),
        Route("/v1/limits", cross_origin(limits.limits, settings), methods=READ),
        Route("/v1/models", cross_origin(conversations.models, settings), methods=READ),
        Route("/v1/conversations", cross_origin(conversations.conversations, settings), methods=READ),
        Route(
            "/v1/conversations/{id}",
            cross_origin(conversations.change, settings, change),
            methods=CHANGE,
        ),
        Route(
            "/v1/conversations/{id}/messages", cross_origin(conversations.messages, settings), methods=READ
        ),
        Route("/healthz", health.healthz, methods=["GET"]),
        Route("/readyz", health.readyz, methods=["GET"]),
        *web_routes(),
    ]


class SecurityHeaders:
    """Puts HEADERS on every HTTP response, HSTS under TLS; browsers check the page's files on each load."""

    def __init__(self, app: ASGIApp, tls: str = "auto") -> None:
        self._app = app
        self._tls = tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-cache")
                if secure(scope["scheme"], self._tls):
                    headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
            await send(message)

        await self._app(scope, receive, send_with_headers)
