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
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

from billing.alerts.addresses import NOT_REACHED, WEBHOOK, Address, is_public
from core.errors import bad_request
from core.observability.error_facts import kind

SIGNATURE_HEADER = "parley-signature"
ID_HEADER = "parley-message-id"
SECONDS_MAX = 5.0
RESOLVE_SECONDS_MAX = 2.0


class NotDelivered(Exception):  # noqa: N818  (the message is what is shown as the last error)
    """Reason that a receiver did not take a message, in words that name no secret."""


@dataclass(frozen=True)
class Webhook:
    """Address of a message, and the secret that signs it. `private`: addresses that are not public are
    allowed."""

    url: str
    secret: str = field(repr=False)
    private: bool = False


def signature(secret: str, at_seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    signed = str(at_seconds).encode() + b"." + body
    return f"t={at_seconds},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


async def send_webhook(
    client: "httpx.AsyncClient", webhook: Webhook, message_id: str, body: bytes, at: int
) -> None:
    """Deliver a message; `at` is Unix seconds. Raises NotDelivered, after SECONDS_MAX at the latest."""
    import httpx  # imported here, as commands that only check an address do not need it

    try:
        async with asyncio.timeout(SECONDS_MAX):
            await _send(client, webhook, message_id, body, at)
    except TimeoutError as error:
        raise NotDelivered(f"no answer in {SECONDS_MAX:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise NotDelivered(kind(error)) from error


async def _send(client: "httpx.AsyncClient", webhook: Webhook, message_id: str, body: bytes, at: int) -> None:
    """Send to the very address that was checked: the name could resolve to another a moment later."""
    import httpx

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
    if response.is_redirect:
        raise NotDelivered(f"HTTP {response.status_code}: it leads to another URL, and none is followed")
    if not response.is_success:
        raise NotDelivered(f"HTTP {response.status_code}")


async def check_resolved(url: str) -> None:
    """Raise Refused where the name of a webhook's URL leads to an address that is not public now. One that
    resolves to nothing, or not soon, is left to the sending, which checks again."""
    host = urlsplit(url).hostname or ""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS_MAX):
            await resolved(host, 443, private=False)
    except NotDelivered as error:
        raise bad_request(NOT_REACHED, field=WEBHOOK) from error
    except (TimeoutError, OSError, UnicodeError):
        return


async def _address_of(url: "httpx.URL", private: bool) -> Address:
    return (await resolved(url.host, url.port or (443 if url.scheme == "https" else 80), private))[0]


async def resolved(host: str, port: int, private: bool) -> list[Address]:
    """Addresses of a name. Raises NotDelivered where one of them is not public, and `private` is not set."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    if not addresses:
        raise NotDelivered("the name has no address")
    if not private and not all(is_public(address) for address in addresses):
        raise NotDelivered("the address is not public")
    return addresses


def webhook_client() -> "httpx.AsyncClient":
    """A client for `send_webhook` without proxies and redirects. Neither a connection nor a cookie outlives
    its message, as others may share the same address (customers of a CDN, for example)."""
    import httpx

    return httpx.AsyncClient(
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        timeout=SECONDS_MAX,
        limits=httpx.Limits(max_keepalive_connections=0),
    )
