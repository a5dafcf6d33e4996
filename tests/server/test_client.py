"""The Python client against a peer whose every frame is written by hand."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.clock import now_ms
from core.ids import uuid7_ms
from server import client_link
from server.client import Answer, Client, Ended, Event, ProtocolError, Reset, Status, Text, TextTakenBack
from server.client_answer import Counters
from server.client_link import Link, Settings
from tests.support.patience import wait_until
from tests.support.scripted_peer import Frame, Peer, Socket, scripted_peer, welcome_fields

BACKOFF_SECONDS = 0.02


@pytest.fixture
async def peer() -> AsyncGenerator[Peer]:
    """A server that the test plays."""
    async with scripted_peer() as playing:
        yield playing


@asynccontextmanager
async def connected(peer: Peer, **options: Any) -> AsyncGenerator[tuple[Client, Socket]]:
    """A client that was welcomed, and the peer's end of its socket."""
    client = Client(peer.url, "pk_good", backoff_seconds=BACKOFF_SECONDS, **options)
    entering = asyncio.create_task(client.__aenter__())
    socket = await peer.socket()
    await socket.welcome()
    await entering
    try:
        yield client, socket
    finally:
        await client.close()


async def ask(client: Client, socket: Socket, g: int = 1) -> Answer:
    """Send a turn and have it accepted."""
    sending = asyncio.create_task(client.send("Hello"))
    await socket.accept(g)
    return await sending


async def collect(answer: Answer) -> list[Event]:
    """All events of an answer."""
    return [event async for event in answer.events()]


def listed(answer: Answer, **fields: Any) -> Frame:
    """A welcome that goes on with this answer."""
    request = {"id": answer.id, "g": 1, "epoch": 1, "from": 1, "head": 1, "state": "running"} | fields
    return {"requests": [request], "resumed": "full"}


async def test_text_arrives_is_checked_and_acknowledged(peer: Peer):
    """Deltas add up to the text, `end` is verified by its hash and acknowledged."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        assert abs((uuid7_ms(answer.id) or 0) - now_ms()) < 10_000
        await socket.tell("event", g=1, o=1, k="queued")
        await socket.delta("Hé ", 2)
        await socket.delta("😀!", 3, 7, p=3)
        await socket.end("Hé 😀!", 8)
        events = await collect(answer)
        assert [type(event) for event in events] == [Status, Text, Text, Ended]
        ended = await answer.end()
        assert (ended.reason, ended.usage.total, ended.cost_nano, ended.verified) == ("stop", 49, 6100, True)
        assert (await socket.hear("ack"))["a"] == [[1, 8]]
        assert client.counters.verified == 1


async def test_repeats_are_ignored_and_a_gap_is_read_again(peer: Peer):
    """A lower offset changes nothing; a higher one makes the client attach at what it applied."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        await socket.delta("one ", 1)
        await socket.delta("one ", 1)
        texts = aiter(answer)
        assert await anext(texts) == "one "
        await socket.delta("four", 4, p=14)
        attach = await socket.hear("attach")
        assert (attach["id"], attach["o"]) == (answer.id, 1)
        await socket.delta("late", 2, p=4)
        await socket.tell("attached", g=2, id=answer.id, epoch=1, **{"from": 2}, head=4, state="running")
        await socket.delta("two three four", 2, 4, p=4, g=2)
        await socket.end("one two three four", 5, g=2)
        assert [text async for text in texts] == ["two three four"]
        assert (client.counters.stale, client.counters.gaps, client.counters.verified) == (1, 1, 1)


