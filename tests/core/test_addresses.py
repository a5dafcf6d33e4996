"""Who calls, where proxies stand between: only what a trusted proxy wrote counts."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from core.configuration.settings import Settings
from core.errors import StartupError
from core.network.addresses import UNKNOWN, KnownCallers, address_of, caller, networks, rate_limit_address
from core.web import http
from tests.support.patience import patience

PROXIES = networks("127.0.0.1, 10.0.0.0/8, fd00::/8", "PARLEY_TRUSTED_PROXIES")


@pytest.mark.parametrize(
    ("peer", "hops", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.9", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.9", ["203.0.113.1, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.9", ["203.0.113.1", "198.51.100.7, 10.0.0.3"], "198.51.100.7"),
        ("10.0.0.9", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.9", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:10.0.0.9", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:192.0.2.1", [], "192.0.2.1"),
        ("10.0.0.9", ["10.0.0.5, 10.0.0.6"], "10.0.0.5"),
        ("10.0.0.9", ["198.51.100.7, ???"], "10.0.0.9"),
        ("10.0.0.9", ["198.51.100.7, ???, 10.0.0.6"], "10.0.0.6"),
        ("10.0.0.9", ["fe80::1%<script>"], "fe80::1"),
        ("fe80::1%eth0", [], "fe80::1"),
        ("10.0.0.9", [""], "10.0.0.9"),
        ("10.0.0.9", ["1.2.3.4," * 100_000 + "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.9", ["\xff\x00"], "10.0.0.9"),
        (None, ["198.51.100.7"], UNKNOWN),
    ],
)
def test_the_caller_is_the_nearest_hop_that_no_trusted_proxy_is(
    peer: str | None, hops: list[str], address: str
):
    headers = [(b"x-forwarded-for", hop.encode("latin-1")) for hop in hops]
    assert caller(peer, False, headers, PROXIES).address == address


def test_what_a_list_of_trusted_hops_may_be_is_bounded():
    """Nobody makes us read a header of thousands of hops."""
    header = [(b"x-forwarded-for", b"198.51.100.7" + b", 10.0.0.5" * 1000)]
    assert caller("10.0.0.9", False, header, PROXIES).address == "10.0.0.5"


@pytest.mark.parametrize(
    ("peer", "said", "secure"),
    [
        ("10.0.0.9", b"https", True),
        ("10.0.0.9", b"http, https", True),
        ("10.0.0.9", b"https, http", False),
        ("10.0.0.9", b"gopher", False),
        ("192.0.2.1", b"https", False),
    ],
)
def test_only_a_trusted_proxy_says_that_a_call_came_over_tls(peer: str, said: bytes, secure: bool):
    assert caller(peer, False, [(b"x-forwarded-proto", said)], PROXIES).secure is secure


def test_a_trusted_proxy_says_that_a_call_came_to_it_without_tls():
    """Though it came from there to us over TLS."""
    assert caller("10.0.0.9", True, [], PROXIES).secure
    assert not caller("10.0.0.9", True, [(b"x-forwarded-proto", b"http")], PROXIES).secure


@pytest.mark.parametrize(("kind", "scheme"), [("http", "https"), ("websocket", "wss")])
async def test_an_upgrade_is_the_callers_too(kind: str, scheme: str):
    """Else all sockets behind a proxy would be one address."""
    seen: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope)

    headers = [(b"x-forwarded-for", b"198.51.100.7"), (b"x-forwarded-proto", b"https")]
    scope = {"type": kind, "scheme": "ws", "client": ("10.0.0.9", 4711), "headers": headers}
    await KnownCallers(app, PROXIES)(scope, _unused, _unused)
    assert [(each["client"], each["scheme"]) for each in seen] == [(("198.51.100.7", 0), scheme)]


async def _unused(*_: object) -> Any:
    raise AssertionError("nothing is asked and nothing said")


def test_an_ipv6_customer_is_counted_as_one():
    """A /64 is what one customer has at least: its 2**64 addresses are one to every limit."""
    assert (
        rate_limit_address("2001:db8:1:2::1")
        == rate_limit_address("2001:db8:1:2:ffff::9")
        != rate_limit_address("2001:db8:1:3::1")
    )
    assert rate_limit_address("192.0.2.1") != rate_limit_address("192.0.2.2")
    assert rate_limit_address("::ffff:192.0.2.1") == rate_limit_address("192.0.2.1")
    assert rate_limit_address("no address") == rate_limit_address("") == UNKNOWN


@pytest.mark.parametrize("listed", ["10.0.0.0/33", "proxy.example", "10.0.0.1;10.0.0.2"])
def test_a_list_that_cannot_be_read_names_its_setting(listed: str):
    with pytest.raises(StartupError, match="PARLEY_TRUSTED_PROXIES"):
        networks(listed, "PARLEY_TRUSTED_PROXIES")


@pytest.mark.parametrize(
    ("trusted", "said"), [("127.0.0.1", "https 198.51.100.7"), ("10.0.0.1", "http 127.0.0.1")]
)
async def test_the_application_sees_the_caller(trusted: str, said: str):
    def say(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.url.scheme} {address_of(request.scope)}")

    listener, stop = http.listen("127.0.0.1", 0, "PARLEY_PORT"), asyncio.Event()
    app = Starlette(routes=[Route("/", say)])
    serving = asyncio.create_task(
        http.serve(app, listener, stop, http.UpgradeGate(Settings(trusted_proxies=trusted)))
    )
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(
            b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"x-forwarded-for: 203.0.113.1, 198.51.100.7\r\nx-forwarded-proto: https\r\n\r\n"
        )
        async with patience():
            assert (await reader.read()).endswith(f"\r\n\r\n{said}".encode())
        writer.close()
    finally:
        stop.set()
        await serving
