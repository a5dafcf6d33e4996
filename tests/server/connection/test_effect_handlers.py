"""What one connection asks for: under its caller's rates, and with nothing left open behind it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from billing.api import Principal
from core.errors import Refused
from server.connection.effect_handlers import EffectHandlers
from server.protocol.codes import ErrorCode, refusal
from server.protocol.messages import Hello, Send
from server.reading.sources import OpenedRequest
from server.session import effects as fx
from server.session.events import ReadableRequest, SendAccepted

KEY = Principal("t1", "p1", "k1", "ann", frozenset({"chat"}), "bulk", None, False, "k1")


class Opened:
    """A source that knows whether it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        """See Source."""
        self.closed += 1


class Doors:
    """What operations ask, in order; every rate is met from the start on where `full`."""

    def __init__(self, full: bool = False) -> None:
        self.asked = list[str]()
        self.full = full
        self.edge = SimpleNamespace(rates=SimpleNamespace(ask=lambda _: self.rate("ask")))
        self.sends = self.cancels = self.readers = self

    def rate(self, name: str) -> None:
        """See Rates."""
        self.asked.append(f"rate {name}")
        if self.full:
            raise Refused(refusal(ErrorCode.RATE_LIMITED, name))

    async def take(self, _: Principal, send: Send) -> tuple[SendAccepted, Opened]:
        """See SendHandler, and CancelHandler."""
        self.asked.append("take")
        return SendAccepted(ReadableRequest(send.id, 1, 0, 0, "queued"), False, "bulk"), Opened()

    async def cancel(self, _: Principal, id: str) -> str:
        """See SendHandler, and CancelHandler."""
        self.asked.append(f"cancel {id}")
        return "running"

    async def reopen(self, who: Any, *_: object) -> Any:
        """See Readers."""
        return await self.open(who)

    async def open(self, who: Any, *_: object) -> Any:
        """See Door, and Readers."""
        if isinstance(who, Principal):
            return OpenedRequest(ReadableRequest("r", 1, 0, 0, "queued"), cast(Any, Opened()))
        return SimpleNamespace(record=None, sources={}, event="opened")

    async def operations(self) -> EffectHandlers:
        """Those of a connection whose caller is known."""
        operations = EffectHandlers(cast(Any, self), "")
        await operations.open(cast(Any, SimpleNamespace(principal=KEY)), Hello(1))
        return operations


async def test_what_is_asked_for_is_under_its_callers_rate():
    """A cancel that is a part of a send is none of its own, and has no answer."""
    doors = Doors()
    operations = await doors.operations()
    await operations.turn(Send("r"))
    await operations.attach(fx.StartAttach("r", None, 0))
    assert await operations.cancel(fx.StartCancel("r", answer=False)) is None
    answered = await operations.cancel(fx.StartCancel("r"))
    assert answered is not None
    assert (answered.id, answered.state) == ("r", "running")
    assert doors.asked == ["take", "rate ask", "cancel r", "rate ask", "cancel r"]


async def test_an_attach_over_its_rate_goes_no_further():
    """Nothing is opened."""
    doors = Doors(full=True)
    operations = await doors.operations()
    with pytest.raises(Refused, match="ask"):
        await operations.attach(fx.StartAttach("r", None, 0))
    assert doors.asked == ["rate ask"]
    assert operations.staged == {}


async def test_a_source_that_nobody_takes_is_closed():
    """One that another took the place of, those staged, and those that are read."""
    operations = await Doors().operations()
    attach = fx.StartAttach("r", None, 0)
    assert (await operations.attach(attach)).asked
    first = cast(Any, operations.staged["r"])
    assert not (await operations.reopen(fx.Reopen("r", 1, 0))).asked
    second = cast(Any, operations.staged["r"])
    read = Opened()
    operations.sources["s"] = cast(Any, read)
    assert (first.closed, second.closed, read.closed) == (1, 0, 0)
    operations.drop_staged()
    assert (first.closed, second.closed, read.closed, operations.staged) == (1, 1, 0, {})
    operations.close()
    assert (second.closed, read.closed, operations.sources) == (1, 1, {})
