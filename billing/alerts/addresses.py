"""Rules for the addresses of messages: e-mail addresses, and URLs on the public internet. Pure."""

import ipaddress
import re
from urllib.parse import urlsplit

from core.errors import bad_request

EMAIL_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+", re.ASCII)
WEBHOOK = "webhook"  # the field that a URL is given in
EMAIL_CHARS_MAX = 254
URL_CHARS_MAX = 2_000
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# The only block of global unicast addresses (RFC 4291, IANA), and its parts that lead elsewhere.
GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        "100.64.0.0/10",  # carriers' NAT
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "198.18.0.0/15",  # benchmarks
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "3fff::/20",
    )
)

INNER_NAMES = ("localhost", "local", "internal", "home", "lan", "intranet", "corp", "private", "svc")
HOST_NAME = re.compile(r"(?=.{1,254}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
NOT_REACHED = (
    "this is an address inside a network, where alerts are not sent: give one of the public internet"
    " (operators may allow others with PARLEY_ALERT_PRIVATE_TARGETS)"
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def checked_address(address: str, field: str | None = None) -> str:
    """Return the address where mail can go there. Raises Refused (of the field)."""
    good = EMAIL_ADDRESS.fullmatch(address) and address.isprintable()
    if len(address) > EMAIL_CHARS_MAX or not good:
        raise bad_request(f"{address[:80]!r} is no e-mail address", field=field)
    return address


def checked_url(url: str, private: bool) -> str:
    """Return the URL where a webhook may use it. Raises Refused, also for an address that is not public, and
    for a name that is this machine's; what other names resolve to is seen when saving and when sending."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise bad_request("a webhook's URL cannot be parsed", field=WEBHOOK) from error
    schemes = ("https", "http") if private else ("https",)
    if parts.scheme not in schemes or not parts.hostname or port == 0 or len(url) > URL_CHARS_MAX:
        told = f"a webhook's URL begins with https:// and has at most {URL_CHARS_MAX} characters"
        raise bad_request(told, field=WEBHOOK)
    if not private and _is_inner(parts.hostname):
        raise bad_request(NOT_REACHED, field=WEBHOOK)
    plain = url.isprintable() and url.isascii() and " " not in url
    if parts.username is not None or parts.password is not None or not plain:
        told = "a webhook's URL holds no user, password, space or special character"
        raise bad_request(told, field=WEBHOOK)
    if not _is_host(parts.hostname) or ("[" in parts.netloc and ":" not in parts.hostname):
        raise bad_request("a webhook's URL names a host as hooks.example.com", field=WEBHOOK)
    return url


def _is_host(host: str) -> bool:
    """True for an address, and for what can be a host's name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return HOST_NAME.fullmatch(host) is not None
    return True


def _is_inner(host: str) -> bool:
    """True for an address that is not public, and for names that are never on the internet (RFC 6761, 6762,
    8375, 9476), as those of one word: whether this network knows them is nobody's who asks."""
    try:
        return not is_public(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        _, dot, last = host.rstrip(".").rpartition(".")
        return not dot or last in INNER_NAMES


def is_public(address: Address) -> bool:
    """True where an address, and any address that it wraps, belongs to the public internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in GLOBAL_UNICAST:
            return False
    listed = any(address in network for network in NOT_PUBLIC if network.version == address.version)
    return address.is_global and not listed and not address.is_multicast and not address.is_reserved
