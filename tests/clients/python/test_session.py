"""What a session of the Python client says over its connection, and when. The connection is a list."""

import asyncio
from typing import Any

import pytest

from core.clock import now_ms
from core.ids import uuid7_ms
from parley_client import ProtocolError, SignedOut
from parley_client.client import ACK_SECONDS, Client
from parley_client.connection import GatewayClosed, Stopped
from tests.clients.python.frames import delta, end
from tests.server.virtual.loop import EPOCH_NS, passed, passing, played

LIMITS = {"events": 10, "bytes": 200, "connection_bytes": 500, "frame": 1000}
NOW_MS = EPOCH_NS // 1_000_000 + 1_000_000


class StubLink:
    """What was told, and when; tokens come from the list, an error is raised."""

    def __init__(self) -> None:
        self.told = list[dict[str, Any]]()
        self.at = list[float]()
        self.tokens = list[str | Exception]()
        self.asked = list[float]()
        self.connected = True
        self.closed = False

    async def tell(self, frame: dict[str, Any]) -> None:
        """As the real one."""
        self.told.append(frame)
        self.at.append(round(passed(), 3))

    async def token(self) -> str:
        """As the real one."""
        self.asked.append(round(passed(), 3))
        token = self.tokens.pop(0) if self.tokens else "late"
        if isinstance(token, Exception):
            raise token
        return token

    async def run(self) -> None:
        """Until it is cancelled."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """As the real one."""
        self.closed = True

    def take(self) -> list[dict[str, Any]]:
        """What was told since the last time."""
        told, self.told = self.told, []
        return told


def client_on(link: StubLink, **options: Any) -> Client:
    """A client whose connection is this."""
    client = Client("http://gw", "pk", **options)
    client._link = link  # type: ignore[assignment]
    return client


def welcome(**facts: Any) -> dict[str, Any]:
    """A connection that took over."""
    return {"t": "welcome", "resume_token": "r", "now": NOW_MS, "limits": LIMITS, "requests": []} | facts


def test_a_hello_says_who_and_what_for():
    """Version, agent, caps, window; what is to be resumed where there is something."""

    async def day() -> None:
        link = StubLink()
        client = client_on(link)
        first = {"t": "hello", "v": 1, "token": "tk", "agent": {"name": "parley-python", "version": "1"}}
        assert client.hello("tk") == first | {"caps": ["batch"]}
        plain = client_on(link, batch=False, trace=True, window={"events": 3})
        assert plain.hello("tk") == first | {"caps": ["trace"], "window": {"events": 3}}
        client._readings.add("a", {"t": "send", "id": "a"})
        asked = {"id": "a", "epoch": None, "o": 0}
        assert client.hello("tk")["resume"] == {"requests": [asked]}
        await client.welcomed(welcome(), client.hello("tk"))
        assert client.hello("tk")["resume"] == {"requests": [asked], "token": "r"}
        assert (link.take(), client.counters.resent) == ([{"t": "send", "id": "a"}], 1)
        await client.welcomed(welcome(), {})
        assert client.counters.resent == 1  # nobody asked for it

    played(day())


@pytest.mark.parametrize(
    ("window", "events", "bytes"),
    [
        (None, 10, 200),
        ({"events": 4}, 4, 200),
        ({"events": 11, "bytes": 201}, 10, 200),
        ({"bytes": 50}, 10, 50),
    ],
)
def test_the_smaller_window_holds(window: dict[str, int] | None, events: int, bytes: int):
    """The server's or one's own; the connection's is the server's."""

    async def day() -> None:
        client = client_on(StubLink(), window=window)
        await client.welcomed(welcome(), {})
        acks = client._readings.acks
        assert (acks._events, acks._bytes, acks._connection_bytes) == (events, bytes, 500)

    played(day())


def test_ids_are_made_from_the_servers_clock(monkeypatch: pytest.MonkeyPatch):
    """Whatever this machine's says."""

    async def day() -> None:
        for clock in ("now_ms", "_steady_ms"):
            monkeypatch.setattr(f"parley_client.ids.{clock}", now_ms)  # the virtual loop's
        client = client_on(StubLink())
        assert uuid7_ms(client.new_id()) == NOW_MS
        await client.welcomed(welcome(now=NOW_MS + 86_400_000), {})
        assert uuid7_ms(client.new_id()) == NOW_MS + 86_400_000

    played(day())


