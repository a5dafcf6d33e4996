"""A webhook reaches the public internet, and nothing beside whoever sends it."""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest

from billing.alerts import webhooks
from billing.alerts.addresses import is_public
from billing.alerts.webhooks import NotDelivered, Webhook, send_webhook, webhook_client
from tests.billing.receivers import Receiver, http_receiver

PUBLIC = "93.184.215.14"
Resolve = Callable[..., list[Any]]


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.1"),
        *("192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::10.0.0.1", f"::{PUBLIC}"),
        *("::ffff:127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::1"),
        *("2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1"),
        *("fe80::1", "fec0::1", "feff::1", "ff02::1", "4000::1"),
    ],
)
def test_what_is_not_of_the_public_internet(address: str):
    """Loopback, private, local, shared, reserved, documentation, tunnels to such: by IANA's registries."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", [PUBLIC, "2606:4700::1111", f"::ffff:{PUBLIC}", f"64:ff9b::{PUBLIC}", "2002:5db8:d70e::1"]
)
def test_what_is(address: str):
    """Also where an IPv6 address holds a public IPv4 one."""
    assert is_public(ipaddress.ip_address(address))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Names, each with what it leads to: one list of addresses for every time that it is asked for."""
    answers: dict[str, list[list[str]]] = {}
    real: Resolve = socket.getaddrinfo

    def resolve(host: Any, port: Any, *rest: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in answers:
            ipaddress.ip_address(name)  # nothing else is asked for
            return real(host, port, *rest, **options)
        found = answers[name].pop(0)
        family = {4: socket.AF_INET, 6: socket.AF_INET6}
        return [
            (family[ipaddress.ip_address(each).version], socket.SOCK_STREAM, 6, "", (each, port))
            for each in found
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return answers


@pytest.mark.parametrize("addresses", [[PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [PUBLIC, "fec0::1"]])
async def test_a_name_with_one_address_that_is_not_public_is_not_called(
    names: dict[str, list[list[str]]], addresses: list[str]
):
    """Whichever comes first."""
    async with http_receiver(Receiver()) as receiver, webhook_client() as client:
        names["hook.example"] = [addresses]
        webhook = Webhook(f"https://hook.example:{receiver.port}/", "secret")
        with pytest.raises(NotDelivered, match="not public"):
            await send_webhook(client, webhook, "id", b"{}", 1)
        assert receiver.requests == []


async def test_the_connection_goes_to_the_address_that_was_looked_at(names: dict[str, list[list[str]]]):
    """The name is asked for once: a server that answers something else the next time changes nothing."""
    async with http_receiver(Receiver()) as receiver, webhook_client() as client:
        names["hook.example"] = [["127.0.0.1"], ["169.254.169.254"]]
        webhook = Webhook(f"http://hook.example:{receiver.port}/hook", "secret", private=True)
        await send_webhook(client, webhook, "id", b"{}", 1)
        (request,) = receiver.requests
        assert request.headers["host"] == f"hook.example:{receiver.port}"
        assert names["hook.example"] == [["169.254.169.254"]]


def test_nothing_stands_between_a_webhook_and_its_address(monkeypatch: pytest.MonkeyPatch):
    """A proxy of the environment would look the name up again, and a redirect leads anywhere."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    client = webhooks.webhook_client()
    assert (client.trust_env, client.follow_redirects) == (False, False)


async def test_what_one_receiver_sets_is_not_told_to_another():
    """Two names may lead to one address, as those of a CDN do: a cookie of one is no header of the other."""
    async with http_receiver(Receiver(headers="set-cookie: planted=1; path=/\r\n")) as receiver:
        async with webhook_client() as client:
            for path in ("one", "two"):
                webhook = Webhook(f"http://127.0.0.1:{receiver.port}/{path}", "secret", private=True)
                await send_webhook(client, webhook, "id", b"{}", 1)
        assert ["cookie" in request.headers for request in receiver.requests] == [False, False]
