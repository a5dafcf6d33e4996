"""One request as one connection reads it: a cursor, a window, and the pace of its deltas. Pure.

A shut window buffers nothing (INV-18): entries that cannot be sent are dropped here and read from the log
again later. Only entries that the pace alone holds back for a few milliseconds are kept, and those always fit
the window.
"""

from dataclasses import dataclass

from core.redis.unreadable import Unreadable, read
from engine.api import Entry, EntryKind
from server.protocol.messages import Delta, End, Event, Retract, ServerMessage, Snap
from server.session.backpressure import NEVER, Backpressure, BackpressureChange
from server.session.entries import message_of
from server.session.limits import (
    BATCH_AFTER_SECONDS,
    CATCH_UP_SECONDS,
    DELTA_BATCH_SECONDS,
    DELTA_BYTES_MAX,
    SessionLimits,
)
from server.session.window import OTHER_BYTES, ConnectionWindow, RequestWindow

UNPACED = 0.0


@dataclass(frozen=True)
class DeltaPace:
    """The client's pace of deltas, in seconds. `trace`: it wants each one's number and its wait here."""

    interval: float
    batch: bool = False
    trace: bool = False


@dataclass(frozen=True)
class ReaderStanding:
    """How far one reader is: offsets in the log, bytes, and the time since which it is paused or stuck."""

    sent: int
    acked: int
    head: int
    window_events: int
    unacked_bytes: int
    window_bytes: int
    paused_since: float | None
    stuck_since: float | None


