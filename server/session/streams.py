"""All requests that one connection reads: their streams by id and by `g`, and acknowledgements. Pure."""

from dataclasses import dataclass

from core.errors import Refusal
from server.protocol import messages as m
from server.protocol.codes import ErrorCode, refusal
from server.session import effects as fx
from server.session.backpressure import NEVER, Backpressure
from server.session.events import LogGrew, LogRead, ReadableRequest
from server.session.limits import SessionLimits
from server.session.stream import DeltaPace, ReaderStanding, Stream, new_window
from server.session.window import ConnectionWindow


@dataclass(frozen=True)
class BadAck:
    """An acknowledgement or a window that the protocol does not allow. `beyond`: of an offset never sent."""

    refusal: Refusal
    id: str | None = None
    beyond: bool = False


class ConnectionStreams:
    """The streams of one connection. `g` counts up and is never used again."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._connection = ConnectionWindow(limits.connection_bytes)
        self._asked = m.WindowRequest()
        self._pace = DeltaPace(limits.delta_interval)
        self._by_id: dict[str, Stream] = {}
        self._by_g: dict[int, Stream] = {}
        self._g = 0

    def agree(self, hello: m.Hello) -> None:
        """Take windows and pace that the client asked for."""
        self._asked = hello.window or m.WindowRequest()
        self._pace = DeltaPace(self._limits.delta_interval, "batch" in hello.caps, "trace" in hello.caps)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: str) -> bool:
        return id in self._by_id

    def __getitem__(self, id: str) -> Stream:
        return self._by_id[id]

    def ids(self) -> list[str]:
        """The requests that are being read."""
        return list(self._by_id)

    def open(self, reading: ReadableRequest) -> Stream:
        """The stream of a request, a new one where it is not read yet."""
        known = self._by_id.get(reading.id)
        if known is not None:
            return known
        self._g += 1
        self._connection.requests += 1
        window = new_window(self._connection, self._limits, self._asked.events, self._asked.bytes)
        stream = Stream(self._g, reading.id, reading.epoch, window, self._pace, Backpressure(self._limits))
        self._by_id[reading.id] = self._by_g[stream.g] = stream
        return stream

    def begin(self, reading: ReadableRequest, now: float) -> list[fx.Effect]:
        """Follow from the reading's offset, after a snap where the client must forget."""
        stream = self._by_id[reading.id]
        stream.restart(reading.o, reading.head, reading.epoch)
        out: list[fx.Effect] = [fx.Follow(reading.id)]
        if reading.head > reading.o:
            out.append(fx.Measure(fx.MeasureKind.REPLAYED_EVENTS, reading.head - reading.o))
        if reading.snap is not None:
            out.append(fx.Emit(stream.snap(reading.snap)))
        return out + self._deliver(stream, now)

    def hold(self, id: str) -> list[fx.Effect]:
        """Send nothing of this request until its new cursor is known, as the client moves it."""
        if id in self._by_id:
            self._by_id[id].moving = True
            return [fx.Measure(fx.MeasureKind.GAPS_REPAIRED, 1)]
        return []

    def broken(self, id: str) -> list[fx.Effect]:
        """Send nothing more of a lost or replaced log; find out where the request goes on."""
        stream = self._by_id.get(id)
        if stream is None or stream.moving:
            return []
        stream.moving = True
        return [fx.Reopen(id, stream.epoch, stream.window.sent)]

    def drop(self, id: str, done: bool = False, damaged: str = "") -> list[fx.Effect]:
        """Stop reading a request; nothing where it is not read."""
        stream = self._by_id.pop(id, None)
        if stream is None:
            return []
        stream.window.forget()
        self._connection.requests -= 1
        del self._by_g[stream.g]
        return [fx.Unfollow(id, done, damaged)]

    def log(self, event: LogGrew | LogRead, now: float) -> list[fx.Effect]:
        """Take news of a log, or the part of it that was asked for."""
        stream = self._by_id.get(event.id)
        if stream is None:
            return []
        if isinstance(event, LogGrew):
            stream.offer(event.entries, event.head, now)
        else:
            self._take_read(stream, event, now)
        return self._deliver(stream, now)

    def _take_read(self, stream: Stream, event: LogRead, now: float) -> None:
        stream.reading = False
        if event.after != stream.window.sent or event.epoch != stream.epoch:
            return  # the cursor moved while the log was read: these are not the entries that come next
        if not event.entries:
            stream.head = event.after  # there is no more until news say so
        stream.offer(event.entries, 0, now)

    def due(self) -> float:
        """Time at which a stream's pace or backpressure needs a tick."""
        return min([stream.due for stream in self._by_id.values()], default=NEVER)

    def in_flight(self) -> int:
        """Unacknowledged bytes."""
        return self._connection.unacked

    def standing(self, id: str) -> ReaderStanding | None:
        """How far a request is read; None: not here."""
        stream = self._by_id.get(id)
        return None if stream is None else stream.standing()

    def tick(self, now: float) -> list[fx.Effect]:
        """Send what the pace lets go now, and find readers that have fallen behind."""
        out: list[fx.Effect] = []
        for stream in list(self._by_id.values()):
            if stream.due <= now:
                out.extend(self._deliver(stream, now))
        return out

    def ack(self, acks: m.Acks, windows: m.Windows, now: float) -> tuple[list[fx.Effect], BadAck | None]:
        """Take acknowledgements and event windows, then send what they let through.

        A bad one is not taken and the last such is returned; the others count. An unknown g was freed."""
        out: list[fx.Effect] = []
        bad = self._set_windows(windows)
        for g, o in acks:
            stream = self._by_g.get(g)
            if stream is None:
                continue
            if stream.window.sent < o <= stream.window.sent_most:
                continue  # sent before the client heard that its cursor was moved back
            if o > stream.window.sent:
                problem = f"offset {o} of g {g} was not sent yet"
                bad = BadAck(refusal(ErrorCode.BAD_MESSAGE, problem), stream.id, beyond=True)
                continue
            out.append(fx.Measure(fx.MeasureKind.ACK_LAG_EVENTS, stream.window.sent - stream.window.acked))
            if stream.ack(o, now):
                out.append(fx.ReportReader(stream.id, stuck=False))
            if stream.done():
                out.extend(self.drop(stream.id, done=True))
        if acks or windows:
            out.extend(self._reopen(now))
        return out, bad

    def _set_windows(self, windows: m.Windows) -> BadAck | None:
        bad: BadAck | None = None
        for key, events in windows.items():
            number = _number(key)
            if number is None:
                bad = BadAck(refusal(ErrorCode.BAD_MESSAGE, "w: a key is no g"))
            elif stream := self._by_g.get(number):
                stream.window.events_max = min(events, self._limits.events)
        return bad

    def _reopen(self, now: float) -> list[fx.Effect]:
        out: list[fx.Effect] = []
        for stream in list(self._by_id.values()):
            stream.opened()
            out.extend(self._deliver(stream, now))
        return out

    def _refuse(self, stream: Stream) -> list[fx.Effect]:
        """End the reading of a log with an unreadable entry; other readings of this connection go on."""
        lost = refusal(ErrorCode.LOG_LOST, "the platform lost a part of this answer")
        error = m.Error(lost.code, lost.message, lost.retry, id=stream.id)
        return [fx.Emit(error), *self.drop(stream.id, damaged=str(stream.damaged))]

    def _deliver(self, stream: Stream, now: float) -> list[fx.Effect]:
        out: list[fx.Effect] = [fx.Emit(message) for message in stream.deliver(now)]
        if stream.damaged is not None:
            return out + self._refuse(stream)
        if (stalled := stream.take_stall()) is not None:
            out.append(fx.Measure(fx.MeasureKind.STALL_SECONDS, stalled))
        if (escalated := stream.escalate(now)) is not None:
            if escalated.paused:
                out.append(fx.Emit(m.Event(stream.g, "paused")))
            if escalated.stuck:
                out.append(fx.ReportReader(stream.id, stuck=True))
        stream.note_due()
        if stream.wants_log():
            stream.reading = True
            window = stream.window
            room = window.events_room(), max(1, window.bytes_room())
            out.append(fx.ReadLog(stream.id, stream.epoch, window.sent, *room))
        return out


def _number(key: int | str) -> int | None:
    if isinstance(key, int):
        return key
    return int(key) if key.isascii() and key.isdecimal() and len(key) < 10 else None
