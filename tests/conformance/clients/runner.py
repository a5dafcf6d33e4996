"""Plays one case of the clients' suite: it is the server, by hand (README.md says what each step does)."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from time import monotonic
from typing import Any, cast

from tests.conformance.clients import steps as s
from tests.conformance.clients.subjects import Facts, Subject
from tests.conformance.values import BadCase, Names
from tests.support.patience import patience, pause, wait_until
from tests.support.scripted_peer import (
    Frame,
    Peer,
    Socket,
    UpgradeRefusal,
    accepted_fields,
    end_fields,
    welcome_fields,
)

ANYTIME = frozenset({"ack", "pong"})  # said when the client sees fit; a case names them where it cares
LOGGED = frozenset({"delta", "event", "snap", "retract", "end"})
DEFAULTS: dict[str, Callable[[], Frame]] = {
    "accepted": accepted_fields,
    "attached": lambda: {"epoch": 1, "from": 1, "head": 1, "state": "running"},
    "error": lambda: {"message": "no", "retry": False},
    "retract": lambda: {"category": "category", "policy": "policy"},
    "ping": lambda: {"ts": 1},
}
ACTS = (s.Greet, s.SendStep, s.SendAll, s.CloseStep, s.CutStep, s.Do)
LISTED: Frame = {"g": 1, "epoch": 1, "from": 1, "head": 1, "state": "running"}


class Failed(AssertionError):  # noqa: N818  (the verdict of a case)
    """The client did not do what the case says."""


class ClientLine:
    """One connection of the client, and what was sent on it."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.sent: dict[int, int] = {}
        self.acked: dict[int, int] = {}
        self._audited = 0

    async def tell(self, frame: Frame) -> None:
        """Send, and remember how far each `g` was sent."""
        if frame["t"] in LOGGED and ("o" in frame or "b" in frame):
            self.sent[frame["g"]] = frame["b"] if "b" in frame else frame["o"]
        await self.socket.tell(**frame)

    def audit(self) -> None:
        """Take note of every acknowledgement. Raises Failed where one goes beyond what was sent."""
        said = self.socket.log[self._audited :]
        self._audited += len(said)
        for g, o in (pair for frame in said for pair in frame.get("a", [])):
            if o > self.sent.get(g, 0):
                raise Failed(f"offset {o} of g {g} was acknowledged, {self.sent.get(g, 0)} was sent here")
            self.acked[g] = max(o, self.acked.get(g, 0))


