"""Which web pages may use a key that is restricted to the pages of some origins, and what made of it. Pure.

Programs other than browsers send what they like as Origin, so this keeps a key that stands in a page from the
pages of others. It is no proof of who calls.
"""

from starlette.requests import HTTPConnection

from billing.api import Principal
from core.errors import Refusal, Refused
from core.network.origins import is_listed, shown_origin
from server.protocol.codes import ErrorCode, refusal

WHO_LISTS = (
    "an admin or developer of its tenant lists them (Keys in the portal, or `parley keys edit --origin`)"
)


def page_origins(caller: HTTPConnection, by_cookie: bool = False) -> tuple[str, ...]:
    """The origin of the page that calls, as its browser says it; empty for none.

    A page of ours reads without saying one: browsers mark such a call, or show a cookie (`by_cookie`), which
    is for our pages alone. Its origin is the Host, without TLS of either scheme, as a proxy may end it."""
    said = caller.headers.getlist("origin")
    if said:
        return (", ".join(said),)
    if not by_cookie and caller.headers.get("sec-fetch-site") != "same-origin":
        return ()
    schemes = ("https",) if caller.scope["scheme"] in ("https", "wss") else ("http", "https")
    return tuple(f"{scheme}://{caller.headers.get('host', '')}" for scheme in schemes)


def origin_refusal(principal: Principal, origins: tuple[str, ...]) -> Refusal | None:
    """The refusal of a caller whose page is none of those that may use the key; None: it may. `origins`: see
    `page_origins`. Never tells which ones may."""
    if not principal.origins or any(is_listed(each, principal.origins) for each in origins):
        return None
    if not origins:
        problem = "only web pages may use this key, and this call has no Origin: programs take another key"
        return refusal(ErrorCode.FORBIDDEN, problem)
    seen = " or ".join(shown_origin(each) for each in origins)
    return refusal(ErrorCode.FORBIDDEN, f"pages of {seen} may not use this key: {WHO_LISTS}")


def require_origin(caller: HTTPConnection, principal: Principal, by_cookie: bool = False) -> None:
    """Raises Refused (forbidden) for a call from a page that may not use the caller's key."""
    refused = origin_refusal(principal, page_origins(caller, by_cookie))
    if refused is not None:
        raise Refused(refused)
