"""A gateway without sockets: what connections, use cases and subscriptions do for a machine.

Every question of the machine becomes a job; the test decides when it is looked up and when its answer comes.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.errors import Refused
from engine.api import Entry
from server.protocol import codec
from server.protocol import messages as m
from server.protocol.codec import Subprotocol
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import SessionLimits
from server.session.machine import Session, SessionState
from tests.server.simulation.pool import SimulatedPool
from tests.server.simulation.witness import Witness

CONTROL_BYTES_MAX = 4096


@dataclass
class SimulatedRecord:
    """A session as its record in Redis: who holds it, and what it reads."""

    name: str
    number: int = 1
    connection: "SimulatedConnection | None" = None
    open_ids: set[str] = field(default_factory=set[str])


class Sessions:
    """The records. A token is `name.number`; the newest and the one before are good."""

    def __init__(self) -> None:
        self._records: dict[str, SimulatedRecord] = {}

    def open(self, token: str | None, connection: "SimulatedConnection") -> tuple[SimulatedRecord, bool]:
        """Resume or begin; the record, and whether it was resumed."""
        name, _, number = (token or "").partition(".")
        record = self._records.get(name)
        if record is None or int(number) < record.number - 1:
            record = SimulatedRecord(f"s{len(self._records) + 1}", connection=connection)
            self._records[record.name] = record
            return record, False
        record.number += 1
        if record.connection is not None:
            record.connection.superseded = True
        record.connection = connection
        return record, True

    def forget(self, name: str) -> None:
        """Its time is over."""
        self._records.pop(name, None)

    def forget_all(self) -> None:
        """All of them expire."""
        for name in list(self._records):
            self.forget(name)


@dataclass
class Job:
    """A question of the machine. Looked up, it has its answer, which waits to be fed."""

    effect: Any
    answer: ev.Event | None = None
    staged: dict[str, bool] = field(default_factory=dict[str, bool])
    looked_up: bool = False

    def __str__(self) -> str:
        return f"{type(self.effect).__name__} {getattr(self.effect, 'id', '')}"


class SimulatedConnection:
    """One connection's machine, and what its shell holds for it."""

    def __init__(
        self,
        name: str,
        pool: SimulatedPool,
        sessions: Sessions,
        limits: SessionLimits,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.limits = limits
        self.session = Session(limits, clock(), random.Random(1))
        self.witness = Witness(pool, limits)
        self.outbox: deque[str | CloseCode] = deque()
        self.jobs: list[Job] = []
        self.following: dict[str, bool] = {}
        self.superseded = False
        self.record: SimulatedRecord | None = None
        self.stuck: set[str] = set()
        self._pool = pool
        self._sessions = sessions
        self._clock = clock
        self._staged = dict[str, bool]()
        self._late: list[ev.Event] = []

    @property
    def closed(self) -> bool:
        """Whether the machine is done."""
        return self.session.state is SessionState.CLOSED

    @property
    def reads(self) -> bool:
        """Whether the shell takes frames: not while the session opens."""
        return self.session.state is not SessionState.OPENING

    # What happens

    def receive(self, frame: str) -> None:
        """A frame comes in."""
        message = codec.decode(frame, Subprotocol.JSON, CONTROL_BYTES_MAX)
        if not self.closed:
            self.witness.heard(message)
        self.feed(ev.FrameReceived(message))

    def feed(self, event: ev.Event) -> None:
        """Give the machine an event and do what follows."""
        for effect in self.session.handle(event, self._clock()):
            self._do(effect)
        self._check_memory()
        while self._late:
            self.feed(self._late.pop())

    def hint(self, id: str, entries: list[Entry], head: int) -> None:
        """News of a log, if this connection follows it."""
        if self.following.get(id):
            self.feed(ev.LogGrew(id, entries, head))

    def look_up(self, job: Job) -> None:
        """What Redis and SQL say now."""
        job.looked_up = True
        try:
            job.answer = self._answer(job)
        except Refused as refused:
            job.answer = self._refused(job.effect, refused)

    def answer(self, job: Job, again: bool = False) -> None:
        """The answer of a job comes. `again`: it will come once more."""
        if not again:
            self.jobs.remove(job)
        answer = job.answer
        if answer is None:
            return
        self._staged = dict(job.staged)
        self.feed(answer)
        self._staged.clear()
        if isinstance(answer, ev.SendAccepted) and answer.reading.id in self.following and self.record:
            self.record.open_ids.add(answer.reading.id)

    def answer_all(self) -> None:
        """Every question is answered."""
        for job in list(self.jobs):
            if not job.looked_up:
                self.look_up(job)
            self.answer(job)

    def fire_timer(self) -> None:
        """The clock has moved: meet the machine's deadline, and see that it does not spin."""
        for _ in range(8):
            due = self.session.deadline()
            if due is None or due > self._clock():
                return
            self.feed(ev.TimerFired())
        raise AssertionError(f"{self.name}: the machine wants its timer again and again")

    # What the machine wants

    def _do(self, effect: Any) -> None:
        match effect:
            case fx.Emit(message):
                self.witness.said(message)
                self.outbox.append(text_of(message))
            case fx.Close(code):
                self.outbox.append(code)
            case fx.Follow(id):
                self.following[id] = self._staged.pop(id)
                self._follow(id)
            case fx.Unfollow(id, done):
                self.following.pop(id, None)
                self.stuck.discard(id)
                if done and self.record is not None:
                    self.record.open_ids.discard(id)
            case fx.EndSession():
                if self.record is not None:
                    self._sessions.forget(self.record.name)
            case fx.ReportReader(id, stuck):
                (self.stuck.add if stuck else self.stuck.discard)(id)
            case fx.ConfirmResumeToken() | fx.Measure():
                pass
            case _:
                self.jobs.append(Job(effect))

    def _follow(self, id: str) -> None:
        """What was opened may have been replaced before anyone listened."""
        stream = next(each for each in streams_of(self.session) if each.id == id)
        if self.following[id] and stream.epoch != self._pool.logs[id].now.epoch:
            self._late.append(ev.LogBroken(id))

    def _answer(self, job: Job) -> ev.Event | None:
        match job.effect:
            case fx.OpenSession(hello):
                return self._opened(job, hello)
            case fx.StartSend(message):
                fresh = self._pool.start(message.id)
                reading, job.staged[message.id] = self._pool.open(message.id, None, 0)
                return ev.SendAccepted(reading, not fresh, "interactive")
            case fx.StartAttach(id, epoch, o):
                reading, job.staged[id] = self._pool.open(id, epoch, o)
                return ev.AttachAllowed(reading)
            case fx.StartCancel(id, answer):
                log = self._pool.logs.get(id)
                if log is not None and not log.ended:
                    log.end("cancelled")
                return ev.CancelAnswered(id, "ended") if answer else None
            case fx.ReadLog():
                return self._read(job, job.effect)
            case fx.Reopen(id, epoch, o):
                reading, job.staged[id] = self._pool.open(id, epoch, o)
                return ev.AttachAllowed(reading, asked=False)
            case fx.Reauthenticate():
                return ev.Reauthenticated(None)
            case unknown:
                raise AssertionError(f"the simulation cannot answer {unknown}")

    def _read(self, job: Job, effect: fx.ReadLog) -> ev.Event | None:
        live = self.following.get(effect.id)
        if live is None:
            return None
        log = self._pool.logs[effect.id]
        if live:
            entries = self._pool.read(effect.id, effect.after, effect.entries_max, effect.bytes_max)
        else:
            entries = [e for e in log.stored or [] if e.o > effect.after][: effect.entries_max]
        if live and not entries:
            reading, stays = self._pool.open(effect.id, effect.epoch, effect.after)
            if not stays or reading.snap is not None:
                job.staged[effect.id] = stays
                return ev.AttachAllowed(reading, asked=False)
        return ev.LogRead(effect.id, effect.after, entries, effect.epoch)

    def _refused(self, effect: Any, refused: Refused) -> ev.Event | None:
        match effect:
            case fx.StartSend(message):
                return ev.SendRefused(message.id, refused.refusal)
            case fx.StartAttach(id):
                return ev.AttachRefused(id, refused.refusal)
            case fx.ReadLog(id) | fx.Reopen(id):
                lost = refusal(ErrorCode.LOG_LOST, "the platform lost this request")
                return ev.AttachRefused(id, lost, asked=False)
            case _:
                raise refused

    def _opened(self, job: Job, hello: m.Hello) -> ev.Opened:
        resume = hello.resume or m.ResumeRequests()
        self.record, resumed = self._sessions.open(resume.token, self)
        named = {request.id for request in resume.requests}
        others = [m.ResumeRequest(id) for id in sorted(self.record.open_ids - named)]
        requests: list[ev.ReadableRequest | ev.NotResumed] = []
        for request in [*resume.requests, *others]:
            try:
                reading, job.staged[request.id] = self._pool.open(request.id, request.epoch, request.o)
                requests.append(reading)
            except Refused:
                if request.epoch is not None:
                    requests.append(ev.NotResumed(request.id, "not_resumable"))
        token = f"{self.record.name}.{self.record.number}"
        return ev.Opened(self.record.name, self.name, token, 2**40, resumed, tuple(requests), 7)

    # What it may hold

    def _check_memory(self) -> None:
        """INV-18: what waits in memory fits the window, and nothing waits behind a shut one."""
        for stream in streams_of(self.session):
            pending: list[Entry] = stream._pending  # pyright: ignore[reportPrivateUsage]
            blocked: bool = stream._blocked  # pyright: ignore[reportPrivateUsage]
            window = stream.window
            assert not (blocked and pending), f"{stream.id}: a shut window holds {len(pending)} entries"
            assert len(pending) <= max(1, window.events_max), f"{stream.id}: {len(pending)} entries wait"
            size = sum(len(entry.x.encode()) for entry in pending[1:])
            assert size <= window.bytes_max, f"{stream.id}: {size} bytes wait"


def text_of(message: m.ServerMessage) -> str:
    """A frame as its text."""
    frame = codec.encode(message, Subprotocol.JSON)
    return frame if isinstance(frame, str) else frame.decode()


def streams_of(session: Session) -> list[Any]:
    """The machine's streams: their memory is what INV-18 is about, and no frame shows it."""
    readings = session._readings  # pyright: ignore[reportPrivateUsage]
    return [readings[id] for id in readings.ids()]
