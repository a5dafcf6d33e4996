"""The real Python client and real session machines, joined by a network that cuts, delays and forgets.

Only sockets and the clock are played: client.py, its link, backoff and handover run as they are. After every
step each answer shows a prefix of its log; left in peace, every answer ends with the right hash.
"""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import parley_client.connection
from engine.api import EntryKind, text_hash
from parley_client import Client, Event, ProtocolError, Reset, Text
from server.protocol.codes import CloseCode
from server.session import events as ev
from tests.server.simulation.application import ApplicationReader, follows
from tests.server.simulation.gateway import SimulatedConnection
from tests.server.simulation.line import Line, SimulatedLoop
from tests.server.simulation.profile import PROFILE
from tests.server.simulation.world import REQUESTS_MAX, SimulatedWorld, limits_of, picks

ROUNDS_MAX = 150


class ClientModel(SimulatedWorld):
    """One client; as many connections as it opens."""

    # Beginning and end

    @initialize(
        window=st.sampled_from([None, {"events": 1}, {"events": 3, "bytes": 90}]),
        events=st.sampled_from([1, 4, 8, 256]),
        size=st.sampled_from([64, 200, 32 * 1024]),
        connection=st.sampled_from([100, 300, 128 * 1024]),
        batch=st.booleans(),
        asked=st.integers(0, REQUESTS_MAX),
    )
    def begin(
        self, window: dict[str, int] | None, events: int, size: int, connection: int, batch: bool, asked: int
    ) -> None:
        """A client that connects, and perhaps has asked already and is answered."""
        self.loop = SimulatedLoop()
        self.begin_world(limits_of(events, size, connection, hello_seconds=10_000.0))
        self.lines: list[Line] = []
        self.readers: list[ApplicationReader] = []
        self.unreachable = self.tampered = False
        self.dial = parley_client.connection.connect
        parley_client.connection.connect = self._connect  # type: ignore[assignment]
        self.client = Client("http://gateway", "key", window=window, batch=batch)
        self.entering = self.start(self.client.__aenter__())
        for _ in range(asked):
            self.ask()
        if asked:
            self.settle_down()

    def teardown(self) -> None:
        """At last all requests end, and every answer is read to its end."""
        if not hasattr(self, "client"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.end_all()
                self.settle_down()
                assert not self.client.counters.mismatched
        finally:
            parley_client.connection.connect = self.dial
            self._stop()

    def _stop(self) -> None:
        closing = self.start(self.client.close())
        for _ in range(4):
            self.loop.now += 5.0
            self.loop.settle()
        readers = [each for reader in self.readers for each in (reader.opening, reader.reading) if each]
        self.loop.finish(closing, self.entering, *readers)

    async def _connect(self, url: str, **_options: Any) -> Any:
        if self.unreachable:
            raise OSError("no gateway")
        line = Line(self.open_connection())
        self.trace(f"{line.connection.name} is dialled")
        self.lines.append(line)
        return line.socket

    # The application

    @precondition(lambda self: hasattr(self, "readers") and len(self.readers) < REQUESTS_MAX)
    @rule()
    def ask(self) -> None:
        """Send a turn."""
        id = f"r{len(self.readers) + 1}"
        self.readers.append(ApplicationReader(id, self.start(self.client.send("hi", id=id))))

    @precondition(lambda self: self._open())
    @rule(pick=picks, events=st.integers(1, 4))
    def read(self, pick: int, events: int) -> None:
        """The application asks an answer for more."""
        for _ in range(events):
            if self._open():
                self._read(self._open()[pick % len(self._open())])

    @precondition(lambda self: self._open())
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        """The application asks to stop."""
        self.start(self.client.cancel(self._open()[pick % len(self._open())].id))

    @precondition(lambda self: self._open())
    @rule(pick=picks)
    def detach(self, pick: int) -> None:
        """The application stops reading."""
        reader = self._open()[pick % len(self._open())]
        if reader.answer is not None and reader.reading is None:
            self.start(reader.answer.detach())
            reader.detached = True

    @precondition(lambda self: any(each.detached for each in self.readers))
    @rule(pick=picks)
    def attach(self, pick: int) -> None:
        """The application reads again, from the start."""
        detached = [each for each in self.readers if each.detached]
        reader = detached[pick % len(detached)]
        self.readers[self.readers.index(reader)] = ApplicationReader(
            reader.id, self.start(self.client.attach(reader.id))
        )

    # The network

    @precondition(lambda self: self.lines)
    @rule(pick=picks, frames=st.integers(1, 5))
    def deliver_to_server(self, pick: int, frames: int) -> None:
        """The next frames of the client arrive."""
        for _ in range(frames):
            self._to_server(self.lines[pick % len(self.lines)])

    @precondition(lambda self: self.lines)
    @rule(pick=picks, frames=st.integers(1, 6))
    def deliver_to_client(self, pick: int, frames: int) -> None:
        """The next frames of the server arrive."""
        for _ in range(frames):
            self._to_client(self.lines[pick % len(self.lines)])

    @precondition(lambda self: self.lines and self.lines[0].to_server)
    @rule(pick=picks)
    def say_twice(self, pick: int) -> None:
        """A turn, an ack or a cancel is said twice."""
        line = self.lines[pick % len(self.lines)]
        first = line.to_server[0] if line.to_server else None
        if first is not None and first.startswith(('{"t":"send"', '{"t":"ack"', '{"t":"cancel"')):
            line.to_server.appendleft(first)

    @precondition(lambda self: self.lines)
    @rule(pick=picks, twice=st.booleans())
    def tamper(self, pick: int, twice: bool) -> None:
        """Something between repeats a message of a log, or swallows one that another of that log follows."""
        for log in self.growing():
            log.append(EntryKind.MOVED, value=b'{"why":"lost"}')
            log.append(EntryKind.MOVED, value=b'{"why":"lost"}')
            self.send_hint(log, log.head - 1, log.head)
        line = self.lines[pick % len(self.lines)]
        frames = [str(frame) for frame in line.to_client]
        for at, frame in enumerate(frames):
            if any(follows(each, frame) for each in frames[at + 1 :]):
                self.tampered = True
                del line.to_client[at]
                for _ in range(2 * twice):
                    line.to_client.insert(at, frame)
                return

    @precondition(lambda self: self.lines)
    @rule(pick=picks, noticed=st.booleans(), dies=st.booleans())
    def cut(self, pick: int, noticed: bool, dies: bool) -> None:
        """Everything in flight is lost. `dies`: the gateway too; else it may not know for a while."""
        line = self.lines[pick % len(self.lines)]
        line.cut()
        if noticed:
            line.socket.notice()
        if dies:
            line.connection.jobs.clear()
            line.connection.feed(ev.ConnectionLost())
        self.loop.settle()

    @precondition(lambda self: self.lines)
    @rule(pick=picks, in_ms=st.sampled_from([0, 300, 5000, 60_000]))
    def drain(self, pick: int, in_ms: int) -> None:
        """A gateway stops: the client goes to another before it leaves this one."""
        self.lines[pick % len(self.lines)].connection.feed(ev.DrainStarted(in_ms))

    @precondition(lambda self: self.lines and self.client.connected)
    @rule(texts=st.integers(0, 3), then=st.sampled_from(["goes on", "is welcomed", "is lost"]))
    def hand_over(self, texts: int, then: str) -> None:
        """A drain while text goes on: the new connection says hello before the old one's last text is read.

        It "is lost": the old one is closed in favour of it, and its welcome never arrives."""
        old = next((line for line in reversed(self.lines) if not line.dead), None)
        if old is None:
            return
        old.connection.feed(ev.DrainStarted(60_000))
        self._deliver_all(old)
        for log in self.growing()[:2] if texts else ():
            before = log.head
            for _ in range(texts):
                log.append(EntryKind.TEXT, "word ")
            self.send_hint(log, before + 1, log.head)
        self._deliver_all(old)
        for reader in self._open():
            self._read(reader)
        for line in self.lines[self.lines.index(old) + 1 :] if then != "goes on" else ():
            self._to_server(line)
            line.connection.answer_all()
            if then == "is lost":
                self.supersede()
                self._deliver_all(old)
                line.cut()
                line.socket.notice()
            else:
                self._to_client(line)
                for reader in self._open():
                    self._read(reader)
        self.loop.settle()

    @rule(unreachable=st.booleans())
    def reach(self, unreachable: bool) -> None:
        """Whether one can connect."""
        self.unreachable = unreachable

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.05, 0.25, 0.6, 2.5, 12.0, 36.0]))
    def wait(self, seconds: float) -> None:
        """Time passes for everyone."""
        self._wait(seconds)

    @rule()
    def peace(self) -> None:
        """Nothing is cut any more: everyone has everything."""
        self.settle_down()

    @rule(reads=st.booleans())
    def flow(self, reads: bool) -> None:
        """Once around: what is asked is answered, what is on its way arrives and may be read."""
        self._flow(reads)

    # What always holds

    @invariant()
    def answers_are_prefixes(self) -> None:
        """P3: what an answer shows is the log through what it applied, and what its reader was given."""
        for reader in self.readers if hasattr(self, "readers") else ():
            if reader.answer is None or reader.id not in self.pool.logs:
                continue
            log, answer = self.pool.logs[reader.id], reader.answer
            if reader.reading is not None and reader.reading.done():
                self._read(reader)  # it waited for an event, which has come
            said = f"{reader.id} shows {answer.text!r} at {answer.applied} of epoch {answer.epoch}"
            assert answer.text in log.texts(answer.epoch, answer.applied) or log.retracted, said
            assert reader.shown == answer.text, f"{reader.id} was given {reader.shown!r} of {answer.text!r}"

    @invariant()
    def no_unexplained_gap(self) -> None:
        """On one connection after the other nothing is skipped."""
        if hasattr(self, "client"):
            counters = self.client.counters
            excused = self.tampered or counters.handovers or any(log.retracted for log in self.logs())
            assert not counters.gaps or excused, f"{counters.gaps} gaps"

    @invariant()
    def the_client_goes_on(self) -> None:
        """Nothing that a network or a gateway does makes a good client give up."""
        assert not hasattr(self, "client") or self.client.stopped is None, self.client.stopped

    # Peace

    def settle_down(self) -> None:
        """Deliver and answer everything until nobody waits."""
        self.unreachable = False
        for _ in range(ROUNDS_MAX):
            self._flow(reads=True)
            self._wait(1.0)
            if self._quiet():
                return
        raise AssertionError(f"after {ROUNDS_MAX} rounds of peace somebody waits: {self.readers}")

    def _flow(self, reads: bool) -> None:
        self.work_off()
        self.supersede()
        for line in list(self.lines):
            self._deliver_all(line)
            for _ in range(len(line.to_server)):
                self._to_server(line)
        for reader in self._open() if reads else ():
            while self._read(reader):
                pass

    def _quiet(self) -> bool:
        on_its_way = any(line.to_client and not line.dead for line in self.lines)
        busy = on_its_way or self.jobs() or not self.client.connected
        return not busy and all(self._has_all(reader) for reader in self.readers)

    def _has_all(self, reader: ApplicationReader) -> bool:
        log = self.pool.logs.get(reader.id)
        if reader.over or reader.detached:
            return True
        return log is not None and reader.answer is not None and reader.answer.applied == log.head

    # Parts

    def connections(self) -> list[SimulatedConnection]:
        """All that a gateway still believes in."""
        return [line.connection for line in self.lines] if hasattr(self, "lines") else []

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Begin something, and see how far it comes."""
        task = self.loop.create_task(work)
        self.loop.settle()
        return task

    def _open(self) -> list[ApplicationReader]:
        readers: list[ApplicationReader] = getattr(self, "readers", [])
        return [each for each in readers if not (each.over or each.detached)]

    def _wait(self, seconds: float) -> None:
        self.loop.now += seconds
        self.pass_time(seconds)
        self.loop.settle()

    def _read(self, reader: ApplicationReader) -> bool:
        """One event of an answer, if there is one."""
        try:
            if reader.answer is None:
                if not reader.opening.done():
                    return False
                reader.answer = reader.opening.result()
                reader.events = reader.answer.events()
            if reader.reading is None:
                reader.reading = self.start(anext(reader.events))
            else:
                self.loop.settle()
            if not reader.reading.done():
                return False
            task, reader.reading = reader.reading, None
            self._shown(reader, task.result())
        except StopAsyncIteration:
            self._ended(reader)
        except ProtocolError as error:
            self._failed(reader, error)
        return not reader.over

    def _shown(self, reader: ApplicationReader, event: Event) -> None:
        if isinstance(event, Text):
            reader.shown += event.text
        elif isinstance(event, Reset):
            reader.shown = event.text

    def _ended(self, reader: ApplicationReader) -> None:
        log = self.pool.logs[reader.id]
        assert text_hash(reader.shown) == text_hash(log.now.text(log.head)), f"{reader.id}: {reader.shown!r}"
        assert reader.answer is not None
        assert [asdict(flag) for flag in reader.answer.flags] == log.flags, f"{reader.id}: its flags"
        reader.over = True

    def _failed(self, reader: ApplicationReader, error: ProtocolError) -> None:
        log = self.pool.logs.get(reader.id)
        lost = log is not None and log.gone and log.stored is None
        assert lost, f"{reader.id} failed: {error}"
        assert error.code in ("not_resumable", "log_lost"), f"{reader.id} failed: {error}"
        reader.over, reader.error = True, error

    def _deliver_all(self, line: Line) -> None:
        for _ in range(len(line.to_client)):
            self._to_client(line)

    def _to_server(self, line: Line) -> None:
        if line.dead or not line.to_server or not line.connection.reads:
            return
        frame = line.to_server.popleft()
        self.trace(f"{line.connection.name} → {frame}")
        if frame is None:
            line.connection.feed(ev.ConnectionLost())
        else:
            line.connection.receive(frame)

    def _to_client(self, line: Line) -> None:
        if line.dead or not line.to_client:
            return
        frame = line.to_client.popleft()
        self.trace(f"{line.connection.name} ← {frame!r}")
        assert '"code":"bad_message"' not in str(frame), f"{line.connection.name}: {frame}"
        line.socket.deliver(frame)
        if isinstance(frame, CloseCode):
            line.cut()
        self.loop.settle()


ClientModel.TestCase.settings = PROFILE
TestClientModel = ClientModel.TestCase