async def test_a_cut_connection_resumes_at_what_was_applied(peer: Peer):
    """After a cut the client says where it stands, with the token and without what nobody read yet."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        await socket.delta("read ", 1)
        texts = aiter(answer)
        assert await anext(texts) == "read "
        await socket.delta("not read", 2, p=5)
        await wait_until(lambda: answer._reading.waiting)
        peer.cut()
        again = await peer.socket()
        hello = await again.welcome(**listed(answer))
        assert hello["resume"] == {
            "token": "resume-1",
            "requests": [{"id": answer.id, "epoch": 1, "o": 1}],
        }
        await again.delta("on", 2, p=5)
        await again.end("read on", 3)
        assert [text async for text in texts] == ["on"]
        assert client.counters.resumed == 1


@pytest.mark.parametrize("code", [4000, 4008, 4012, 4015, 1001, 1011, 1012, 1013])
async def test_close_codes_that_may_reconnect(peer: Peer, code: int):
    """The number range is the policy: below 4500 the client comes back."""
    async with connected(peer) as (client, socket):
        await socket.close(code)
        await (await peer.socket()).welcome()
        await wait_until(lambda: client.connected)


@pytest.mark.parametrize(
    ("code", "name"), [(4500, "bad_message"), (4501, "unauthorized"), (4003, "superseded")]
)
async def test_close_codes_that_stop(peer: Peer, code: int, name: str):
    """From 4500 on, and when superseded, the client stays away and its answers fail with a typed error."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        await socket.close(code)
        with pytest.raises(ProtocolError) as raised:
            await answer.end()
        assert raised.value.code == name
        with pytest.raises(ProtocolError):
            await client.send("more")
        assert peer.sockets.empty()


async def test_a_wrong_key_is_one_typed_error(peer: Peer):
    """Connecting with a key that is refused raises, and does not try again."""
    client = Client(peer.url, "pk_bad")
    entering = asyncio.create_task(client.__aenter__())
    socket = await peer.socket()
    assert (await socket.hear("hello"))["token"] == "pk_bad"
    await socket.tell("error", re="hello", code="unauthorized", message="wrong key", retry=False)
    with pytest.raises(ProtocolError, match="unauthorized: wrong key"):
        await entering


async def test_a_turn_that_was_not_accepted_is_sent_again(peer: Peer):
    """The outbox keeps a turn until `accepted`: the same frame goes out on the next connection."""
    async with connected(peer) as (client, socket):
        sending = asyncio.create_task(client.send("Hello", options={"max_tokens": 5}))
        first = await socket.hear("send")
        peer.cut()
        again = await peer.socket()
        hello = await again.welcome()
        assert hello["resume"]["requests"] == [{"id": first["id"], "epoch": None, "o": 0}]
        assert await again.hear("send") == first
        await again.tell("accepted", id=first["id"], g=1, epoch=1, dup=True, priority="bulk", queue=None)
        assert (await sending).id == first["id"]
        assert client.counters.resent == 1


async def test_a_refusal_is_a_typed_error(peer: Peer):
    """`error` for a send raises with code, retry and after_ms."""
    async with connected(peer) as (client, socket):
        sending = asyncio.create_task(client.send("Hello"))
        id = (await socket.hear("send"))["id"]
        await socket.tell(
            "error", re="send", id=id, code="overloaded", message="busy", retry=True, after_ms=1500
        )
        with pytest.raises(ProtocolError) as raised:
            await sending
        assert (raised.value.code, raised.value.retry, raised.value.after_ms) == ("overloaded", True, 1500)


async def test_cancel_is_said_again_until_it_ends(peer: Peer):
    """A cancel that may have been lost with its connection is repeated on the next one."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        await socket.delta("some", 1)
        await answer.cancel()
        assert (await socket.hear("cancel"))["id"] == answer.id
        peer.cut()
        again = await peer.socket()
        await again.welcome(**listed(answer))
        assert (await again.hear("cancel"))["id"] == answer.id
        await again.tell("cancel_ok", id=answer.id, state="running")
        await again.delta("some", 1)
        await again.end("some", 2, reason="cancelled")
        assert (await answer.end()).reason == "cancelled"
        assert answer.text == "some"


async def test_snap_and_retract_replace_the_text(peer: Peer):
    """Both set what is applied, whatever it was; plain iteration refuses to hide that text was taken back."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        await socket.tell("snap", g=1, epoch=2, o=40, x="Hello bad")
        await socket.tell("retract", g=1, o=41, p=6, category="x", policy="y")
        await socket.delta("good", 42, p=6)
        await socket.end("Hello good", 43)
        events = await collect(answer)
        assert events[:3] == [Reset("Hello bad"), Reset("Hello "), Text("good")]
        assert answer._reading.epoch == 2
        other = await ask(client, socket, g=2)
        await socket.delta("Hello bad", 1, g=2)
        texts = aiter(other)
        await anext(texts)
        await socket.tell("retract", g=2, o=2, p=0, category="x", policy="y")
        with pytest.raises(TextTakenBack):
            await anext(texts)


