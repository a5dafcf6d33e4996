"""Why the Python client is not connected, in words, and what it makes of proxies and of key functions."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from parley_client import Client, ConnectionState, ProtocolError
from parley_client.causes import PAGE, checked_token, first_words, is_loopback, no_token
from parley_client.link import fresh_token
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
    said = no_token(page.value, 15)
    assert (PAGE in said, str(page.value) in said) == (True, False)  # once


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


async def test_the_reason_is_a_note_of_a_timeouts_cause():
    """As the README says: Python makes the TimeoutError itself, from the error that has the note."""
    [dead] = free_ports(1)

    async def enter() -> None:
        async with asyncio.timeout(None) as waits:  # ends once it waits
            await Client(
                f"http://127.0.0.1:{dead}", "key", on_state=lambda _: waits.reschedule(0)
            ).__aenter__()

    with pytest.raises(TimeoutError) as late:
        await enter()
    assert late.value.__cause__ is not None
    assert "unreachable" in late.value.__cause__.__notes__[0]


async def ticket() -> str:
    """A ticket."""
    return "ticket"


def slow_ticket() -> str:
    """A ticket, by a function that blocks; a loop would be stopped by it."""
    assert threading.current_thread() is not threading.main_thread()
    return "ticket"


@pytest.mark.parametrize("key", [ticket, slow_ticket, lambda: ticket()])
async def test_a_key_function_may_be_plain(key: Callable[[], Any]):
    """A plain one may block, or give what is to be awaited. Its failure is its own."""
    async with scripted_peer() as peer:
        entering = asyncio.create_task(Client(peer.url, key).__aenter__())
        assert (await (await peer.socket()).welcome())["token"] == "ticket"
        await (await entering).close()
    with pytest.raises(ZeroDivisionError):
        await fresh_token(lambda: str(1 // 0))