class ClientPlay:
    """One case under way."""

    def __init__(self, case: s.ClientCase, peer: Peer, subject: Subject) -> None:
        self._peer = peer
        self._subject = subject
        self._names = Names(each=case.each)
        self._lines: dict[str, ClientLine] = {}
        self._last = ""
        self._acted = monotonic()  # when the server or the application last began to do something
        self._stamps = count(1)  # of pings

    async def do(self, step: s.ClientStep) -> None:  # noqa: C901  (one arm an action)
        """Do one step. Raises Failed."""
        if isinstance(step, ACTS):
            self._acted = monotonic()
        match step:
            case s.OpenStep() | s.ConnectStep():
                await self._connect(step)
            case s.Greet():
                await self._welcome(self._line(step), step.greet)
            case s.Refuse():
                self._peer.refusals.append(
                    UpgradeRefusal(self._names.value(step.refuse), step.body, step.headers)
                )
            case s.SendStep():
                await self._send(step, step.send, step.text)
            case s.SendAll():
                for each in self._names.value(step.send_all):
                    await self._send(step, each)
            case s.ExpectStep():
                await self._expect(step)
            case s.ExpectAcked():
                await self._expect_acked(step)
            case s.QuietStep():
                await self._quiet(step)
            case s.CloseStep():
                await self._line(step).socket.close(self._names.value(step.close), step.reason)
            case s.CutStep():
                self._peer.cut()
            case s.ExpectCloseStep():
                await self._lines[step.expect_close].socket.closed.wait()
            case s.ExpectOpen():
                if self._lines[step.expect_open].socket.closed.is_set():
                    raise Failed(f"{step.expect_open} is closed")
            case s.Do():
                await self._act(step)
            case _:
                await self._look(step)

    async def finish(self) -> None:
        """What holds at the end of every case: nothing was said or opened that nobody asked for."""
        for name, line in self._lines.items():
            line.audit()
            if rest := [frame for frame in line.socket.heard if frame["t"] not in ANYTIME]:
                raise Failed(f"on {name} the client also said {rest}")
        if not self._peer.sockets.empty():
            raise Failed("the client opened a connection that nobody expected")

    def _line(self, step: s.ClientStep) -> ClientLine:
        return self._lines[step.connection or self._last]

    # Connections

    async def _connect(self, step: s.OpenStep | s.ConnectStep) -> None:
        socket = await self._peer.socket()
        name = step.open if isinstance(step, s.OpenStep) else step.connect
        line = self._lines[name] = ClientLine(socket)
        self._last = name
        self._match(step.hello, await socket.hear("hello"))
        self._not_before(step.not_before_ms)
        if isinstance(step, s.OpenStep):
            self._acted = monotonic()
            await self._welcome(line, step.welcome)
            await self._see(step, {"state": "open"}, self._subject.state)
        elif socket.path != step.path:
            raise Failed(f"the client went to {socket.path}")

    async def _welcome(self, line: ClientLine, written: dict[str, Any]) -> None:
        fields = self._names.value(written)
        listed = [
            LISTED | each if each.get("state") != "gone" else each for each in fields.get("requests", [])
        ]
        for each in listed:
            line.sent[each.get("g", 0)] = each.get("from", 1) - 1
        await line.tell({"t": "welcome"} | welcome_fields() | fields | {"requests": listed})

    # Messages

    async def _send(self, step: s.ClientStep, written: Any, text: Any = "") -> None:
        frame: Frame = self._names.value(written)
        frame = {name: each for name, each in frame.items() if each is not None}
        frame = DEFAULTS.get(frame["t"], dict)() | frame
        if frame["t"] == "delta":
            last = frame.get("b", frame["a"])
            frame = {"b": last, "p": 0, "i": last} | frame
        if frame["t"] == "end":
            frame = end_fields(self._names.text(text)) | frame
        line = self._line(step)
        if frame["t"] == "attached":
            line.sent[frame["g"]] = frame["from"] - 1
        await line.tell(frame)

    async def _expect(self, step: s.ExpectStep) -> None:
        pattern = step.expect.get("$only", step.expect)
        self._match(step.expect, await self._line(step).socket.hear(pattern["t"]))
        self._not_before(step.not_before_ms)

    async def _expect_acked(self, step: s.ExpectAcked) -> None:
        line, wanted = self._line(step), self._names.value(step.expect_acked)

        def acked() -> bool:
            line.audit()
            return line.acked == wanted

        await _patiently(acked, step, lambda: f"acknowledged is {line.acked}")

    async def _quiet(self, step: s.QuietStep) -> None:
        """After a ping is answered, everything that was sent before has had its effect."""
        line = self._line(step)
        await pause(step.for_ms / 1000)
        ts = next(self._stamps)
        await line.tell({"t": "ping", "ts": ts})
        while (await line.socket.hear("pong"))["ts"] != ts:
            pass
        rest = [frame for frame in line.socket.heard if self._speaks(frame, step.quiet)]
        if rest:
            raise Failed(f"the client said {rest}")

    def _speaks(self, frame: Frame, types: bool | list[str]) -> bool:
        return frame["t"] in types if isinstance(types, list) else frame["t"] not in ANYTIME

    def _not_before(self, milliseconds: int) -> None:
        """Since our own last act: what the client did after it may have been seen late."""
        passed = (monotonic() - self._acted) * 1000
        if passed < milliseconds:
            raise Failed(f"it came after {passed:.0f} ms, {milliseconds} at the earliest")

    def _match(self, pattern: Mapping[str, Any], found: Frame) -> None:
        if problem := self._names.mismatch(dict(pattern), found):
            raise Failed(f"{problem}\nin {found}")

    # The application

    async def _act(self, step: s.Do) -> None:
        written = cast(Facts, self._names.value(step.do))
        if len(written) != 1:
            raise BadCase(f"one action, not {list(written)}")
        action, value = next(iter(written.items()))
        match action, value:
            case "send", {"id": id}:
                fields = cast(Facts, value)
                message = {name: each for name, each in fields.items() if name not in ("id", "unread")}
                await self._subject.send(id, message, bool(fields.get("unread")))
            case "attach", {"id": id}:
                await self._subject.attach(id, bool(cast(Facts, value).get("unread")))
            case "token", str():
                await self._subject.set_token(value)
            case (("cancel" | "detach" | "read"), str()):
                await self._subject.call(action, value)
            case (("close" | "online" | "show" | "hide"), True):
                await self._subject.call(action)
            case _:
                raise BadCase(f"no application does {step.do}")

    async def _look(self, step: s.ClientStep) -> None:
        match step:
            case s.ExpectAnswer():
                id = self._names.text(step.answer)
                await self._see(step, step.is_, lambda: self._subject.answer(id))
            case s.ExpectState():
                await self._see(step, step.state, self._subject.state)
            case s.ExpectCounters():
                await self._see(step, step.counters, self._subject.counters)
            case _:
                raise BadCase(f"{step} is not played")

    async def _see(
        self, step: s.ClientStep, pattern: dict[str, Any], look: Callable[[], Awaitable[Facts | None]]
    ) -> None:
        problem: str | None = None

        async def seen() -> bool:
            nonlocal problem
            problem = self._names.mismatch(pattern, await look())
            return problem is None

        await _patiently(seen, step, lambda: f"{problem}")


async def play(case: s.ClientCase, peer: Peer, subject: Subject) -> None:
    """Play a case. Raises Failed with the step."""
    playing = ClientPlay(case, peer, subject)
    await subject.start(peer.url, case.client)
    try:
        for number, step in enumerate(case.steps, start=1):
            try:
                async with patience(step.within_ms / 1000):
                    await playing.do(step)
            except (Failed, AssertionError, TimeoutError) as error:
                problem = "nothing came in time" if isinstance(error, TimeoutError) else str(error)
                raise Failed(f"step {number}, {step}\n{problem}\n({case.why})") from None
        await playing.finish()
    finally:
        peer.refusals.clear()
        await subject.stop()


async def _patiently(true: Callable[[], Any], step: s.ClientStep, problem: Callable[[], str]) -> None:
    try:
        await wait_until(true, seconds=step.within_ms / 1000)
    except (TimeoutError, AssertionError):
        raise Failed(problem()) from None