async def test_a_wrong_hash_is_repaired_once_and_then_reported(peer: Peer):
    """The first mismatch reads everything again from 0, the second is the answer's `verified=False`."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        ending = asyncio.create_task(answer.end())
        await socket.delta("a", 1)
        await socket.end("b", 2)
        assert (await socket.hear("attach"))["o"] == 0
        await socket.tell("attached", g=2, id=answer.id, epoch=1, **{"from": 1}, head=2, state="ended")
        await socket.delta("a", 1, g=2)
        await socket.end("b", 2, g=2)
        assert not (await ending).verified
        assert client.counters.mismatched == 1


async def test_go_away_moves_without_a_gap(peer: Peer):
    """The client opens a second connection, resumes there and only then closes the first."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        texts = aiter(answer)
        await socket.delta("one ", 1)
        assert await anext(texts) == "one "
        await socket.tell("go_away", why="drain", in_ms=1000)
        second = await peer.socket()
        hello = await second.hear("hello")
        await socket.delta("two ", 2, p=4)
        assert await anext(texts) == "two "
        assert not socket.closed.is_set()
        assert hello["resume"]["requests"][0]["o"] == 1
        await second.tell("welcome", **(welcome_fields() | listed(answer)))
        await second.delta("two ", 2, p=4)
        assert (await second.hear("ack"))["a"] == [[1, 2]]
        await socket.closed.wait()
        await second.delta("three", 3, p=8)
        await second.end("one two three", 4)
        assert [text async for text in texts] == ["three"]
        counters = client.counters
        assert (counters.verified, counters.gaps, counters.stale, counters.handovers) == (1, 0, 1, 1)


async def test_acks_follow_reading_not_receiving(peer: Peer):
    """A reader that does not read acknowledges nothing; half a window at once, less after 200 ms."""
    async with connected(peer, window={"events": 8}) as (client, socket):
        answer = await ask(client, socket)
        for o in range(1, 9):
            await socket.delta("x", o, p=o - 1)
        await wait_until(lambda: answer._reading._arrived == 8)
        await socket.tell("ping", ts=1)
        assert (await socket.hear("pong"))["a"] == []
        texts = aiter(answer)
        for _ in range(4):
            await anext(texts)
        assert (await socket.hear("ack"))["a"] == [[1, 4]]
        await anext(texts)
        assert (await socket.hear("ack"))["a"] == [[1, 5]]
        await anext(texts)
        await socket.tell("ping", ts=7)
        pong = await socket.hear("pong")
        assert (pong["ts"], pong["a"]) == (7, [[1, 6]])


async def test_silence_counts_as_a_lost_connection(peer: Peer):
    """Nothing heard for interval + timeout: the client opens another connection."""
    client = Client(peer.url, "pk_good", backoff_seconds=BACKOFF_SECONDS)
    entering = asyncio.create_task(client.__aenter__())
    await (await peer.socket()).welcome(heartbeat={"interval_ms": 100, "timeout_ms": 50})
    await entering
    await (await peer.socket()).welcome()
    await client.close()


async def test_what_the_server_no_longer_has_is_an_error(peer: Peer):
    """A request that is gone at resume ends with the server's reason."""
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        peer.cut()
        gone = {"id": answer.id, "state": "gone", "why": "not_resumable"}
        await (await peer.socket()).welcome(requests=[gone], resumed="partial")
        with pytest.raises(ProtocolError, match="not_resumable"):
            await answer.end()


