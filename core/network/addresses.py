"""A caller's address and scheme behind proxies. Pure, but for the ASGI wrapper at the end.

X-Forwarded-For and X-Forwarded-Proto count only from the networks of PARLEY_TRUSTED_PROXIES. In a list of
hops the right-most one that is no such proxy is the caller: anybody may write what stands left of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from core.errors import StartupError
from core.network.comma_list import split_list

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

UNKNOWN = "unknown"
HOPS_MAX = 20
IPV6_PREFIX_COUNTED = 64

Networks = Sequence[IPv4Network | IPv6Network]


@dataclass(frozen=True)
class CallerAddress:
    """A caller's address, as far as it can be believed. `secure`: the call came over TLS."""

    address: str
    secure: bool


def networks(text: str, variable: str) -> Networks:
    """Addresses and networks, separated by commas. Raises StartupError naming the variable."""
    try:
        return tuple(ip_network(name, strict=False) for name in split_list(text))
    except ValueError as error:
        raise StartupError(
            f"{variable}: {error}; list addresses or networks, as in 10.0.0.0/8,fd00::/8"
        ) from error


@lru_cache(maxsize=4096)
def rate_limit_address(address: str) -> str:
    """Key for limits by address: an IPv4 address, or an IPv6 /64, which is the least that one customer
    has."""
    ip = _parsed(address)
    if ip is None:
        return UNKNOWN
    if isinstance(ip, IPv4Address):
        return str(ip)
    return str(ip_network((int(ip), IPV6_PREFIX_COUNTED), strict=False))


def caller(
    peer: str | None, secure: bool, headers: Iterable[tuple[bytes, bytes]], proxies: Networks
) -> CallerAddress:
    """The caller: the socket's peer, or the address that a trusted proxy names."""
    peer = peer or UNKNOWN
    if not trusted(peer, proxies):
        return CallerAddress(_normal(peer), secure)
    hops, schemes = list[str](), list[str]()
    for name, value in headers:
        if name == b"x-forwarded-for":
            hops += value.decode("latin-1").split(",")
        elif name == b"x-forwarded-proto":
            schemes += value.decode("latin-1").split(",")
    if schemes and (scheme := schemes[-1].strip().lower()) in ("http", "https", "ws", "wss"):
        secure = scheme in ("https", "wss")
    return CallerAddress(_nearest_stranger(hops, peer, proxies), secure)


def trusted(address: str, proxies: Networks) -> bool:
    """True for the address of a proxy whose headers count."""
    ip = _parsed(address)
    return ip is not None and any(ip.version == network.version and ip in network for network in proxies)


def _nearest_stranger(hops: Sequence[str], peer: str, proxies: Networks) -> str:
    """The right-most hop that is no trusted proxy; a hop that cannot be parsed ends the search."""
    last = peer
    for hop in reversed(hops[-HOPS_MAX:]):
        address = _without_port(hop.strip())
        if _parsed(address) is None:
            break
        last = address
        if not trusted(address, proxies):
            break
    return _normal(last)


def _without_port(hop: str) -> str:
    """The address without its port: some proxies write 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _normal(address: str) -> str:
    ip = _parsed(address)
    return UNKNOWN if ip is None else str(ip)


@lru_cache(maxsize=4096)
def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """The parsed address. IPv4 that came over an IPv6 socket counts as IPv4; a zone is left out."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


class KnownCallers:
    """Puts the caller's address and scheme where the application looks: `scope["client"]`, `["scheme"]`."""

    def __init__(self, app: "ASGIApp", proxies: Networks) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """ASGI."""
        if scope["type"] in ("http", "websocket"):
            client: Any = scope.get("client")
            peer, port = client or (None, 0)
            seen = caller(peer, scope["scheme"] in ("https", "wss"), scope["headers"], self._proxies)
            scope["client"] = (seen.address, port if seen.address == peer else 0)
            plain = "http" if scope["type"] == "http" else "ws"
            scope["scheme"] = plain + "s" * seen.secure
        await self._app(scope, receive, send)


def address_of(scope: "Scope") -> str:
    """The caller's address, behind KnownCallers."""
    client: Any = scope.get("client")
    return client[0] if client else UNKNOWN
