"""A state machine over the session machine: a simple client, a network that loses, a pool that answers late.

After every step: what the client shows is a prefix of the log, windows are obeyed, memory is bounded, numbers
are never used again (tests/server/simulation/witness.py says what a gateway may send). When all is left
in peace, every request is read to its end. PARLEY_MODEL_EXAMPLES=5000 makes it look harder; a failure prints
the steps and every frame of the shortest run that fails.
"""

import sys
from collections import deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from server.protocol.codes import CloseCode
from server.session import events as ev
from tests.server.simulation.gateway import SimulatedConnection
from tests.server.simulation.peer import SimulatedPeer, SimulatedReader
from tests.server.simulation.profile import PROFILE
from tests.server.simulation.world import REQUESTS_MAX, SimulatedWorld, limits_of, picks

ROUNDS_MAX = 150
windows = st.sampled_from([None, {}, {"events": 1}, {"events": 3, "bytes": 90}, {"events": 0}, {"bytes": 0}])


class SessionModel(SimulatedWorld):
    """One client, one connection after the other, gateways that may die."""

    @initialize(
        window=windows,
        events=st.sampled_from([1, 4, 8, 256]),
        size=st.sampled_from([64, 200, 32 * 1024]),
        connection=st.sampled_from([100, 300, 128 * 1024]),
        sent=st.integers(0, REQUESTS_MAX),
    )
    def begin(
        self, window: dict[str, int] | None, events: int, size: int, connection: int, sent: int
    ) -> None:
        """A client that connects, and perhaps has sent turns already that run."""
        self.begin_world(limits_of(events, size, connection))
        self.peer = SimulatedPeer(self.pool, window)
        self.connection: SimulatedConnection | None = None
        self.abandoned: list[SimulatedConnection] = []
        self.connect()
        for _ in range(sent):
            self.send()
        if sent:
            self._settle()

    # The client

    @precondition(lambda self: self.connection is None)
    @rule()
    def connect(self) -> None:
        """Dial another gateway and say hello."""
        self.connection = self.open_connection()
        self.to_server = deque[str]()
        self.peer.hello()
        self._flush()

    @precondition(lambda self: len(self.peer.readers) < REQUESTS_MAX)
    @rule()
    def send(self) -> None:
        """Start a turn."""
        self._speak(lambda: self.peer.send(f"r{len(self.peer.readers) + 1}"))

    @precondition(lambda self: self.peer.welcomed and self._reading())
    @rule(pick=picks)
    def send_again(self, pick: int) -> None:
        """The same send once more."""
        self._speak(lambda: self.peer.send(self._one(pick).id))

    @precondition(lambda self: self.peer.welcomed and self._reading())
    @rule(pick=picks, back=picks)
    def move_cursor(self, pick: int, back: int) -> None:
        """Read again from an earlier offset, or from here."""
        reader = self._one(pick)
        known = sorted(reader.marks)
        if reader.accepted:
            self._speak(lambda: self.peer.attach(reader, known[max(0, len(known) - 1 - back)]))

    @precondition(lambda self: self.peer.welcomed and self._reading())
    @rule(pick=picks)
    def detach(self, pick: int) -> None:
        """Stop reading one."""
        if self._one(pick).accepted:
            self._speak(lambda: self.peer.detach(self._one(pick)))

    @precondition(lambda self: self.peer.welcomed and self._bound())
    @rule(pick=picks, behind=picks, twice=st.booleans())
    def ack(self, pick: int, behind: int, twice: bool) -> None:
        """Acknowledge what is applied, or only a part of it, perhaps twice."""
        reader = self._bound()[pick % len(self._bound())]
        vector = [[reader.g, max(0, reader.good - behind)]] * (1 + twice)
        self._speak(lambda: self.peer.say("ack", a=vector))

    @precondition(lambda self: self.peer.welcomed and self._bound())
    @rule()
    def ack_all(self) -> None:
        """Acknowledge everything and open all windows."""
        self._speak(self.peer.ack_all)

    @precondition(lambda self: self.peer.welcomed and self._bound())
    @rule(pick=picks, events=st.sampled_from([0, 1, 2, 5, 2**62]))
    def set_window(self, pick: int, events: int) -> None:
        """Another event window for one request."""
        g = self._bound()[pick % len(self._bound())].g
        self._speak(lambda: self.peer.say("ack", a=[], w={str(g): events}))

    @precondition(lambda self: self.peer.welcomed and self._reading())
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        """Stop generating."""
        self._speak(lambda: self.peer.say("cancel", id=self._one(pick).id))

    # The network

    @precondition(lambda self: self.connection is not None and self.to_server)
    @rule(frames=st.integers(1, 4))
    def deliver_to_server(self, frames: int) -> None:
        """The next frames of the client arrive."""
        for _ in range(frames):
            self._to_server()

    @precondition(lambda self: self.connection is not None and self.connection.outbox)
    @rule(frames=st.integers(1, 6))
    def deliver_to_client(self, frames: int) -> None:
        """The next frames of the server arrive."""
        for _ in range(frames):
            if self.connection is not None and self.connection.outbox:
                self._to_client()

    @precondition(lambda self: self.connection is not None)
    @rule(dies=st.booleans())
    def cut(self, dies: bool) -> None:
        """Everything in flight is lost. `dies`: the gateway too, with what it had begun."""
        self._cut(dies)

    @precondition(lambda self: self.abandoned)
    @rule(pick=picks)
    def server_notices(self, pick: int) -> None:
        """A gateway learns that its client is gone."""
        self.abandoned[pick % len(self.abandoned)].feed(ev.ConnectionLost())

    @precondition(lambda self: self.connection is not None)
    @rule(in_ms=st.sampled_from([0, 50, 5000]))
    def drain(self, in_ms: int) -> None:
        """The gateway stops."""
        assert self.connection is not None
        self.connection.feed(ev.DrainStarted(in_ms))

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.05, 0.3, 2.5, 12.0, 31.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; timers fire."""
        self.pass_time(seconds)

    # Peace

    @rule()
    def peace(self) -> None:
        """Nothing is cut any more: everyone has everything."""
        self._settle()

    def teardown(self) -> None:
        """At last all requests end, and their ends are read."""
        if sys.exc_info()[0] is None and hasattr(self, "peer"):
            self.end_all()
            self._settle()

    @invariant()
    def no_unexplained_gap(self) -> None:
        """A gateway skips nothing: only a cursor that was moved twice at once may meet a gap."""
        if hasattr(self, "peer"):
            assert not self.peer.gaps or any(each.rewound for each in self.peer.readers.values())

    def _settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            if self.connection is None:
                self.connect()
            self._round()
            if self._quiet():
                return
        raise AssertionError(f"after {ROUNDS_MAX} rounds of peace somebody still waits: {self.peer.readers}")

    def _round(self) -> None:
        self.work_off()
        while self.connection is not None and self.connection.outbox:
            self._to_client()
        if self.connection is None:
            return
        for reader in self.peer.readers.values() if self.peer.welcomed else ():
            if reader.detached and not (reader.ended or reader.gone):
                self.peer.attach(reader, reader.applied)
        if self.peer.welcomed:
            self.peer.ack_all()
        self._flush()
        for _ in range(len(self.to_server)):
            self._to_server()
        self.wait(0.3)

    def _quiet(self) -> bool:
        """Whether everyone has everything there is."""
        idle = not self.jobs() and self.connection is not None and not self.connection.outbox
        return idle and all(
            reader.gone or (reader.accepted and reader.applied == self.pool.logs[reader.id].head)
            for reader in self.peer.readers.values()
        )

    # Parts

    def connections(self) -> list[SimulatedConnection]:
        mine = [self.connection] if self.connection is not None else []
        return mine + self.abandoned

    def _reading(self) -> list[SimulatedReader]:
        return [each for each in self.peer.readers.values() if not (each.gone or each.detached)]

    def _bound(self) -> list[SimulatedReader]:
        return [each for each in self._reading() if each.g is not None and not each.attaching]

    def _one(self, pick: int) -> SimulatedReader:
        return self._reading()[pick % len(self._reading())]

    def _speak(self, say: Any) -> None:
        """Have the client say something, if there is a connection to say it on."""
        say()
        self._flush()

    def _flush(self) -> None:
        if self.connection is not None:
            self.to_server.extend(self.peer.out)
        self.peer.out.clear()

    def _to_server(self) -> None:
        if self.connection is None or not self.connection.reads or not self.to_server:
            return
        frame = self.to_server.popleft()
        self.trace(f"{self.connection.name} → {frame}")
        self.connection.receive(frame)

    def _to_client(self) -> None:
        assert self.connection is not None
        frame = self.connection.outbox.popleft()
        self.trace(f"{self.connection.name} ← {frame!r}")
        if isinstance(frame, CloseCode):
            late = frame is CloseCode.HELLO_TIMEOUT
            assert late or frame < CloseCode.BAD_MESSAGE, f"a good client was closed with {frame!r}"
            self._cut(dies=False)
        else:
            self.peer.take(frame)
            self._flush()

    def _cut(self, dies: bool) -> None:
        assert self.connection is not None
        self.connection.outbox.clear()
        if dies:
            self.connection.jobs.clear()
            self.connection.feed(ev.ConnectionLost())
        self.abandoned = [*self.abandoned, self.connection][-3:]
        self.connection = None
        self.peer.out.clear()


SessionModel.TestCase.settings = PROFILE
TestSessionModel = SessionModel.TestCase