class Stream:
    """The reading of one request. `window.sent` is the cursor."""

    def __init__(
        self, g: int, id: str, epoch: int, window: RequestWindow, pace: DeltaPace, backpressure: Backpressure
    ) -> None:
        self.g = g
        self.id = id
        self.epoch = epoch
        self.window = window
        self.backpressure = backpressure
        self.head = 0
        self.reading = False
        self.moving = False
        self.damaged: Unreadable | None = None
        self.ended_at: int | None = None
        self.stalled: float | None = None
        self.due = NEVER
        self._tokens = 0
        self._pace = pace
        self._pending: list[Entry] = []
        self._pending_since = 0.0
        self._deltas = 0
        self._blocked = False
        self._first_delta_at: float | None = None
        self._next_delta_at = UNPACED

    def restart(self, o: int, head: int, epoch: int) -> None:
        """Read on from `o`, whatever was sent before."""
        self.window.restart(o)
        self.backpressure.restart()
        self.head, self.epoch = head, epoch
        self.ended_at = None
        self._pending.clear()
        self._next_delta_at = UNPACED
        self._blocked = self.moving = self.reading = False

    def snap(self, text: str) -> Snap:
        """Replace the client's text by the text through the cursor. Bypasses the window, but counts."""
        snap = Snap(self.g, self.epoch, self.window.sent, text)
        if text:
            self.window.count(self.window.sent, _size(text))
        return snap

    def offer(self, entries: list[Entry], head: int, now: float) -> None:
        """Take news of the log that continue the cursor, and remember whether there is more."""
        if entries:
            head = max(head, entries[-1].o)
            self._tokens = max(self._tokens, entries[-1].i)
        self.head = max(self.head, head)
        if self._blocked or self.moving:
            return
        if not self._pending:
            self._pending_since = now
        next_o = (self._pending[-1].o if self._pending else self.window.sent) + 1
        for entry in entries:
            if entry.o == next_o:
                self._pending.append(entry)
                next_o += 1

    def opened(self) -> None:
        """Note an acknowledgement: a shut window may be open."""
        self._blocked = False

    def note_due(self) -> None:
        """Set `due` to the time when the pace lets a delta go, or backpressure needs a look."""
        if self.moving:
            self.due = NEVER
            return
        look_due = self.backpressure.due()
        self.due = min(look_due, self._next_delta_at) if self._pending else look_due

    def wants_log(self) -> bool:
        """True where the log has more that the window has room for."""
        idle = not (self.reading or self.moving or self._pending or self._blocked)
        return idle and self.window.sent < self.head and self.window.fits(1, 1)

    def deliver(self, now: float) -> list[ServerMessage]:
        """All messages that may be sent now, in log order, up to an unreadable entry (`damaged`)."""
        messages: list[ServerMessage] = []
        while self._pending and not self.moving and self.damaged is None:
            text = self._pending[0].k is EntryKind.TEXT
            if text and now < self._next_delta_at and not (self.backpressure.catching_up and self._fills()):
                self._keep_what_fits()
                break
            message = self._delta(now) if text else self._other()
            if message is None:
                self._pending.clear()
                self._blocked = True
                break
            messages.append(message)
        if messages and self.backpressure.paused:
            messages.insert(0, Event(self.g, "unpaused"))
        self._note_progress(bool(messages), now)
        return messages

    def ack(self, o: int, now: float) -> bool:
        """Note that everything through `o` is applied. True: the reader was stuck until now."""
        moved = o > self.window.acked
        self.window.ack(o)
        return moved and self.backpressure.acked(now, self.window.acked < self.head)

    def escalate(self, now: float) -> BackpressureChange | None:
        """Look whether the reader is newly paused or stuck; None where neither changed."""
        return self.backpressure.escalate(now, self._tokens - self.window.tokens_acked)

    def standing(self) -> ReaderStanding:
        """How far the client reads, and what may be on its way to it."""
        window, behind = self.window, self.backpressure
        return ReaderStanding(
            sent=window.sent,
            acked=window.acked,
            head=self.head,
            window_events=window.events_max,
            unacked_bytes=window.unacked,
            window_bytes=window.unacked + window.bytes_room(),
            paused_since=behind.paused_since,
            stuck_since=behind.stuck_since,
        )

    def take_stall(self) -> float | None:
        """Seconds of the stall that just ended, once; else None."""
        stalled, self.stalled = self.stalled, None
        return stalled

    def done(self) -> bool:
        """True where the client has applied the end."""
        return self.ended_at is not None and self.window.acked >= self.ended_at

    def _note_progress(self, sent: bool, now: float) -> None:
        window, backpressure = self.window, self.backpressure
        if window.acked < self.head:
            backpressure.waits(now)
        if sent:
            self.stalled = backpressure.opened(now)
        if window.sent >= self.head:
            backpressure.caught_up()
        elif not self.moving and (self._blocked or not window.fits(1, 1)):
            backpressure.shut(now)

    def _delta(self, now: float) -> Delta | None:
        """Merge as much text as window and message size allow into one delta."""
        taken, size = 0, 0
        for entry in self._pending:
            grown = size + _size(entry.x)
            if entry.k is not EntryKind.TEXT or (taken and grown > DELTA_BYTES_MAX):
                break
            if not self.window.fits(taken + 1, grown):
                break
            taken, size = taken + 1, grown
        if not taken:
            return None
        entries, self._pending = self._pending[:taken], self._pending[taken:]
        self.window.count(entries[-1].o, size, entries[-1].i)
        self._set_pace(now)
        self._deltas += 1
        trace = self._pace.trace
        return Delta(
            g=self.g,
            a=entries[0].o,
            b=entries[-1].o,
            p=entries[0].p,
            x=entries[0].x if taken == 1 else "".join(entry.x for entry in entries),
            i=entries[-1].i,
            batch=self._deltas if trace else None,
            ms=int((now - self._pending_since) * 1000) if trace else None,
        )

    def _other(self) -> Event | Retract | End | None:
        entry = self._pending[0]
        if not self.window.fits(1, OTHER_BYTES):
            return None
        del self._pending[0]
        message = read("entry", lambda logged: message_of(self.g, logged), entry)
        if isinstance(message, Unreadable):
            self.damaged = message
            return None
        self.window.count(entry.o, OTHER_BYTES)
        if isinstance(message, End):
            self.ended_at = entry.o
        return message

    def _set_pace(self, now: float) -> None:
        if self._first_delta_at is None:
            self._first_delta_at = now
        interval = self._pace.interval
        if self.backpressure.catching_up or self.backpressure.paused:
            interval = CATCH_UP_SECONDS
        elif self._pace.batch and now - self._first_delta_at >= BATCH_AFTER_SECONDS:
            interval = DELTA_BATCH_SECONDS
        self._next_delta_at = now + interval

    def _fills(self) -> bool:
        """True where waiting longer would not make the next delta any larger."""
        window = self.window
        most = min(DELTA_BYTES_MAX, window.bytes_room())
        return len(self._pending) >= window.events_room() or sum(_size(e.x) for e in self._pending) >= most

    def _keep_what_fits(self) -> None:
        size = 0
        for at, entry in enumerate(self._pending):
            size += _size(entry.x) if entry.k is EntryKind.TEXT else OTHER_BYTES
            if not self.window.fits(at + 1, size):
                # A first entry that does not fit is dropped too: `deliver` meets the window at the next tick.
                del self._pending[max(at, 1) :]
                return


def new_window(
    connection: ConnectionWindow, limits: SessionLimits, events: int | None, size: int | None
) -> RequestWindow:
    """A request's window as the client asked for it, within the limits."""
    return RequestWindow(
        connection,
        limits.events if events is None else min(events, limits.events),
        limits.bytes if size is None else min(size, limits.bytes),
    )


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
