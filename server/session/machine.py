"""Decides what one connection's session does next. No sockets, no clock, no await.

`handle(event, now) -> effects`; `deadline()` says when it wants a TimerFired. `now` is monotonic seconds.
"""

import random
from enum import StrEnum
from typing import assert_never

from msgspec import UNSET, UnsetType

from core.errors import Refusal
from server.protocol import codec
from server.protocol import messages as m
from server.protocol.codes import CloseCode, ErrorCode, limit_facts, refusal, refused_prompt, too_many_tokens
from server.protocol.context_use import ContextUse
from server.session import effects as fx
from server.session import events as ev
from server.session.access_timer import AccessTimer
from server.session.backpressure import NEVER
from server.session.heartbeat import Heartbeat
from server.session.limits import SessionLimits
from server.session.pending import PendingRequests
from server.session.stream import ReaderStanding, Stream
from server.session.streams import ConnectionStreams
from server.session.violations import AckViolations, Violations


class SessionState(StrEnum):
    """State of a connection's session."""

    CONNECTED = "connected"
    OPENING = "opening"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


TRANSITIONS = {
    SessionState.CONNECTED: {SessionState.OPENING, SessionState.CLOSED},
    SessionState.OPENING: {SessionState.OPEN, SessionState.CLOSED},
    SessionState.OPEN: {SessionState.DRAINING, SessionState.CLOSED},
    SessionState.DRAINING: {SessionState.CLOSED},
    SessionState.CLOSED: set[SessionState](),
}
SERVING = frozenset({SessionState.OPEN, SessionState.DRAINING})


