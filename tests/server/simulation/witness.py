"""Holds every frame that a gateway sends on one connection against docs/protocol.md, knowing only frames.

It keeps its own account of cursors and windows: what it allows is what the document says, not what the
machine thinks.
"""

from collections import deque
from dataclasses import dataclass, field

from engine.api import Entry, EntryKind
from server.protocol import messages as m
from server.session.limits import DELTA_BYTES_MAX, SessionLimits
from tests.server.simulation.pool import Log, SimulatedPool

OTHER_BYTES = 64


@dataclass
class Cursor:
    """One `g` as its reader may know it."""

    id: str
    epoch: int
    events_max: int
    bytes_max: int
    sent: int = 0
    acked: int = 0
    ended: bool = False
    paused: bool = False
    in_flight: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    @property
    def unacked(self) -> int:
        """Bytes sent and not acknowledged."""
        return sum(size for _, size in self.in_flight)

    def restart(self, o: int) -> None:
        """Reading goes on at another place."""
        self.sent = self.acked = o
        self.ended = False
        self.in_flight.clear()


class Witness:
    """One connection's frames, in the order they were sent. A violation is an AssertionError."""

    def __init__(self, pool: SimulatedPool, limits: SessionLimits) -> None:
        self._pool = pool
        self._limits = limits
        self._window = m.WindowRequest()
        self._highest_g = 0
        self._left = set[str]()
        self.cursors: dict[int, Cursor] = {}
        self.welcomed = False

    # What the server hears

    def heard(self, message: m.ClientMessage) -> None:
        """A frame reached the server; called before the machine has it."""
        match message:
            case m.Hello():
                self._window = message.window or m.WindowRequest()
            case m.Ack() | m.Ping() | m.Pong():
                windows = message.w if isinstance(message, m.Ack) else None
                for g, events in (windows or {}).items():
                    if int(g) in self.cursors:
                        self.cursors[int(g)].events_max = min(events, self._limits.events)
                for g, o in message.a or []:
                    self._ack(g, o)
            case m.Send():
                self._left.discard(message.id)
            case m.Detach():
                self._left.add(message.id)
                for g in [g for g, cursor in self.cursors.items() if cursor.id == message.id]:
                    del self.cursors[g]
            case _:
                pass

    def _ack(self, g: int, o: int) -> None:
        cursor = self.cursors.get(g)
        if cursor is None or o > cursor.sent:
            return
        cursor.acked = max(cursor.acked, o)
        while cursor.in_flight and cursor.in_flight[0][0] <= o:
            cursor.in_flight.popleft()
        if cursor.ended and cursor.acked >= cursor.sent:
            del self.cursors[g]

    # What the server says

    def said(self, message: m.ServerMessage) -> None:
        """A frame was sent."""
        match message:
            case m.Welcome():
                assert not self.welcomed, "a second welcome"
                self.welcomed = True
                for request in message.requests:
                    self._listed(request)
            case m.Accepted() | m.Attached():
                self._bound(message)
            case m.Error():
                if (
                    message.re in ("attach", None)
                    and message.id is not None
                    and message.code in ("not_resumable", "log_lost")
                ):
                    self.heard(m.Detach(message.id))
            case m.Delta() | m.Event() | m.Snap() | m.Retract() | m.End():
                assert message.g in self.cursors, f"a frame of g {message.g}, which is not open"
                self._logged(self.cursors[message.g], message)
            case _:
                pass

    def _listed(self, request: m.WelcomeRequest) -> None:
        if request.g is None:
            assert request.state == "gone", request
            return
        assert request.epoch is not None
        assert request.from_ is not None
        cursor = self._new(request.g, request.id, request.epoch)
        cursor.restart(request.from_ - 1)

    def _bound(self, message: m.Accepted | m.Attached) -> None:
        cursor = self.cursors.get(message.g)
        if cursor is None and isinstance(message, m.Accepted) and message.id in self._left:
            assert message.g > self._highest_g, f"g {message.g} is used again"
            self._highest_g = message.g  # its sender has left: nothing may follow
            return
        if cursor is None:
            cursor = self._new(message.g, message.id, message.epoch)
        assert cursor.id == message.id, f"g {message.g} is {cursor.id} and {message.id}"
        if isinstance(message, m.Attached):
            cursor.epoch = message.epoch
            cursor.paused = False  # the reader chose a place to go on from: it is told again where it is slow
            cursor.restart(message.from_ - 1)

    def _new(self, g: int, id: str, epoch: int) -> Cursor:
        assert g > self._highest_g, f"g {g} is used again"
        assert id not in {cursor.id for cursor in self.cursors.values()}, f"{id} has two numbers"
        self._highest_g = g
        asked, limits = self._window, self._limits
        events = limits.events if asked.events is None else min(asked.events, limits.events)
        size = limits.bytes if asked.bytes is None else min(asked.bytes, limits.bytes)
        cursor = self.cursors[g] = Cursor(id, epoch, events, size)
        return cursor

    def _logged(self, cursor: Cursor, message: m.Delta | m.Event | m.Snap | m.Retract | m.End) -> None:
        log = self._pool.logs[cursor.id]
        if isinstance(message, m.Event) and message.o is None:
            assert message.k == ("unpaused" if cursor.paused else "paused"), message
            cursor.paused = not cursor.paused
            return
        assert not cursor.ended, f"{message} follows the end"
        if isinstance(message, m.Snap):
            self._snap(cursor, log, message)
            return
        offset = message.o if not isinstance(message, m.Delta) else None
        assert not cursor.paused, f"{message} comes before unpaused"
        a, b = (message.a, message.b) if isinstance(message, m.Delta) else (offset or 0, offset or 0)
        assert a == cursor.sent + 1, f"{message} after {cursor.sent}"
        assert b >= a, message
        size = len(message.x.encode()) if isinstance(message, m.Delta) else OTHER_BYTES
        self._fits(cursor, b - a + 1, size, message)
        assert is_log(log, cursor.epoch, message), f"{message} is not what the log says"
        cursor.sent = b
        cursor.in_flight.append((b, size))
        cursor.ended = isinstance(message, m.End)

    def _snap(self, cursor: Cursor, log: Log, snap: m.Snap) -> None:
        assert len(snap.x.encode()) <= DELTA_BYTES_MAX, "a snap of more than 16 KiB"
        assert snap.x in log.texts(snap.epoch, snap.o), f"{snap} is not the text"
        cursor.epoch = snap.epoch
        cursor.restart(snap.o)
        if snap.x:
            cursor.in_flight.append((snap.o, len(snap.x.encode())))

    def _fits(self, cursor: Cursor, events: int, size: int, message: m.ServerMessage) -> None:
        unacked = cursor.sent - cursor.acked
        assert unacked + events <= cursor.events_max, f"{message}: {unacked} events are unacknowledged"
        if events == 1 and not cursor.in_flight:
            return
        assert cursor.unacked + size <= cursor.bytes_max, f"{message}: {cursor.unacked} bytes unacknowledged"
        whole = sum(each.unacked for each in self.cursors.values())
        assert whole + size <= self._limits.connection_bytes, f"{message}: {whole} bytes on the connection"


