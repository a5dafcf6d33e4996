"""The reference client of the browser against a peer whose every frame is written by hand."""

import hashlib
import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from core.clock import now_ms
from core.ids import uuid7, uuid7_ms
from tests.browser.conftest import WatchedPage
from tests.support.patience import wait_until
from tests.support.scripted_peer import Frame, Peer, Socket, welcome_fields

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

START = """async (options) => {
  const { Client, SignedOut } = await import("/web/client/client.js");
  Object.assign(window, { states: [], changes: [], errors: [], tokens: 0 });
  window.client = new Client({
    token: async () => {
      if (options.signedOut) throw new SignedOut("signed out");
      if (options.noTicket && window.tokens++ < options.noTicket) throw new Error("offline");
      return "ticket";
    },
    onState: (state) => window.states.push(state),
    onChange: (answer, change) => window.changes.push(change),
    onError: (error) => window.errors.push(error.code),
    backoffMs: 20,
    ...options,
  });
  window.client.connect();
}"""
SEND = """(message) => {
  window.sending = window.client.send(message);
  window.sending.then((answer) => (window.answer = answer));
}"""


class Driven:
    """A client in a page, with the peer it talks to."""

    def __init__(self, blank: WatchedPage, peer: Peer) -> None:
        self.page = blank.page
        self.peer = peer

    async def start(self, **options: Any) -> Socket:
        """Connect the client and welcome it."""
        await self.page.evaluate(START, options)
        socket = await self.peer.socket()
        await socket.welcome()
        await self.until("client.state.state === 'open'")
        return socket

    async def ask(self, socket: Socket, g: int = 1) -> str:
        """Send a turn and have it accepted."""
        await self.page.evaluate(SEND, {"content": "Hello"})
        return await socket.accept(g)

    async def get(self, expression: str) -> Any:
        """A value of the page."""
        return await self.page.evaluate(expression)

    async def until(self, expression: str) -> None:
        """Wait until the page says so."""
        await wait_until(lambda: self.page.evaluate(f"Boolean({expression})"))


@pytest_asyncio.fixture(loop_scope="session")
async def driven(blank: WatchedPage, peer: Peer) -> AsyncGenerator[Driven]:
    """A client that is not connected yet."""
    yield Driven(blank, peer)
    assert [error for error in blank.errors if "WebSocket connection" not in error] == []


def listed(id: str, **fields: Any) -> Frame:
    """A welcome that goes on with this request."""
    request = {"id": id, "g": 1, "epoch": 1, "from": 1, "head": 1, "state": "running"} | fields
    return {"requests": [request], "resumed": "full"}


async def test_a_turn_that_a_new_server_cannot_read_is_not_sent_again(driven: Driven):
    """A frame longer than it reads would end the connection for all that runs on it: the turn alone fails."""
    socket = await driven.start()
    await driven.page.evaluate(SEND, {"content": "H" * 2000})
    await socket.hear("send")
    driven.peer.cut()
    socket = await driven.peer.socket()
    await socket.welcome(limits=welcome_fields()["limits"] | {"frame": 1000})
    await driven.until("answer.finished")
    error = await driven.get("({ ...answer.error })")
    assert (error["code"], error["limit"], error["dimension"]) == ("too_large", 1000, "frame_bytes")
    assert [frame["t"] for frame in socket.log] == ["hello"]


async def test_ids_are_made_from_the_servers_clock(driven: Driven):
    """A computer whose clock is a day off still makes ids that the server takes."""
    await driven.page.evaluate(START, {})
    socket = await driven.peer.socket()
    await socket.welcome(now=now_ms() - 24 * 3600 * 1000)
    id = await driven.ask(socket)
    assert abs((uuid7_ms(id) or 0) - (now_ms() - 24 * 3600 * 1000)) < 10_000


