"""Sign-in cookies: for this host alone, unreadable for scripts, and sent from its own pages only.

Under TLS their name begins with __Host-, which no neighbour's page and no plain connection can set.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from core.configuration.settings import Settings

HOST_PREFIX = "__Host-"
STRICT_TRANSPORT = "max-age=31536000"


def secure(scheme: str, tls: str) -> bool:
    """True where a browser came over TLS: the call did, or PARLEY_TLS says so of all calls."""
    return tls == "on" or scheme in ("https", "wss")


def set_cookie(
    reply: Response, request: Request, settings: Settings, name: str, value: str, seconds: int
) -> None:
    """Give the browser a cookie."""
    over_tls = secure(request.url.scheme, settings.tls)
    reply.set_cookie(_name(name, over_tls), value, max_age=seconds, **_facts(over_tls))


def read_cookie(request: Request, settings: Settings, name: str) -> str | None:
    """Value of the browser's cookie, None where it has none."""
    return request.cookies.get(_name(name, secure(request.url.scheme, settings.tls)))


def drop_cookie(reply: Response, request: Request, settings: Settings, name: str) -> None:
    """Have the browser forget its cookie."""
    over_tls = secure(request.url.scheme, settings.tls)
    reply.delete_cookie(_name(name, over_tls), **_facts(over_tls))


def _name(name: str, over_tls: bool) -> str:
    return HOST_PREFIX + name if over_tls else name


def _facts(over_tls: bool) -> dict[str, Any]:
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": over_tls}
