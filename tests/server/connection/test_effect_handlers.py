"""What one connection asks for: at the use case that does it, answered with an event, nothing left open."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from billing.api import Principal
from core.errors import Refused
from core.tasks import TaskSet
from server.connection.effect_handlers import TASKS_MAX, EffectHandlers, UseCases
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import Hello, Send
from server.reading.sources import OpenedRequest
from server.session import effects as fx
from server.session import events as ev
from server.session.events import ReadableRequest, SendAccepted

KEY = Principal("t1", "p1", "k1", "ann", frozenset({"chat"}), "bulk", None, False, "k1")
OPENED = ev.Opened("s", "c", "", 0, False, (), 0, None)
ATTACH = fx.StartAttach("r", None, 0)


class StubSource:
    """A source that knows how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def listen(self, _: object) -> None:
        """See Source."""

    def close(self) -> None:
        """See Source."""
        self.closed += 1


@dataclass
class StubSocket:
    """A connection, and what its session heard. `follows`: it takes what is opened for it."""

    follows: bool
    heard: list[ev.Event] = field(default_factory=list[ev.Event])
    principal: Principal | None = None
    id: str = "c"
    opens: int = 0
    frees: int = 0
    handlers: EffectHandlers | None = None

    def feed(self, event: ev.Event) -> None:
        """See OpenSocket."""
        self.heard.append(event)
        if self.follows and self.handlers is not None and isinstance(event, ev.AttachAllowed | SendAccepted):
            self.handlers.start(fx.Follow("r"))

    def opened(self) -> None:
        """See SessionSocket."""
        self.opens += 1

    def take_more(self) -> None:
        """See SessionSocket."""
        self.frees += 1


class UseCasesInOrder:
    """What is asked of the use cases, in order; the rate is met from the start on where `full`."""

    def __init__(self, full: bool = False, follows: bool = False) -> None:
        self.asked = list[str]()
        self.full = full
        self.sources = list[StubSource]()
        self.problem: Exception | None = None
        self.work = TaskSet()
        stub: Any = self
        cancels: Any = SimpleNamespace(cancel=self.cancel)
        sessions: Any = SimpleNamespace(
            note=self.of_session("note"), confirm=self.of_session("confirm"), end=self.of_session("end")
        )
        cases = UseCases(stub, stub, cancels, stub, sessions, stub, self.work)
        self.socket = StubSocket(follows)
        self.handlers = self.socket.handlers = EffectHandlers(cases, cast(Any, self.socket), "token")

    def of_session(self, name: str) -> Any:
        """A method of SessionStore."""

        async def method(_: object, id: str = "") -> None:
            self.asked.append(f"{name} {id}".strip())

        return method

    def ask(self, _: Principal) -> None:
        """See CallRates."""
        self.asked.append("rate ask")
        if self.full:
            raise Refused(refusal(ErrorCode.RATE_LIMITED, "ask"))

    async def take(self, _: Principal, send: Send) -> tuple[SendAccepted, StubSource]:
        """See SendHandler."""
        self.asked.append("take")
        if self.problem is not None:
            raise self.problem
        return SendAccepted(ReadableRequest(send.id, 1, 0, 0, "queued"), False, "bulk"), self.source()

    async def cancel(self, _: Principal, id: str) -> str:
        """See CancelHandler."""
        self.asked.append(f"cancel {id}")
        return "running"

    async def reopen(self, *_: object) -> OpenedRequest:
        """See RequestReaders."""
        return OpenedRequest(ReadableRequest("r", 1, 0, 0, "queued"), cast(Any, self.source()))

    async def open(self, who: Any, *asked: object) -> Any:
        """See Handshake, and RequestReaders."""
        if isinstance(who, Principal):
            return await self.reopen()
        self.asked.append(f"hello {asked[1]}")
        who.principal = KEY
        return SimpleNamespace(record="record", sources={}, event=OPENED)

    async def leave(self, _: object, record: object) -> None:
        """See Handshake."""
        self.asked.append(f"leave {record}")

    def source(self) -> StubSource:
        """One that is opened."""
        self.sources.append(StubSource())
        return self.sources[-1]

    async def does(self, *effects: fx.AskingEffect) -> list[ev.Event]:
        """What the session hears of these, one after the other."""
        before = len(self.socket.heard)
        for effect in effects:
            self.handlers.start(effect)
            await self.done()
        return self.socket.heard[before:]

    async def done(self) -> None:
        """Nothing is under way."""
        tasks = self.handlers._tasks  # pyright: ignore[reportPrivateUsage]
        while running := tasks.running | self.work.running:
            await asyncio.wait(running)
        await asyncio.sleep(0)  # who is told that a task is done is told after it