@pytest.mark.parametrize("days", [3, -3])
async def test_a_clock_that_is_set_makes_no_id_of_another_day(driven: Driven, days: int):
    """Nobody can tell that from a sleep: the next send asks the server for the time, by a connection that
    takes over, and what runs is not disturbed."""
    socket = await driven.start()
    running = await driven.ask(socket)
    await driven.page.evaluate(
        "(ms) => { const real = Date.now; Date.now = () => real() + ms; }", days * 24 * 3600 * 1000
    )
    await driven.page.evaluate(SEND, {"content": "Hello"})
    moved = await driven.peer.socket()
    hello = await moved.welcome(**listed(running))
    assert [each["id"] for each in hello["resume"]["requests"]] == [running]
    id = await moved.accept(2)
    assert abs((uuid7_ms(id) or 0) - now_ms()) < 10_000
    await driven.page.evaluate(SEND, {"content": "Hello"})
    again = await moved.accept(3)
    assert abs((uuid7_ms(again) or 0) - now_ms()) < 10_000, "the clock is known again"
    counters = await driven.get("client.counters")
    assert (counters["reconnects"], counters["handovers"]) == (0, 1)


async def test_a_slow_application_acknowledges_nothing_of_a_cursor_that_was_moved(driven: Driven):
    """What it finishes after its answer is read again from 0 was never sent on the new cursor."""
    socket = await driven.start()
    id = await driven.ask(socket)
    await driven.page.evaluate("void (client.options.onChange = () => new Promise((go) => (window.go = go)))")
    await socket.delta("a", 1)
    await driven.until("window.go")
    await socket.end("b", 2)
    assert (await socket.hear("attach"))["o"] == 0
    await driven.page.evaluate("go()")
    await socket.tell("attached", g=1, id=id, epoch=1, **{"from": 1}, head=2, state="ended")
    await socket.tell("ping", ts=1)
    assert (await socket.hear("pong"))["a"] == []


async def test_sha256_is_sha256(driven: Driven):
    """Our digest, which also works where a page is no secure context, agrees with Python's."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    texts = ["".join(chance.choices("aé😀\n", k=length)) for length in [*range(130), 5000]]
    digests = await driven.page.evaluate(
        "async (texts) => texts.map((await import('/web/client/sha256.js')).sha256)",
        texts,
    )
    assert digests == [hashlib.sha256(text.encode()).hexdigest() for text in texts], f"seed {seed}"


async def test_any_cut_gives_the_same_text(driven: Driven):
    """However a log is cut into deltas, repeated and interrupted, what was applied is the log's text."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    log = [chance.choice(["a", "é", "😀 ", "word ", "\n"]) for _ in range(60)]
    text = "".join(log)
    await driven.page.evaluate("void (Math.random = () => 0)")  # no wait before a reconnect
    socket = await driven.start()
    id = await driven.ask(socket)
    while True:
        o: int = await driven.get("answer.applied")
        while o < len(log) and chance.random() > 0.15:
            again = o > 0 and chance.random() < 0.3
            first = chance.randint(1, o) if again else o + 1
            last = chance.randint(first, o if again else min(len(log), first + 5))
            piece, before = "".join(log[first - 1 : last]), "".join(log[: first - 1])
            await socket.delta(piece, first, last, p=len(before))
            o = max(o, last)
        if o == len(log):
            await socket.end(text, o + 1)
            await driven.until("answer.finished")
            break
        driven.peer.cut()
        socket = await driven.peer.socket()
        hello = await socket.hear("hello")
        assert hello["resume"]["requests"][0]["o"] <= o
        await socket.tell("welcome", **(welcome_fields() | listed(id)))
        await driven.until("client.state.state === 'open'")
    assert await driven.get("[answer.verified, answer.text]") == [True, text], f"seed {seed}"


async def test_a_client_that_stopped_says_why_to_whoever_asks(driven: Driven):
    """At once, also where it never had a connection; connected anew, it sends."""
    await driven.page.evaluate(START, {"signedOut": True})
    await driven.until("client.state.state === 'stopped'")
    for call in ("send({ content: 'Hello' })", "newId()", f"attach('{uuid7(now_ms())}').done"):
        assert await driven.get(f"client.{call}.catch((error) => error.code)") == "unauthorized"
    await driven.ask(await driven.start())