def is_log(log: Log, epoch: int, message: m.Delta | m.Event | m.Retract | m.End) -> bool:
    """Whether the message says what the log said at some time of that epoch. A merge may meet the moment when
    text was taken back: its first part is from before, the rest from after."""
    if not isinstance(message, m.Delta):
        return any(_is(entry, message) for entry in _at(log, epoch, message.o or 0))
    assert len(message.x.encode()) <= DELTA_BYTES_MAX or message.a == message.b, "a merge of more than 16 KiB"
    rest, p = message.x, message.p
    for o in range(message.a, message.b + 1):
        fits = [e for e in _at(log, epoch, o) if e.k is EntryKind.TEXT and rest.startswith(e.x)]
        if o == message.a:
            fits = [entry for entry in fits if entry.p == p]
        if not fits:
            return False
        rest = rest[len(max(fits, key=lambda entry: len(entry.x)).x) :]
    return not rest


def _at(log: Log, epoch: int, o: int) -> list[Entry]:
    versions = [version.entries for version in log.versions if version.epoch == epoch]
    stored = [entry for entry in log.stored or [] if entry.o == o]
    return stored + [entries[o - 1] for entries in versions if 0 < o <= len(entries)]


def _is(entry: Entry, message: m.Event | m.Retract | m.End) -> bool:
    match message:
        case m.Event():
            return entry.k.value == message.k
        case m.Retract():
            return entry.k is EntryKind.RETRACT and entry.p == message.p
        case m.End():
            return entry.k is EntryKind.END