class Session:
    """One connection's session, from its first frame to its close."""

    def __init__(self, limits: SessionLimits, now: float, jitter: random.Random) -> None:
        self.state = SessionState.CONNECTED
        self.close_code: CloseCode | None = None
        self.resumed: str | None = None
        self._limits = limits
        self._hello_by = now + limits.hello_seconds
        self._heartbeat = Heartbeat(limits, jitter)
        self._access = AccessTimer(limits.auth_notice_seconds)
        self._close_by = NEVER
        self._violations = Violations(limits)
        self._acks = AckViolations()
        self._readings = ConnectionStreams(limits)
        self._pending = PendingRequests()
        self._unconfirmed = True

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:  # noqa: C901  (one arm an event)
        """The effects of one event."""
        if self.state is SessionState.CLOSED:
            return []
        match event:
            case ev.FrameReceived():
                return self._received(event.message, now)
            case ev.FrameRejected():
                return self._frame_refused(event, now)
            case ev.Opened() | ev.HelloRefused():
                return self._opened(event, now)
            case ev.SendAccepted() | ev.SendRefused():
                return self._turn(event, now)
            case ev.AttachAllowed() | ev.AttachRefused():
                return self._attach_answered(event, now)
            case ev.CancelAnswered():
                return [fx.Emit(m.CancelOk(event.id, event.state))]
            case ev.CancelRefused():
                return [_error(event.refusal, "cancel", event.id)]
            case ev.LogGrew() | ev.LogRead():
                return self._readings.log(event, now)
            case ev.LogBroken():
                return self._readings.broken(event.id)
            case ev.Reauthenticated():
                self._access.granted(now, event.expires_in_ms)
                return [fx.Emit(m.AuthOk(event.expires_in_ms))]
            case ev.AccessChanged():
                self._access.granted(now, event.access_ms)
                return []
            case ev.AuthRefused():
                return self._auth_refused(event)
            case ev.TimerFired():
                return self._timer(now)
            case ev.DrainStarted():
                return self._drain(event.in_ms, now)
            case ev.CloseOrdered():
                return self._close(event.code, *([_error(event.refusal)] if event.refusal else []))
            case ev.ConnectionLost():
                return self._lost()
            case _:
                assert_never(event)

    def deadline(self) -> float | None:
        """Time by which TimerFired is due, None: never."""
        match self.state:
            case SessionState.CONNECTED:
                return self._hello_by
            case SessionState.OPENING | SessionState.CLOSED:
                return None
            case SessionState.OPEN | SessionState.DRAINING:
                return min(self._heartbeat.due(), self._access.due(), self._close_by, self._readings.due())
            case _:
                assert_never(self.state)

    def _to(self, state: SessionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

    # Frames

    def _received(self, message: m.ClientMessage, now: float) -> list[fx.Effect]:
        self._heartbeat.heard()
        if self.state not in SERVING:
            return self._first(message, now)
        confirmed: list[fx.Effect] = [fx.ConfirmResumeToken()] if self._unconfirmed else []
        self._unconfirmed = False
        return confirmed + self._frame(message, now)

    def _first(self, message: m.ClientMessage, now: float) -> list[fx.Effect]:
        name = codec.type_of(message)
        if not isinstance(message, m.Hello):
            problem = refusal(ErrorCode.BAD_MESSAGE, "the first message must be hello")
            return self._close(CloseCode.BAD_MESSAGE, _error(problem, name))
        if self.state is SessionState.OPENING:
            return self._bad(now, refusal(ErrorCode.BAD_MESSAGE, "hello was said already"), name)
        if message.v != 1:
            problem = refusal(ErrorCode.BAD_MESSAGE, "this server speaks version 1: send hello with v 1")
            return self._close(CloseCode.VERSION, _error(problem, name))
        self._to(SessionState.OPENING)
        self._readings.agree(message)
        return [fx.OpenSession(message)]

    def _frame(self, message: m.ClientMessage, now: float) -> list[fx.Effect]:  # noqa: C901  (one arm a type)
        match message:
            case m.Hello():
                return self._bad(now, refusal(ErrorCode.BAD_MESSAGE, "hello was said already"), "hello")
            case m.Send():
                return self._send(message)
            case m.Attach():
                return self._attach(message)
            case m.Detach():
                return self._detach(message.id)
            case m.Ack():
                return self._ack(message.a, message.w or {}, now, "ack")
            case m.Cancel():
                return self._cancel(message.id)
            case m.Auth():
                return [fx.Reauthenticate(message.token)]
            case m.Ping():
                return [fx.Emit(m.ServerPong(message.ts)), *self._ack(message.a or [], {}, now, "ping")]
            case m.Pong():
                return self._ack(message.a or [], {}, now, "pong")
            case m.Bye():
                return [fx.EndSession(), *self._close(CloseCode.NORMAL)]
            case _:
                assert_never(message)

    def _frame_refused(self, event: ev.FrameRejected, now: float) -> list[fx.Effect]:
        self._heartbeat.heard()
        if self.state is SessionState.CONNECTED:
            return self._close(CloseCode.BAD_MESSAGE, _error(event.refusal, event.re, event.id))
        if event.refusal.code == ErrorCode.BAD_MESSAGE:
            return self._bad(now, event.refusal, event.re, event.id)
        return [_error(event.refusal, event.re, event.id)]

    def _bad(
        self, now: float, refused: Refusal, re: str | None = None, id: str | None = None
    ) -> list[fx.Effect]:
        error = _error(refused, re, id)
        return self._close(CloseCode.BAD_MESSAGE, error) if self._violations.add(now) else [error]

    # Opening and closing

    def _auth_refused(self, event: ev.AuthRefused) -> list[fx.Effect]:
        """Handle a refused token: a wrong one ends the session; one that was not checked may come again."""
        error = _error(event.refusal, "auth")
        return [error] if event.refusal.retry else self._close(event.close, error)

    def _opened(self, event: ev.Opened | ev.HelloRefused, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.HelloRefused):
            return self._close(event.close, _error(event.refusal, "hello"))
        self._to(SessionState.OPEN)
        self._heartbeat.start(now)
        self._access.granted(now, event.access_ms)
        listed: list[m.WelcomeRequest] = []
        readings: list[ev.ReadableRequest] = []
        for request in event.requests:
            if isinstance(request, ev.NotResumed):
                listed.append(m.WelcomeRequest(request.id, "gone", why=request.why))
            elif len(self._readings) < self._limits.requests:
                listed.append(_listed(self._readings.open(request), request))
                readings.append(request)
            else:  # no room for it now: the client attaches it when there is
                place = m.WelcomeRequest(request.id, request.state, epoch=request.epoch, head=request.head)
                listed.append(place)
        out: list[fx.Effect] = [fx.Emit(self._welcome(event, listed))]
        for reading in readings:
            out.extend(self._readings.begin(reading, now))
        return out

    def _welcome(self, event: ev.Opened, listed: list[m.WelcomeRequest]) -> m.Welcome:
        limits = self._limits
        snapped = any(isinstance(r, ev.NotResumed) or r.snap is not None for r in event.requests)
        self.resumed = ("partial" if snapped else "full") if event.resumed else "none"
        return m.Welcome(
            session=event.session,
            connection=event.connection,
            resume_token=event.resume_token,
            resume_expires_at=event.resume_expires_at,
            heartbeat=m.HeartbeatTimes(
                int(limits.heartbeat_interval * 1000), int(limits.heartbeat_timeout * 1000)
            ),
            limits=m.WireLimits(
                limits.events, limits.bytes, limits.frame_bytes, limits.requests, limits.connection_bytes
            ),
            resumed=self.resumed,
            requests=listed,
            now=event.now_ms,
        )

    def _close(self, code: CloseCode, *last: fx.Effect) -> list[fx.Effect]:
        self.close_code = code
        return [*last, *self._lost(), fx.Close(code)]

    def _lost(self) -> list[fx.Effect]:
        self._to(SessionState.CLOSED)
        return [effect for id in self._readings.ids() for effect in self._readings.drop(id)]

    def _drain(self, in_ms: int, now: float) -> list[fx.Effect]:
        """Ask the client to go on elsewhere; until it does, or its time is up, everything works as before."""
        if self.state is not SessionState.OPEN:
            return self._close(CloseCode.DRAIN)
        self._to(SessionState.DRAINING)
        self._close_by = now + in_ms / 1000
        return [fx.Emit(m.GoAway("drain", in_ms))]

    def _timer(self, now: float) -> list[fx.Effect]:
        if self.state is SessionState.CONNECTED and now >= self._hello_by:
            return self._close(CloseCode.HELLO_TIMEOUT)
        if self.state not in SERVING:
            return []
        if now >= self._close_by:
            return self._close(CloseCode.DRAIN)
        if self._heartbeat.lost(now):
            return self._close(CloseCode.NO_PONG)
        if self._access.over(now):
            problem = "access has ended: connect again with a fresh token"
            return self._close(CloseCode.AUTH_EXPIRED, _error(refusal(ErrorCode.TOKEN_EXPIRED, problem)))
        out: list[fx.Effect] = [fx.Emit(m.ServerPing(int(now * 1000)))] if self._heartbeat.ping(now) else []
        if (left_ms := self._access.notice(now)) is not None:
            out.append(fx.Emit(m.AuthRequired(left_ms)))
        return out + self._readings.tick(now)

    def in_flight(self) -> int:
        """Bytes sent and not acknowledged."""
        return self._readings.in_flight()

    def reads(self) -> int:
        """Number of requests that are being read."""
        return len(self._readings)

    def standing(self, id: str) -> ReaderStanding | None:
        """How far a request is read; None: not here."""
        return self._readings.standing(id)

    # Requests

    def _send(self, message: m.Send) -> list[fx.Effect]:
        known = message.id in self._readings or self._pending.sent(message.id)
        if not known and self._full():
            return [_error(self._too_many(), "send", message.id)]
        self._pending.send(message.id)
        return [fx.StartSend(message)]

    def _turn(self, event: ev.SendAccepted | ev.SendRefused, now: float) -> list[fx.Effect]:
        id = event.id if isinstance(event, ev.SendRefused) else event.reading.id
        wished = self._pending.answered(id)
        if isinstance(event, ev.SendRefused):
            return [_error(event.refusal, "send", id)]
        reading = event.reading
        fresh = id not in self._readings
        stream = self._readings.open(reading)
        place = m.QueuePosition(event.position, event.wait_ms)
        named = (id, stream.g, reading.epoch, event.dup, event.priority)
        flags = list(event.flags) or UNSET
        accepted = m.Accepted(*named, place, event.quota, flags, *_pinned(reading))
        out: list[fx.Effect] = [fx.Emit(accepted)]
        if fresh and wished.detached:
            self._readings.drop(id)
        elif fresh:
            out.extend(self._readings.begin(reading, now))
        if wished.cancelled:
            out.append(fx.StartCancel(id, answer=False))
        return out

    def _attach(self, message: m.Attach) -> list[fx.Effect]:
        known = message.id in self._readings or self._pending.sent(message.id)
        if not known and self._full():
            return [_error(self._too_many(), "attach", message.id)]
        self._pending.attach(message.id)
        return [*self._readings.hold(message.id), fx.StartAttach(message.id, message.epoch, message.o)]

    def _detach(self, id: str) -> list[fx.Effect]:
        """Stop reading a request, and cancel the reading of pending sends and attaches."""
        self._pending.detach(id)
        return self._readings.drop(id)

    def _attach_answered(self, event: ev.AttachAllowed | ev.AttachRefused, now: float) -> list[fx.Effect]:
        id = event.id if isinstance(event, ev.AttachRefused) else event.reading.id
        wanted = self._pending.attached(id) if event.asked else id in self._readings
        if not wanted:
            return []
        if isinstance(event, ev.AttachRefused):
            error = _error(event.refusal, "attach" if event.asked else None, event.id)
            return [error, *self._readings.drop(event.id)]
        reading = event.reading
        known = reading.id in self._readings or self._pending.sent(reading.id)
        if not known and self._full():
            return [_error(self._too_many(), "attach", reading.id)]
        g = self._readings.open(reading).g
        place = (reading.epoch, reading.o + 1, reading.head, reading.state)
        attached = m.Attached(g, reading.id, *place, *_pinned(reading))
        return [fx.Emit(attached), *self._readings.begin(reading, now)]

    def _cancel(self, id: str) -> list[fx.Effect]:
        if self._pending.sent(id) and id not in self._readings:
            self._pending.cancel(id)
            return [fx.Emit(m.CancelOk(id, "pending"))]
        return [fx.StartCancel(id)]

    def _full(self) -> bool:
        waiting = sum(1 for id in self._pending.ids() if id not in self._readings)
        return len(self._readings) + waiting >= self._limits.requests

    def _too_many(self) -> Refusal:
        most = self._limits.requests
        problem = f"this connection has {most} requests already: acknowledge an end, or detach one, first"
        return refusal(ErrorCode.RATE_LIMITED, problem, scope="connection", limit=most, after_ms=1000)

    # Acknowledgements

    def _ack(self, acks: m.Acks, windows: m.Windows, now: float, re: str) -> list[fx.Effect]:
        out, bad = self._readings.ack(acks, windows, now)
        if bad is None:
            return out
        if bad.beyond and self._acks.add():
            return out + self._close(CloseCode.BAD_MESSAGE, _error(bad.refusal, re, bad.id))
        return out + self._bad(now, bad.refusal, re, bad.id)


def _listed(stream: Stream, reading: ev.ReadableRequest) -> m.WelcomeRequest:
    return m.WelcomeRequest(
        reading.id,
        reading.state,
        g=stream.g,
        epoch=reading.epoch,
        from_=reading.o + 1,
        head=reading.head,
        context=reading.facts.context,
        max_tokens=reading.facts.max_tokens,
    )


def _pinned(reading: ev.ReadableRequest) -> tuple[ContextUse | UnsetType, int | UnsetType]:
    return reading.facts.context or UNSET, reading.facts.max_tokens or UNSET


def _error(refused: Refusal, re: str | None = None, id: str | None = None) -> fx.Emit:
    return fx.Emit(
        m.Error(
            refused.code,
            refused.message,
            refused.retry,
            re,
            id,
            refused.after_ms,
            **limit_facts(refused),
            safety=refused_prompt(refused),
            tokens=too_many_tokens(refused),
        )
    )
