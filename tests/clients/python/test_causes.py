"""Why the Python client is not connected, in words, and what it makes of proxies and of key functions."""

import asyncio
import json

import pytest

from parley_client import Client, ConnectionState, ProtocolError
from parley_client.causes import PAGE, checked_token, first_words, is_loopback, no_token
from tests.support.patience import wait_until
from tests.support.ports import free_ports
from tests.support.scripted_peer import scripted_peer


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "an empty text"),
        (None, "NoneType"),
        ({"ticket": "t"}, "dict"),
        ("<!doctype html>", "a web page"),
        ("\n <html>", "a web page"),
        ("not found", "no token"),
        ("x" * 2049, "no token"),
    ],
)
def test_what_is_no_token_is_named(given: object, problem: str):
    """And not sent: the server would call it a wrong key, and the client would stop."""
    with pytest.raises(ValueError, match=problem):
        checked_token(given)
    assert checked_token("pk_abc-DEF_1.2") == "pk_abc-DEF_1.2"


def test_a_key_function_that_fails_is_told_in_a_sentence():
    """What it raised, how long it hung, or that its reply was no JSON."""
    assert "nothing within 15 s" in no_token(TimeoutError(), 15)
    assert "KeyError" in no_token(KeyError(), 15)
    with pytest.raises(json.JSONDecodeError) as page:
        json.loads("<html>")
    assert PAGE in no_token(page.value, 15)


def test_a_web_page_is_not_quoted():
    """Of a text the first line is."""
    assert first_words(b"<html>\n<h1>502</h1>") == PAGE
    assert (first_words(b"\nbusy\nmore"), first_words(b"")) == ("busy", "")


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("ws://127.0.0.1:8080/v1/ws", True),
        ("ws://127.9.9.9/", True),
        ("wss://[::1]:8443/", True),
        ("ws://localhost./", True),
        ("ws://a.localhost:1/", True),
        ("ws://10.0.0.1/", False),
        ("ws://localhost.example/", False),
        ("ws:///", False),
    ],
)
def test_which_addresses_are_of_this_machine(url: str, here: bool):
    """Of all families, and by the names that always are."""
    assert is_loopback(url) is here


async def test_loopback_goes_past_proxies(monkeypatch: pytest.MonkeyPatch):
    """Whatever the environment names."""
    [dead] = free_ports(1)
    for name in ("https_proxy", "http_proxy", "all_proxy", "ws_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{dead}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with scripted_peer() as peer:
        entering = asyncio.create_task(Client(peer.url, "key").__aenter__())
        socket = await peer.socket()
        await socket.welcome()
        await (await entering).close()


async def test_a_wait_that_is_cut_short_says_what_it_waited_for():
    """A note on the error, the same as `waiting` and `on_state`; a listener that fails breaks nothing."""
    [dead] = free_ports(1)
    states: list[ConnectionState] = []

    def on_state(state: ConnectionState) -> None:
        states.append(state)
        raise RuntimeError("a listener's own")

    client = Client(f"http://127.0.0.1:{dead}", "key", on_state=on_state)
    entering = asyncio.create_task(client.__aenter__())
    await wait_until(lambda: len(states) > 1)
    assert isinstance(client.waiting, ProtocolError)
    assert client.waiting.code == "unreachable"
    assert states[0].state == "waiting"
    assert states[0].why is not None
    entering.cancel()
    with pytest.raises(asyncio.CancelledError) as cut:
        await entering
    assert "unreachable" in cut.value.__notes__[0]
    assert states[-1].state == "stopped"