async def opened(full: bool = False, follows: bool = False) -> UseCasesInOrder:
    """One connection whose caller is known."""
    gateway = UseCasesInOrder(full, follows)
    assert await gateway.does(fx.OpenSession(Hello(1))) == [OPENED]
    assert gateway.asked == ["hello token"]
    assert (gateway.socket.opens, gateway.handlers.record) == (1, "record")
    gateway.asked.clear()
    return gateway


async def test_what_is_asked_for_is_under_its_callers_rate():
    """A cancel that is a part of a send is none of its own, and has no answer. Sends have their own rate."""
    gateway = await opened()
    heard = await gateway.does(fx.StartSend(Send("r")), ATTACH, fx.StartCancel("r", answer=False))
    assert [type(event) for event in heard] == [SendAccepted, ev.AttachAllowed]
    assert await gateway.does(fx.StartCancel("r")) == [ev.CancelAnswered("r", "running")]
    assert gateway.asked == ["take", "rate ask", "cancel r", "rate ask", "cancel r"]


async def test_an_attach_over_its_rate_goes_no_further():
    """Nothing is opened; nor is a cancel done."""
    gateway = await opened(full=True)
    attached, cancelled = await gateway.does(ATTACH, fx.StartCancel("r"))
    assert isinstance(attached, ev.AttachRefused)
    assert isinstance(cancelled, ev.CancelRefused)
    assert (gateway.asked, gateway.sources) == (["rate ask", "rate ask"], [])


async def test_a_source_that_nobody_takes_is_closed():
    """Where the session does not want it after all; what it reads is closed with the connection."""
    gateway = await opened()
    await gateway.does(ATTACH, fx.Reopen("r", 1, 0))
    assert [each.closed for each in gateway.sources] == [1, 1]
    gateway = await opened(follows=True)
    await gateway.does(ATTACH)
    assert [each.closed for each in gateway.sources] == [0]
    await gateway.does(fx.Reopen("r", 1, 0))
    assert [each.closed for each in gateway.sources] == [1, 0], "another took its place"
    await gateway.handlers.close()
    assert [each.closed for each in gateway.sources] == [1, 1]


async def test_a_session_remembers_what_it_reads():
    """Not a send that it does not follow."""
    for follows, notes in ((True, ["note r"]), (False, [])):
        gateway = await opened(follows=follows)
        await gateway.does(fx.StartSend(Send("r")))
        assert gateway.asked == ["take", *notes]
        assert gateway.handlers.sends_started == 1


@pytest.mark.parametrize("problem", [OSError("away"), ValueError("ours")])
async def test_a_fault_of_ours_is_an_internal_that_may_be_tried_again(problem: Exception):
    """Whether a store is away or we are wrong; what it raised is not told."""
    gateway = await opened()
    gateway.problem = problem
    (heard,) = await gateway.does(fx.StartSend(Send("r")))
    assert isinstance(heard, ev.SendRefused)
    assert (heard.id, heard.refusal.code, heard.refusal.after_ms) == ("r", "internal", 1000)
    assert str(problem) not in heard.refusal.message


async def test_no_more_is_taken_while_a_session_opens_or_much_is_not_done():
    """Whatever is done says that more may be."""
    gateway = UseCasesInOrder()
    gateway.handlers.start(fx.OpenSession(Hello(1)))
    assert gateway.handlers.full
    await gateway.done()
    for _ in range(TASKS_MAX):
        assert not gateway.handlers.full
        gateway.handlers.start(fx.StartCancel("r"))
    assert gateway.handlers.full
    await gateway.done()
    assert (gateway.handlers.full, gateway.socket.frees) == (False, 1 + TASKS_MAX)


async def test_a_session_that_ended_is_kept_by_nobody():
    """`bye`: the record is gone, and leaving keeps none. A connection that is lost keeps it."""
    gateway = await opened()
    await gateway.does(fx.ConfirmResumeToken(), fx.EndSession())
    await gateway.handlers.close()
    assert gateway.asked == ["confirm", "end", "leave None"]
    gateway = await opened()
    await gateway.handlers.close()
    assert gateway.asked == ["leave record"]
