"""The half of both models that is not the client: a pool that does all it may, gateways that answer late."""

from collections import deque

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.api import EntryKind
from server.protocol.codes import CloseCode
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import SessionLimits
from tests.server.simulation.gateway import Job, Sessions, SimulatedConnection
from tests.server.simulation.pool import Log, SimulatedPool

REQUESTS_MAX = 3
ENTRIES_MAX = 40
SHOWN_MAX = 200
TEXTS = ["a", "é", "😀 ", "word ", "", "ü" * 40, "x" * 300, "y" * 9000]
HAPPENED = [EntryKind.MOVED, EntryKind.PARKED, EntryKind.RESUMED]
picks = st.integers(0, 7)


def limits_of(events: int, size: int, connection: int, hello_seconds: float = 10.0) -> SessionLimits:
    """Small windows, so that they are met all the time."""
    return SessionLimits(
        hello_seconds=hello_seconds,
        heartbeat_interval=25.0,
        heartbeat_timeout=10.0,
        events=events,
        bytes=size,
        connection_bytes=connection,
        frame_bytes=256 * 1024,
        requests=REQUESTS_MAX + 1,
        bad_messages=10,
        delta_interval=0.02,
    )


class SimulatedWorld(RuleBasedStateMachine):
    """What happens to requests and gateways, whoever reads."""

    def begin_world(self, limits: SessionLimits) -> None:
        """Nothing has happened yet."""
        self.now = 1000.0
        self.limits = limits
        self.pool, self.sessions = SimulatedPool(), Sessions()
        self.count = 0
        self._traced: deque[str] = deque(maxlen=4)

    def connections(self) -> list[SimulatedConnection]:
        """All that a gateway still believes in."""
        raise NotImplementedError

    def open_connection(self) -> SimulatedConnection:
        """One more gateway."""
        self.count += 1
        return SimulatedConnection(f"c{self.count}", self.pool, self.sessions, self.limits, lambda: self.now)

    def trace(self, line: str) -> None:
        """Into the output of a failure; what repeats itself only once."""
        if line not in self._traced:
            note(f"        {line[:SHOWN_MAX]}")
        self._traced.append(line)

    # Gateways

    @precondition(lambda self: self.jobs())
    @rule(pick=picks)
    def look_up(self, pick: int) -> None:
        """Redis answers a question; the gateway does not have the answer yet."""
        connection, job = self.jobs()[pick % len(self.jobs())]
        if not job.looked_up:
            self.trace(f"{connection.name} looks up {job}")
            connection.look_up(job)

    @precondition(lambda self: self.jobs())
    @rule(pick=picks, again=st.booleans())
    def answer(self, pick: int, again: bool) -> None:
        """An answer reaches the machine, of a log read perhaps once more later."""
        connection, job = self.jobs()[pick % len(self.jobs())]
        if not job.looked_up:
            connection.look_up(job)
        self.trace(f"{connection.name} has the answer to {job}")
        connection.answer(job, again and isinstance(job.effect, fx.ReadLog))

    @precondition(lambda self: any(each.superseded for each in self.connections()))
    @rule()
    def supersede(self) -> None:
        """Older connections of a session learn that there is a newer one."""
        for connection in self.connections():
            if connection.superseded:
                connection.superseded = False
                connection.feed(ev.CloseOrdered(CloseCode.SUPERSEDED))

    @rule()
    def expire_sessions(self) -> None:
        """All sessions are forgotten: the next hello begins a new one."""
        self.sessions.forget_all()

    # Requests

    @precondition(lambda self: self.growing())
    @rule(pick=picks, texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6), hinted=st.booleans())
    def generate(self, pick: int, texts: list[str], hinted: bool) -> None:
        """An engine appends text; the hint arrives or is lost."""
        log = self.growing()[pick % len(self.growing())]
        log.run()
        before = log.head
        for text in texts:
            log.append(EntryKind.TEXT, text)
        if hinted:
            self.send_hint(log, before + 1, log.head)

    @precondition(lambda self: self.growing())
    @rule(pick=picks, kind=st.sampled_from(HAPPENED))
    def note_event(self, pick: int, kind: EntryKind) -> None:
        """Something happens to the request."""
        self.growing()[pick % len(self.growing())].append(kind, value=b'{"why":"lost"}')

    @precondition(lambda self: self.growing())
    @rule(pick=picks, p=st.integers(0, 400), hinted=st.booleans())
    def flag(self, pick: int, p: int, hinted: bool) -> None:
        """A worker marks some of the text."""
        log = self.growing()[pick % len(self.growing())]
        before = log.head
        log.flag(p)
        if hinted and log.head > before:
            self.send_hint(log, log.head, log.head)

    @precondition(lambda self: self.logs())
    @rule(pick=picks, first=picks, length=picks, hole=st.booleans())
    def hint(self, pick: int, first: int, length: int, hole: bool) -> None:
        """A hint comes late, again, out of order, or with a part missing."""
        log = self.logs()[pick % len(self.logs())]
        a = max(1, log.head - first)
        self.send_hint(log, a, min(log.head, a + length), hole)

    @precondition(lambda self: self.growing())
    @rule(pick=picks, hinted=st.booleans())
    def end(self, pick: int, hinted: bool) -> None:
        """A request ends."""
        log = self.growing()[pick % len(self.growing())]
        log.end()
        if hinted:
            self.send_hint(log, log.head, log.head)

    @precondition(lambda self: any(log.ended and not log.gone for log in self.logs()))
    @rule(pick=picks, stored=st.booleans())
    def forget_log(self, pick: int, stored: bool) -> None:
        """The log's time is over; its answer is stored, or nobody has it any more."""
        logs = [log for log in self.logs() if log.ended and not log.gone]
        log = logs[pick % len(logs)]
        log.store()
        if not stored:
            log.stored = None

    @precondition(lambda self: self.growing())
    @rule(pick=picks, p=st.integers(0, 12))
    def retract(self, pick: int, p: int) -> None:
        """Text is taken back."""
        log = self.growing()[pick % len(self.growing())]
        if not log.retracted:
            log.retract(min(p, len(log.now.text(log.head))))

    @precondition(lambda self: self.growing())
    @rule(pick=picks, lost=st.integers(1, 5), noticed=st.booleans())
    def lose_tail(self, pick: int, lost: int, noticed: bool) -> None:
        """Redis comes back without the newest entries, in a new epoch. Gateways notice, or close all."""
        log = self.growing()[pick % len(self.growing())]
        if log.head - lost < 1 or log.retracted:
            return
        log.lose_tail(log.head - lost)
        for connection in self.connections():
            if not noticed:
                connection.feed(ev.CloseOrdered(CloseCode.STATE_LOST))
            elif connection.following.get(log.id):
                connection.feed(ev.LogBroken(log.id))

    @invariant()
    def no_run_twice(self) -> None:
        """However often a turn is sent, it runs once."""
        assert all(log.runs <= 1 for log in self.logs())

    # Parts

    def logs(self) -> list[Log]:
        """All requests."""
        return list(self.pool.logs.values()) if hasattr(self, "pool") else []

    def growing(self) -> list[Log]:
        """Requests that are not over."""
        return [log for log in self.logs() if not log.ended and log.head <= ENTRIES_MAX]

    def jobs(self) -> list[tuple[SimulatedConnection, Job]]:
        """Questions of all machines."""
        if not hasattr(self, "pool"):
            return []
        return [(connection, job) for connection in self.connections() for job in connection.jobs]

    def send_hint(self, log: Log, a: int, b: int, hole: bool = False) -> None:
        """News for all that follow a request: entries a to b."""
        entries = log.now.entries[a - 1 : b]
        if hole and len(entries) > 2:
            del entries[1]
        for connection in self.connections():
            connection.hint(log.id, entries, b)

    def pass_time(self, seconds: float) -> None:
        """The clock moves; the machines' timers fire."""
        self.now += seconds
        for connection in self.connections():
            connection.fire_timer()

    def work_off(self) -> None:
        """Everything that gateways asked is answered, and everyone has heard of every log."""
        for connection in self.connections():
            connection.answer_all()
        for connection in self.connections():
            for id in list(connection.following):
                connection.hint(id, [], self.pool.logs[id].head)

    def end_all(self) -> None:
        """Every request ends."""
        for log in self.logs():
            if not log.ended:
                log.run()
                log.end()
