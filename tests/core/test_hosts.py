"""Which names are ours: a browser that was led here by another name is turned away."""

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from core.configuration.settings import Settings
from core.errors import StartupError
from core.network.hosts import Hosts, require_hosts, require_urls
from core.observability.telemetry import RepeatedWarning, logger
from core.web import host_check, http
from core.web.metrics import serving_metrics
from tests.support.ports import free_ports

LOOPBACK = Hosts("", "127.0.0.1", "https://chat.example.org, http://other.example:8080")
OPEN = Hosts("", "0.0.0.0", "")
LISTED = Hosts("chat.example.org:443, *.example.net", "0.0.0.0", "https://page.example.org")


@pytest.mark.parametrize(
    ("hosts", "host", "allowed"),
    [
        (LOOPBACK, "localhost:8080", True),
        (LOOPBACK, "app.localhost", True),
        (LOOPBACK, "127.0.0.1:8080", True),
        (LOOPBACK, "[::1]:8080", True),
        (LOOPBACK, "[localhost]evil.example", False),
        (LOOPBACK, "[::1]evil.example", False),
        (LOOPBACK, "192.0.2.7", True),
        (LOOPBACK, "chat.example.org", True),
        (LOOPBACK, "OTHER.example.", True),
        (LOOPBACK, "evil.example:8080", False),
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "evillocalhost", False),
        (LOOPBACK, "127.0.0.1.evil.example", False),
        (LOOPBACK, "", False),
        (LOOPBACK, "\xff", False),
        (OPEN, "anything.example", True),
        (LISTED, "chat.example.org", True),
        (LISTED, "page.example.org:8443", True),
        (LISTED, "a.b.example.net", True),
        (LISTED, "example.net", False),
        (LISTED, "evilexample.net", False),
        (LISTED, "evil.example", False),
        (LISTED, "localhost", True),
        (Hosts("*", "127.0.0.1", ""), "evil.example", True),
        (Hosts("", "gateway.internal", ""), "evil.example", True),
        (Hosts("a.example", "gateway.internal", ""), "gateway.internal:80", True),
    ],
)
def test_a_name_is_ours_or_not(hosts: Hosts, host: str, allowed: bool):
    assert hosts.allow([(b"accept", b"*/*"), (b"host", host.encode("latin-1"))]) is allowed


def test_of_two_names_both_must_be_ours():
    """And what sends none is no browser."""
    assert not LOOPBACK.allow([(b"host", b"localhost"), (b"host", b"evil.example")])
    assert LOOPBACK.allow([])


async def test_what_is_for_another_name_is_turned_away_before_the_application(
    monkeypatch: pytest.MonkeyPatch,
):
    """Over HTTP and at the upgrade; the answer names nothing, the log has the name and the setting."""
    monkeypatch.setattr(host_check, "repeated", RepeatedWarning(logger("test")))
    listener, stop = http.listen("127.0.0.1", 0, "PARLEY_PORT"), asyncio.Event()
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    serving = asyncio.create_task(http.serve(app, listener, stop, http.UpgradeGate(Settings())))
    port = listener.getsockname()[1]
    upgrade = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
    upgrade["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
            assert (await client.get("/")).text == "here"
            with capture_logs() as logs:
                for headers in ({}, upgrade):
                    reply = await client.get("/", headers=headers | {"host": "evil.example"})
                    assert reply.status_code == 421
                    assert "evil" not in reply.text
                    assert "PARLEY" not in reply.text
    finally:
        stop.set()
        await serving
    [line] = [line for line in logs if line["event"] == "http.host_refused"]
    assert (line["host"], line["setting"]) == ("'evil.example'", "PARLEY_ALLOWED_HOSTS")


async def test_metrics_are_for_our_names_too():
    [port] = free_ports(1)
    with serving_metrics(Settings(metrics_port=port), 0, str):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
            assert (await client.get("/metrics")).status_code == 200
            for path in ("/metrics", "/readyz"):
                reply = await client.get(path, headers={"host": "evil.example"})
                assert (reply.status_code, reply.text) == (421, host_check.MISDIRECTED)


@pytest.mark.parametrize(
    ("hosts", "origins", "named"),
    [
        ("http://x/", "", "PARLEY_ALLOWED_HOSTS"),
        ("a b", "", "PARLEY_ALLOWED_HOSTS"),
        ("chat.example.org", "chat.example.org", "PARLEY_PUBLIC_ORIGINS"),
        ("", "https://chat.example.org/page", "PARLEY_PUBLIC_ORIGINS"),
        ("", "ftp://chat.example.org", "PARLEY_PUBLIC_ORIGINS"),
    ],
)
def test_a_list_of_what_is_no_host_or_origin_is_refused_at_the_start(hosts: str, origins: str, named: str):
    """A list that silently allows nobody is one that somebody believes in."""
    with pytest.raises(StartupError, match=named):
        require_hosts(hosts, origins)


@pytest.mark.parametrize(
    "url", ["api.example.org", "https://api.example.org/v1", "https://a.example,https://b.example"]
)
def test_what_is_no_url_of_ours_is_refused_at_the_start(url: str):
    """Links and programs that name it would lead nowhere."""
    with pytest.raises(StartupError, match="PARLEY_GATEWAY_URL"):
        require_urls(PARLEY_PORTAL_URL="", PARLEY_GATEWAY_URL=url)
    require_urls(PARLEY_PORTAL_URL="http://localhost:3000", PARLEY_GATEWAY_URL="https://api.example.org/")


def test_hosts_and_origins_of_all_kinds_are_taken():
    """Names, ports, wildcards and addresses of both families."""
    hosts = "chat.example.org, *.example.net, a_b:8080, 10.0.0.1, [::1]:80, fd00::1, *"
    require_hosts(hosts, "https://chat.example.org, http://localhost:3000/, http://[::1]:8080")
