"""Webhooks: a signed message to an address on the public internet, and nowhere else.

The signature is Stripe's scheme: header `Parley-Signature: t=<Unix seconds>,v1=<hex>`, where v1 is the
HMAC-SHA256, under the target's secret, of the time, a point and the body as it was sent.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import socket
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx

from core.error_facts import kind
from core.errors import bad_request

SIGNATURE_HEADER = "parley-signature"
ID_HEADER = "parley-message-id"
SECONDS_MAX = 5.0
URL_CHARS_MAX = 2_000
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# The one block that global unicast addresses are given from (RFC 4291, IANA), and what in it leads elsewhere.
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

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotDelivered(Exception):  # noqa: N818  (the message is what is shown as the last error)
    """Why a message was not taken by its receiver, in words that name no secret."""


@dataclass(frozen=True)
class Webhook:
    """Where a message goes, and what signs it. `private`: addresses that are not public are allowed."""

    url: str
    secret: str = field(repr=False)
    private: bool = False


def signature(secret: str, at_seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    signed = str(at_seconds).encode() + b"." + body
    return f"t={at_seconds},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def checked_url(url: str, private: bool) -> str:
    """The URL, if a webhook may have it. Raises Refused; what its name leads to is looked at when sending."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise bad_request("a webhook's URL cannot be parsed") from error
    schemes = ("https", "http") if private else ("https",)
    if parts.scheme not in schemes or not parts.hostname or port == 0 or len(url) > URL_CHARS_MAX:
        raise bad_request(f"a webhook's URL begins with https:// and has at most {URL_CHARS_MAX} characters")
    if parts.username is not None or parts.password is not None or not url.isprintable() or not url.isascii():
        raise bad_request("a webhook's URL holds no user, password or special character")
    return url


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, also the one inside of an address that wraps it."""
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


async def send_webhook(
    client: httpx.AsyncClient, webhook: Webhook, message_id: str, body: bytes, at: int
) -> None:
    """Deliver a message; `at` is Unix seconds. Raises NotDelivered, after SECONDS_MAX at the latest."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await _send(client, webhook, message_id, body, at)
    except TimeoutError as error:
        raise NotDelivered(f"no answer in {SECONDS_MAX:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise NotDelivered(kind(error)) from error


async def _send(client: httpx.AsyncClient, webhook: Webhook, message_id: str, body: bytes, at: int) -> None:
    """To the very address that was looked at: a name could lead elsewhere a moment later."""
    url = httpx.URL(webhook.url)
    address = await _address_of(url, webhook.private)
    request = client.build_request(
        "POST",
        url.copy_with(host=str(address)),
        content=body,
        headers={
            "host": url.netloc.decode(),
            "content-type": "application/json",
            "user-agent": "parley-webhooks/1",
            ID_HEADER: message_id,
            SIGNATURE_HEADER: signature(webhook.secret, at, body),
        },
        extensions={"sni_hostname": url.host},
    )
    response = await client.send(request, stream=True)
    await response.aclose()
    if not response.is_success:
        raise NotDelivered(f"HTTP {response.status_code}")


async def _address_of(url: httpx.URL, private: bool) -> Address:
    port = url.port or (443 if url.scheme == "https" else 80)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    if not addresses:
        raise NotDelivered("the name has no address")
    if not private and not all(is_public(address) for address in addresses):
        raise NotDelivered("the address is not public")
    return addresses[0]


def webhook_client() -> httpx.AsyncClient:
    """A client for `send_webhook`: no proxies, no redirects, and neither a connection nor a cookie that
    outlives its message (both would go to whoever else has the same address, as a CDN's customers have)."""
    return httpx.AsyncClient(
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        timeout=SECONDS_MAX,
        limits=httpx.Limits(max_keepalive_connections=0),
    )