def test_a_send_is_as_it_was_given():
    """Fields that were not are absent; a message that is too long is refused before it is sent."""

    async def day() -> None:
        link = StubLink()
        client = client_on(link)
        await client.welcomed(welcome(limits=LIMITS | {"frame": 200}), {})
        sending = asyncio.create_task(client.send("hi", model="m", options={"seed": 0}, id="a"))
        await passing(1)
        (sent,) = link.take()
        assert sent == {"t": "send", "id": "a", "content": "hi", "model": "m", "options": {"seed": 0}}
        await client.received({"t": "accepted", "id": "a", "g": 1, "epoch": 1})
        answer = await sending
        again = asyncio.create_task(client.send("hi", id="a"))
        await passing(1)
        assert await again is answer
        assert link.take() == [{"t": "send", "id": "a", "content": "hi"}]
        assert await client.attach("a") is answer
        assert link.take() == []
        full = {"t": "send", "id": "b", "content": ""}
        room = 200 - len('{"t":"send","id":"b","content":""}')
        for extra, taken in ((0, True), (1, False)):
            trying = asyncio.create_task(client.send("x" * (room + extra), id="b"))
            await passing(1)
            assert (link.take() == [full | {"content": "x" * room}]) is taken
            if taken:
                trying.cancel()
                await asyncio.gather(trying, return_exceptions=True)
                await passing(1)
                assert link.take() == [{"t": "detach", "id": "b"}]
                continue
            with pytest.raises(ProtocolError, match="at most 200 bytes") as refused:
                await trying
            assert (refused.value.code, refused.value.limit) == ("too_large", 200)

    played(day())


def test_what_is_read_is_acknowledged_soon():
    """Within a fifth of a second, at once where half a window is full; a ping's pong carries it, too."""

    async def day() -> None:
        link = StubLink()
        client = client_on(link)
        client._spawn(client._acknowledge())
        await client.welcomed(welcome(), {})
        attaching = asyncio.create_task(client.attach("a"))
        await passing(1)
        assert link.take() == [{"t": "attach", "id": "a", "o": 0}]
        await client.received({"t": "attached", "id": "a", "g": 1, "epoch": 1})
        answer = await attaching
        for number, text in ((1, "x"), (2, "y")):
            await client.received(delta(number, number, text, number - 1))
        events = answer.events()
        began = passed()
        await anext(events)
        assert link.told == []
        await passing(ACK_SECONDS - 0.01)
        await anext(events)
        assert link.told == []
        await passing(1)
        assert link.take() == [{"t": "ack", "a": [(1, 2)]}]
        assert link.at[-1] == pytest.approx(began + 0.2)
        await client.received(delta(3, 7, "z", 2))
        began = passed()
        await anext(events)
        await passing(0)
        await passing(0.001)
        assert (link.take(), link.at[-1]) == ([{"t": "ack", "a": [(1, 7)]}], round(began, 3))
        await client.received(delta(8, 8, "!", 3))
        await anext(events)
        await client.received({"t": "ping", "ts": 5})
        assert link.take() == [{"t": "pong", "ts": 5, "a": [(1, 8)]}]
        await passing(1)
        assert link.take() == []
        await client.received(end(9, "xyz!"))
        await anext(events)
        await client.close()
        assert link.take() == [{"t": "ack", "a": [(1, 9)]}, {"t": "bye"}]
        assert link.closed

    played(day())


def test_an_attach_that_is_refused_is_said_again_when_told():
    """Not sooner; nor where a new connection settled it. What is not known is passed over."""

    async def day() -> None:
        link = StubLink()
        client = client_on(link)
        await client.welcomed(welcome(), {})
        attaching = asyncio.create_task(client.attach("a"))
        await passing(1)
        link.take()
        refused = {"t": "error", "id": "a", "re": "attach", "code": "c", "message": "m", "retry": True}
        await client.received(refused | {"after_ms": 3000})
        await passing(2.9)
        assert link.told == []
        await passing(0.2)
        assert link.take() == [{"t": "attach", "id": "a", "o": 0}]
        await client.received({"t": "what is this"})
        await client.received(refused | {"retry": False})
        with pytest.raises(ProtocolError):
            await attaching
        assert client._answers == {}

    played(day())


