"""Origins of web pages: the form in which a list keeps them, and whether a browser's is listed. Pure.

A listed origin is kept as browsers write it (lower case, ASCII, no default port; the Fetch standard), so one
that is sent is compared letter by letter and never parsed: whatever else stands there is no listed one.
"""

import re
from collections.abc import Collection
from ipaddress import IPv6Address, ip_address

import idna

from core.errors import bad_request

ORIGIN_CHARACTERS_MAX = 300
HOST_CHARACTERS_MAX = 253
SHOWN_CHARACTERS_MAX = 100
DEFAULT_PORTS = {"https": 443, "http": 80}
PORT_MAX = 65_535
ANY_LABEL = "*."
ORIGIN = re.compile(r"(https?)://([^/?#\\]+)/?", re.ASCII | re.IGNORECASE)
AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@%\s]+)(?::([0-9]{1,5}))?")
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
EXAMPLE = "write it as https://app.example.com, with a port where it has one"
NO_NAME = "its host is no domain name and no whole address"
SPECIAL = {
    "null": "files and sandboxed frames send it, whosever they are",
    "*": "list none to let any page and program use it",
}


def checked_origin(text: str, field: str) -> str:
    """The form in which a list keeps an origin; `https://*.example.com` stands for each with one label more.
    Raises Refused (bad_request), which says what is wrong; `field`: of what was asked."""
    try:
        return _kept(text)
    except ValueError as error:
        raise bad_request(f"{shown_origin(text)} cannot be listed: {error}", field=field) from None


def is_listed(origin: str, listed: Collection[str]) -> bool:
    """True where an origin, as a browser sends it, is listed, or has one label more than one with `*.`."""
    return any(_is_below(origin, each) if ANY_LABEL in each else origin == each for each in listed)


def shown_origin(text: str) -> str:
    """What somebody sent as an origin, as messages and logs repeat it: short, in quotes, and ASCII."""
    return ascii(text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}...")


def _is_below(origin: str, wild: str) -> bool:
    before, after = wild.split("*", 1)
    if not (origin.startswith(before) and origin.endswith(after)):
        return False
    return LABEL.fullmatch(origin[len(before) : len(origin) - len(after)]) is not None


def _kept(text: str) -> str:
    """See `checked_origin`. Raises ValueError with what is wrong."""
    if len(text) > ORIGIN_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {ORIGIN_CHARACTERS_MAX} characters")
    if text in SPECIAL:
        raise ValueError(SPECIAL[text])
    written = ORIGIN.fullmatch(text)
    if written is None and ORIGIN.match(text):
        raise ValueError("leave out what comes after the host, as an origin has no path")
    if written is None:
        raise ValueError(f"it begins with https:// or http://; {EXAMPLE}")
    authority = AUTHORITY.fullmatch(written[2])
    if authority is None:
        raise ValueError(f"leave out all but the host and its port; {EXAMPLE}")
    scheme, host = written[1].lower(), _host(authority[1])
    port = int(authority[2] or DEFAULT_PORTS[scheme])
    if not 0 < port <= PORT_MAX:
        raise ValueError(f"a port is a number from 1 to {PORT_MAX}")
    return f"{scheme}://{host}" if port == DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"


def _host(host: str) -> str:
    if host.startswith("["):
        return f"[{_address(host[1:-1])}]"
    wild, name = host.startswith(ANY_LABEL), _ascii(host.removeprefix(ANY_LABEL))
    labels = name.split(".")
    if "*" in name:
        raise ValueError("* stands only for a whole first label, as in https://*.example.com")
    if name.endswith("."):
        raise ValueError("leave out the dot at the end of the host")
    if len(name) > HOST_CHARACTERS_MAX or not all(LABEL.fullmatch(label) for label in labels):
        raise ValueError(NO_NAME)
    if wild and (len(labels) == 1 or NUMBER.fullmatch(labels[-1])):  # `*.example` would be everybody's
        raise ValueError("* needs a domain of two labels or more behind it, as in https://*.example.com")
    if NUMBER.fullmatch(labels[-1]):  # to browsers then all of it is an IPv4 address
        return _address(name)
    return ANY_LABEL + name if wild else name


def _ascii(name: str) -> str:
    """A domain name as browsers send it."""
    if name.isascii():
        return name.lower()
    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        raise ValueError(NO_NAME) from None


def _address(text: str) -> str:
    """An IP address as browsers write it."""
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(NO_NAME) from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address) if mapped is None else f"::ffff:{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}"
