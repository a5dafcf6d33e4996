"""Plays events into a session machine and expects effects: `play >> event << effect << effect`."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

import random
from collections import deque
from collections.abc import Generator
from typing import ClassVar, TypeVar

import msgspec
import pytest

from engine.api import Entry, EntryKind
from server.protocol import messages as m
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import SessionLimits
from server.session.machine import Session

LIMITS = SessionLimits(
    hello_seconds=10.0,
    heartbeat_interval=25.0,
    heartbeat_timeout=10.0,
    events=256,
    bytes=32 * 1024,
    connection_bytes=128 * 1024,
    frame_bytes=256 * 1024,
    requests=16,
    bad_messages=10,
    delta_interval=0.02,
)
END = msgspec.json.encode(
    m.EndPayload("stop", m.EndUsage(1, 0, 2, 3), m.Cost(5, "usd"), m.Timing(1, 2, 3), "hash")
)

Message = TypeVar("Message")


class Playbook:
    """One session, a clock that moves when told to, and the effects nobody has expected yet."""

    of_this_test: ClassVar[list["Playbook"]] = []

    def __init__(self, limits: SessionLimits = LIMITS) -> None:
        self.of_this_test.append(self)
        self.now = 0.0
        self.session = Session(limits, 0.0, random.Random(1))
        self.effects: deque[fx.Effect] = deque()
        self.measured: list[fx.Measure] = []

    def __rshift__(self, event: ev.Event | m.ClientMessage) -> "Playbook":
        """An event happens; a client's message is a frame received."""
        happened = ev.FrameReceived(event) if isinstance(event, m.ClientMessage) else event
        for effect in self.session.handle(happened, self.now):
            if isinstance(effect, fx.Measure):
                self.measured.append(effect)
            else:
                self.effects.append(effect)
        return self

    def __lshift__(self, expected: fx.Effect | m.ServerMessage) -> "Playbook":
        """The next effect is this; a message is one emitted."""
        wanted = fx.Emit(expected) if isinstance(expected, m.ServerMessage) else expected
        assert self.effects, f"nothing follows, not {wanted}"
        found = self.effects.popleft()
        assert found == wanted, f"{found} instead of {wanted}"
        return self

    def at(self, seconds: float) -> "Playbook":
        """The clock moves on."""
        assert seconds >= self.now
        self.now = seconds
        return self

    def fire(self) -> "Playbook":
        """The clock moves to the machine's deadline, and the timer fires."""
        due = self.session.deadline()
        assert due is not None, "the machine waits for nothing"
        return self.at(max(self.now, due)) >> ev.TimerFired()

    def message(self, kind: type[Message]) -> Message:
        """The next effect is a message of this type; the message."""
        assert self.effects, f"nothing follows, not {kind.__name__}"
        found = self.effects.popleft()
        assert isinstance(found, fx.Emit), found
        assert isinstance(found.message, kind), found
        return found.message

    def nothing(self) -> "Playbook":
        """No effect is left."""
        assert not self.effects, list(self.effects)
        return self


@pytest.fixture(autouse=True)
def all_effects_are_expected() -> Generator[None]:
    """A play has no end that nobody looked at: what a test leaves must be nothing. For conftest.py."""
    Playbook.of_this_test.clear()
    yield
    for play in Playbook.of_this_test:
        play.nothing()


def opened(*requests: ev.ReadableRequest | ev.NotResumed, resumed: bool = False) -> ev.Opened:
    """A hello was accepted."""
    return ev.Opened("session", "connection", "token", 1000, resumed, requests, 7)


def open_session(
    *requests: ev.ReadableRequest | ev.NotResumed, limits: SessionLimits = LIMITS, **hello: object
) -> Playbook:
    """A session after its welcome; what follows the welcome is still to be expected."""
    play = Playbook(limits)
    said = msgspec.convert({"t": "hello", "v": 1, "token": "key", **hello}, m.Hello)
    play >> said << fx.OpenSession(said)
    play >> opened(*requests)
    play.message(m.Welcome)
    return play


def reading_one(head: int = 0, limits: SessionLimits = LIMITS, **hello: object) -> Playbook:
    """A session whose request `r` was accepted and is followed; what comes then is still to be expected."""
    play = open_session(limits=limits, **hello)
    play >> m.Send("r", content="hi") << fx.ConfirmResumeToken() << fx.StartSend(m.Send("r", content="hi"))
    play >> ev.SendAccepted(ev.ReadableRequest("r", 1, 0, head, "queued"), False, "interactive")
    assert play.message(m.Accepted).g == 1
    return play << fx.Follow("r")


def text(o: int, x: str = "a", p: int | None = None, i: int | None = None) -> Entry:
    """A text entry; by default each earlier one had one character and one token."""
    return Entry(o, EntryKind.TEXT, x, o - 1 if p is None else p, 0, o if i is None else i)


def texts(a: int, b: int, x: str = "a") -> list[Entry]:
    """Text entries a to b, each `x`."""
    return [text(o, x, (o - 1) * len(x)) for o in range(a, b + 1)]


def end(o: int) -> Entry:
    """The last entry."""
    return Entry(o, EntryKind.END, v=END)


def delta(a: int, b: int, x: str, p: int | None = None) -> m.Delta:
    """The delta of `texts(a, b)`."""
    return m.Delta(1, a, b, a - 1 if p is None else p, x, b)