async def test_attach_reads_a_request_of_somebody_else(peer: Peer):
    """A request that is only read begins at offset 1; a refusal raises."""
    async with connected(peer) as (client, socket):
        id = client.new_id()
        attaching = asyncio.create_task(client.attach(id))
        assert (await socket.hear("attach"))["o"] == 0
        await socket.tell("attached", g=5, id=id, epoch=3, **{"from": 1}, head=2, state="ended")
        answer = await attaching
        await socket.delta("seen", 1, g=5)
        await socket.end("seen", 2, g=5)
        assert (await answer.end()).verified
        attaching = asyncio.create_task(client.attach(client.new_id()))
        refused = await socket.hear("attach")
        await socket.tell(
            "error", re="attach", id=refused["id"], code="not_resumable", message="nobody", retry=False
        )
        with pytest.raises(ProtocolError, match="not_resumable"):
            await attaching


async def test_a_message_larger_than_a_frame_is_not_sent(peer: Peer):
    """The server would close the socket over it, and all its answers with it."""
    async with connected(peer) as (client, socket):
        with pytest.raises(ProtocolError, match="too_large"):
            await client.send("x" * 262144)
        assert not socket.heard


async def test_a_send_that_nobody_waits_for_any_more_is_detached(peer: Peer):
    """Who gives up before `accepted` has no answer to read: it must not hold a window for ever."""
    async with connected(peer) as (client, socket):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.send("Hello")
        assert (await socket.hear("detach"))["id"] == (await socket.hear("send"))["id"]
        peer.cut()
        assert (await (await peer.socket()).welcome())["resume"]["requests"] == []


async def test_a_token_that_never_comes_is_asked_for_again(peer: Peer, monkeypatch: pytest.MonkeyPatch):
    """A function that hangs does not hang the client."""
    monkeypatch.setattr(client_link, "TOKEN_SECONDS_MAX", 0.05)
    asked: list[None] = []

    async def token() -> str:
        asked.append(None)
        await asyncio.sleep(60 if len(asked) == 1 else 0)
        return "ticket"

    client = Client(peer.url, token, backoff_seconds=BACKOFF_SECONDS)
    entering = asyncio.create_task(client.__aenter__())
    assert (await (await peer.socket()).welcome())["token"] == "ticket"
    await entering
    await client.close()


async def test_any_cut_gives_the_same_text(peer: Peer):
    """However a log is cut into deltas, repeated and interrupted, what was applied is the log's text."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    log = [chance.choice(["a", "é", "😀 ", "word ", "\n"]) for _ in range(60)]
    text = "".join(log)
    async with connected(peer) as (client, socket):
        answer = await ask(client, socket)
        ending = asyncio.create_task(answer.end())
        while not ending.done():
            o = answer._reading.applied
            while o < len(log) and chance.random() > 0.15:
                again = o > 0 and chance.random() < 0.3
                first = chance.randint(1, o) if again else o + 1
                last = chance.randint(first, o if again else min(len(log), first + 5))
                piece, before = "".join(log[first - 1 : last]), "".join(log[: first - 1])
                await socket.delta(piece, first, last, p=len(before))
                o = max(o, last)
            if o == len(log):
                await socket.end(text, o + 1)
                await ending
            if not ending.done():
                client._link._attempt = 0  # the backoff of the rounds before
                peer.cut()
                socket = await peer.socket()
                await socket.welcome(**listed(answer))
        assert (await ending).verified, f"seed {seed}"
        assert answer.text == text, f"seed {seed}"


def test_the_wait_is_full_jitter_under_a_ceiling_that_doubles(monkeypatch: pytest.MonkeyPatch):
    """From 0.5 s to 20 s at most; how much of it is chance."""
    link = Link(Settings("http://peer", "pk", "json", 0.5), Counters(), Client("http://peer", "pk"))
    monkeypatch.setattr(random, "uniform", lambda low, high: (low, high))
    ceilings = [link._jitter(attempt) for attempt in range(8)]
    assert ceilings == [(0, each) for each in (0.5, 1, 2, 4, 8, 16, 20, 20)]
    assert link._jitter(10_000) == (0, 20)