def test_cancelling_is_said_and_remembered():
    """A new connection hears it again; also of a request that somebody else sent."""

    async def day() -> None:
        link = StubLink()
        client = client_on(link)
        client._readings.add("a", {"t": "send", "id": "a"})
        for id in ("a", "b"):
            await client.cancel(id)
        assert link.take() == [{"t": "cancel", "id": "a"}, {"t": "cancel", "id": "b"}]
        await client.welcomed(welcome(), {})
        assert link.take() == [{"t": "send", "id": "a"}, {"t": "cancel", "id": "a"}]

    played(day())


class TokenLink(StubLink):
    """Whose owner is asked for a fresh token, with so much time left."""

    async def plays(self, *tokens: str | Exception, seconds: float = 8, welcomes_after: float = 0) -> None:
        """Ask for one."""
        self.tokens = list(tokens)
        client = client_on(self)
        await client.welcomed(welcome(), {})
        await client.received({"t": "auth_required", "expires_in_ms": int(seconds * 1000)})
        if welcomes_after:
            await passing(welcomes_after)
            await client.welcomed(welcome(), {})
        await passing(100)
        for task in client._tasks:
            task.cancel()


def test_a_fresh_token_is_shown_before_the_old_one_ends(monkeypatch: pytest.MonkeyPatch):
    """Tried again as long as there is time: after a quarter of what is left, five seconds at most. Not where
    the user is signed out, a new connection took over, or none holds."""

    async def day() -> None:
        away = GatewayClosed(1006, "no token")
        link = TokenLink()
        await link.plays("fresh")
        assert (link.told, link.asked) == ([{"t": "auth", "token": "fresh"}], [0])
        link = TokenLink()
        await link.plays(away, away, "fresh")
        assert (link.told[-1], [round(each - 100, 3) for each in link.asked]) == (
            {"t": "auth", "token": "fresh"},
            [0, 2.0, 3.5],
        )
        link = TokenLink()
        began = passed()
        await link.plays(*[away] * 9, seconds=80)
        waits = [round(b - a, 3) for a, b in zip(link.asked, link.asked[1:], strict=False)]
        assert (waits[:3], link.asked[0]) == ([5.0] * 3, began)
        link = TokenLink()
        await link.plays(*[away] * 500)
        assert link.told == []
        assert 7.75 <= link.asked[-1] - link.asked[0] < 8
        assert len(link.asked) < 20  # however little time is left, whoever makes tokens is not stormed
        link = TokenLink()
        await link.plays(Stopped("unauthorized", "out"))
        assert (link.told, len(link.asked)) == ([], 1)
        link = TokenLink()
        await link.plays(away, welcomes_after=1)
        assert (link.told, len(link.asked)) == ([], 1)
        link = TokenLink()
        link.connected = False
        await link.plays("fresh")
        assert (link.told, link.asked) == ([], [])

    monkeypatch.setattr("random.uniform", lambda _low, high: high)
    played(day())


@pytest.mark.parametrize(
    ("error", "code"),
    [(Stopped("forbidden", "no"), "forbidden"), (RuntimeError("bug"), "internal"), (None, "closed")],
)
def test_a_client_that_stops_says_why(error: Exception | None, code: str):
    """To whoever enters, sends or reads; the first reason stays."""

    class Broken(StubLink):
        async def run(self) -> None:
            await passing(1)
            if error is not None:
                raise error
            await super().run()

    async def day() -> None:
        client = client_on(Broken())
        client._readings.add("a", None)
        reading = client._readings.get("a")
        assert reading is not None
        if error is None:
            client._opened.set()
            async with client:
                await passing(2)
        else:
            with pytest.raises(ProtocolError):
                await client.__aenter__()
        assert client.stopped is not None
        assert (client.stopped.code, reading.error is not None) == (code, True)
        for call in (client.send("hi"), client.attach("b")):
            with pytest.raises(ProtocolError) as raised:
                await call
            assert raised.value is client.stopped

    played(day())


def test_signed_out_has_a_code_of_its_own():
    """That of a key that does not work, where the application names no other."""
    assert (SignedOut().code, SignedOut("m", "c").code, str(SignedOut("m"))) == ("unauthorized", "c", "m")
