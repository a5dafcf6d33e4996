"""The reference client of the browser against a peer whose every frame is written by hand."""

import hashlib
import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from core.clock import now_ms
from core.ids import uuid7_ms
from tests.browser.conftest import WatchedPage
from tests.support.patience import wait_until
from tests.support.scripted_peer import Frame, Peer, Socket, welcome_fields

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

START = """async (options) => {
  const { Client, SignedOut } = await import("/web/client.js");
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


async def test_hello_then_text_then_a_verified_end(driven: Driven):
    """The ticket goes into hello; deltas add up; `end` is verified and acknowledged at once."""
    await driven.page.evaluate(START, {})
    socket = await driven.peer.socket()
    hello = await socket.hear("hello")
    assert (hello["v"], hello["token"], hello["agent"]["name"]) == (1, "ticket", "parley-js")
    assert "resume" not in hello
    await socket.tell("welcome", **welcome_fields())
    id = await driven.ask(socket)
    assert abs((uuid7_ms(id) or 0) - now_ms()) < 10_000
    await socket.tell("event", g=1, o=1, k="queued")
    await socket.delta("Hé ", 2)
    await socket.delta("😀!", 3, 7, p=3)
    await socket.delta("", 8, 8, p=5)
    await socket.end("Hé 😀!", 9)
    await driven.until("answer.status === 'ended'")
    ended = await driven.get(
        "[answer.text, answer.verified, answer.usage.total, answer.cost.nano, answer.reason]"
    )
    assert ended == ["Hé 😀!", True, 49, 6100, "stop"]
    assert (await socket.hear("ack"))["a"] == [[1, 9]]
    assert (await driven.get("client.counters"))["verified"] == 1
    assert await driven.get("answer.done.then((done) => done === answer)")


async def test_ids_are_made_from_the_servers_clock(driven: Driven):
    """A computer whose clock is a day off still makes ids that the server takes."""
    await driven.page.evaluate(START, {})
    socket = await driven.peer.socket()
    await socket.welcome(now=now_ms() - 24 * 3600 * 1000)
    id = await driven.ask(socket)
    assert abs((uuid7_ms(id) or 0) - (now_ms() - 24 * 3600 * 1000)) < 10_000


async def test_repeats_are_ignored_and_a_gap_is_read_again(driven: Driven):
    """A lower offset changes nothing; a higher one makes the client attach at what it applied."""
    socket = await driven.start()
    id = await driven.ask(socket)
    await socket.delta("one ", 1)
    await socket.delta("one ", 1)
    await socket.delta("four", 4, p=14)
    attach = await socket.hear("attach")
    assert (attach["id"], attach["o"], attach["epoch"]) == (id, 1, 1)
    await socket.delta("late", 2, p=4)
    await socket.tell("attached", g=2, id=id, epoch=1, **{"from": 2}, head=4, state="running")
    await socket.delta("two three four", 2, 4, p=4, g=2)
    await socket.end("one two three four", 5, g=2)
    await driven.until("answer.verified")
    counters = await driven.get("client.counters")
    assert (counters["stale"], counters["gaps"], counters["verified"]) == (1, 1, 1)


async def test_a_cut_in_mid_answer_resumes_without_a_repeat(driven: Driven):
    """The client comes back with its resume token and the offset it applied, and misses nothing."""
    socket = await driven.start()
    id = await driven.ask(socket)
    await socket.delta("one ", 1, 3)
    await driven.until("answer.applied === 3")
    driven.peer.cut()
    again = await driven.peer.socket()
    hello = await again.welcome(**listed(id, **{"from": 4}), resume_token="resume-2")
    assert hello["resume"] == {"token": "resume-1", "requests": [{"id": id, "epoch": 1, "o": 3}]}
    await again.delta("two", 4, p=4)
    await again.end("one two", 5)
    await driven.until("answer.verified")
    driven.peer.cut()
    last = await (await driven.peer.socket()).hear("hello")
    assert last["resume"] == {"token": "resume-2", "requests": []}


async def test_a_turn_that_was_not_accepted_is_sent_again(driven: Driven):
    """The outbox keeps a turn until `accepted`; a cancel of it is said again too."""
    socket = await driven.start()
    await driven.page.evaluate(SEND, {"content": "Hello", "conversation": "c"})
    first = await socket.hear("send")
    await driven.page.evaluate("client.cancel(answer)")
    await socket.hear("cancel")
    driven.peer.cut()
    again = await driven.peer.socket()
    hello = await again.welcome()
    assert hello["resume"]["requests"] == [{"id": first["id"], "epoch": None, "o": 0}]
    assert await again.hear("send") == first
    assert (await again.hear("cancel"))["id"] == first["id"]
    assert (await driven.get("client.counters"))["resent"] == 1


@pytest.mark.parametrize("code", [4000, 4001, 4010, 4014, 1001, 1011, 1012, 1013])
async def test_close_codes_that_may_reconnect(driven: Driven, code: int):
    """4000 to 4499 and the retryable ones of WebSocket itself: the client comes back after a short wait."""
    socket = await driven.start()
    await socket.close(code)
    await (await driven.peer.socket()).welcome()
    await driven.until("client.state.state === 'open'")
    waits = [state["inMs"] for state in await driven.get("states") if state["state"] == "waiting"]
    assert len(waits) == 1
    assert 0 <= waits[0] <= 20


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (4500, "bad_message"),
        (4501, "unauthorized"),
        (4504, "forbidden"),
        (4003, "superseded"),
        (4509, "too_large"),
    ],
)
async def test_close_codes_that_stop(driven: Driven, code: int, name: str):
    """4500 to 4999, and superseded by somebody else: open answers fail, nothing is dialled."""
    socket = await driven.start()
    await driven.ask(socket)
    await socket.close(code)
    await driven.until("client.state.state === 'stopped'")
    assert await driven.get("[client.state.code, answer.error.code]") == [name, name]
    assert await driven.get("client.send({content: 'x'}).then((answer) => answer.error.code)") == name
    assert driven.peer.sockets.empty()


async def test_without_a_ticket_it_stops_or_tries_again(driven: Driven):
    """No ticket because of the network is tried again; signed out is an end."""
    await driven.page.evaluate(START, {"noTicket": 2})
    await (await driven.peer.socket()).welcome()
    await driven.until("client.state.state === 'open'")
    assert await driven.get("states.filter((state) => state.state === 'waiting').length") == 2
    await driven.page.evaluate("client.close()")
    await driven.page.evaluate(START, {"signedOut": True})
    await driven.until("client.state.state === 'stopped' && client.state.code === 'unauthorized'")


async def test_snap_and_retract_replace_the_text(driven: Driven):
    """Both set what is applied, whatever it was; positions count code points."""
    socket = await driven.start()
    await driven.ask(socket)
    await socket.tell("snap", g=1, epoch=2, o=40, x="😀é bad")
    assert (await socket.hear("ack"))["a"] == [[1, 40]]
    await socket.tell("retract", g=1, o=41, p=3, category="x", policy="y")
    await socket.delta("good", 42, p=3)
    await socket.end("😀é good", 43)
    await driven.until("answer.verified")
    assert await driven.get("[answer.text, answer.epoch]") == ["😀é good", 2]
    assert await driven.get("changes") == ["accepted", "reset", "reset", "text", "end"]


async def test_a_wrong_hash_is_repaired_once_and_then_reported(driven: Driven):
    """The first mismatch reads everything again from 0, the second is `verified: false`."""
    socket = await driven.start()
    id = await driven.ask(socket)
    await socket.delta("a", 1)
    await socket.end("b", 2)
    attach = await socket.hear("attach")
    assert attach["o"] == 0
    assert await driven.get("[answer.text, answer.status]") == ["", "running"]
    await socket.tell("attached", g=2, id=id, epoch=1, **{"from": 1}, head=2, state="ended")
    await socket.delta("a", 1, g=2)
    await socket.end("b", 2, g=2)
    await driven.until("answer.verified === false")
    assert (await driven.get("client.counters"))["mismatched"] == 1


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


async def test_go_away_moves_without_a_gap(driven: Driven):
    """A second connection resumes before the first closes; what the first brought is not asked again."""
    socket = await driven.start()
    id = await driven.ask(socket)
    await socket.delta("one ", 1)
    await socket.tell("go_away", why="drain", in_ms=1000)
    second = await driven.peer.socket()
    hello = await second.hear("hello")
    assert hello["resume"]["requests"][0]["o"] == 1
    await socket.delta("two ", 2, p=4)
    await driven.until("answer.applied === 2")
    assert not socket.closed.is_set()
    await second.tell("welcome", **(welcome_fields() | listed(id)))
    await second.delta("two ", 2, p=4)
    assert (await second.hear("ack"))["a"] == [[1, 2]]
    await second.delta("three", 3, p=8)
    await second.end("one two three", 4)
    await driven.until("answer.verified")
    await socket.closed.wait()
    counters = await driven.get("client.counters")
    assert (counters["gaps"], counters["stale"], counters["handovers"]) == (0, 1, 1)
    assert "waiting" not in [state["state"] for state in await driven.get("states")]


async def test_acks_at_half_a_window_after_200_ms_and_in_pong(driven: Driven):
    """Cumulative offsets; a pong carries those that are due."""
    socket = await driven.start(window={"events": 8})
    await driven.ask(socket)
    for o in range(1, 5):
        await socket.delta("x", o, p=o - 1)
    assert (await socket.hear("ack"))["a"] == [[1, 4]]
    await socket.delta("x", 5, p=4)
    assert (await socket.hear("ack"))["a"] == [[1, 5]]
    await socket.delta("x", 6, p=5)
    await socket.tell("ping", ts=7)
    pong = await socket.hear("pong")
    assert (pong["ts"], pong["a"]) == (7, [[1, 6]])
    await socket.delta("y" * 16000, 7, p=6)
    await socket.delta("z" * 400, 8, p=16006)
    assert (await socket.hear("ack"))["a"] == [[1, 8]]


async def test_silence_counts_as_a_lost_connection(driven: Driven):
    """Nothing heard for interval + timeout: the client dials again without waiting for a close."""
    await driven.page.evaluate(START, {})
    await (await driven.peer.socket()).welcome(heartbeat={"interval_ms": 100, "timeout_ms": 50})
    await (await driven.peer.socket()).welcome()


async def test_coming_online_ends_the_wait(driven: Driven):
    """The backoff is cut short when the network is back; an open socket is probed."""
    socket = await driven.start(backoffMs=10_000_000)
    await driven.page.evaluate("dispatchEvent(new Event('online'))")
    await socket.hear("ping")
    await socket.close(1012)
    await driven.until("client.state.state === 'waiting'")
    await driven.page.evaluate("dispatchEvent(new Event('online'))")
    await (await driven.peer.socket()).welcome()


async def test_refusals_are_typed(driven: Driven):
    """An error that answers a send fails that answer, with its code and when to try again."""
    socket = await driven.start()
    await driven.page.evaluate(SEND, {"content": "Hello"})
    id = (await socket.hear("send"))["id"]
    await socket.tell("error", re="send", id=id, code="overloaded", message="busy", retry=True, after_ms=1500)
    await driven.until("answer.status === 'failed'")
    assert await driven.get("[answer.error.code, answer.error.retry, answer.error.afterMs]") == [
        "overloaded",
        True,
        1500,
    ]
    await driven.page.evaluate(SEND, {"content": "x" * 262144})
    await driven.until("answer.error.code === 'too_large'")
    await socket.tell("error", re="ack", code="bad_message", message="what?", retry=False)
    await driven.until("errors.length === 1")


async def test_a_request_that_is_gone_fails(driven: Driven):
    """What the server no longer has at resume ends with its reason; a request we do not know is detached."""
    socket = await driven.start()
    id = await driven.ask(socket)
    driven.peer.cut()
    again = await driven.peer.socket()
    gone = {"id": id, "state": "gone", "why": "not_resumable"}
    stranger = {"id": "other", "g": 1, "epoch": 1, "from": 1, "head": 1, "state": "running"}
    await again.welcome(requests=[gone, stranger], resumed="partial")
    assert (await again.hear("detach"))["id"] == "other"
    await driven.until("answer.error.code === 'not_resumable'")


async def test_sha256_is_sha256(driven: Driven):
    """Our digest, which also works where a page is no secure context, agrees with Python's."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    texts = ["".join(chance.choices("aé😀\n", k=length)) for length in [*range(130), 5000]]
    digests = await driven.page.evaluate(
        "async (texts) => { const { sha256 } = await import('/web/sha256.js'); return texts.map(sha256); }",
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
