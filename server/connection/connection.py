"""One socket and one session machine: takes frames, hands effects on, writes. No task of its own.

Decides nothing about the protocol. A client's use of memory is bounded: its socket is not read while answers
pile up unread or its session opens, and logged messages are bounded by the windows.
"""

import asyncio
import random
from collections import deque

from billing.api import Principal
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.gateway_questions import ConnectionFacts
from server import instruments
from server.access import amount_visibility
from server.connection.effect_handlers import Caller, EffectHandlers, UseCases
from server.connection.end_log import EndLog
from server.connection.registry import ConnectionRegistry
from server.connection.websocket import SocketWriter
from server.instruments import TALLY
from server.protocol import codec
from server.protocol.codec import Malformed, Subprotocol
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import ServerMessage
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import SessionLimits
from server.session.machine import Session
from server.session.stream import ReaderStanding

OUTBOX_MESSAGES_MAX = 512
CLOSING_WRITE_SECONDS = 1.0

log = logger(__name__)
repeated = RepeatedWarning(log)

_EPOCH = now_ms() / 1000 - monotonic()
_jitter = random.Random()


def clock() -> float:
    """Monotonic seconds that start at Unix time, so that timestamps on the wire are meaningful."""
    return _EPOCH + monotonic()


class Connection:
    """One socket, from its upgrade to its close."""

    def __init__(
        self,
        settings: Settings,
        limits: SessionLimits,
        registry: ConnectionRegistry,
        use_cases: UseCases,
        writer: SocketWriter,
        subprotocol: Subprotocol,
        caller: Caller,
        id: str,
        gateway: str,
        ends: EndLog,
    ) -> None:
        self.id = id
        self.address = caller.address
        self.origins = caller.origins
        self.principal: Principal | None = None
        self._settings = settings
        self._registry = registry
        self._writer = writer
        self._subprotocol = subprotocol
        self._text = subprotocol is Subprotocol.JSON
        self._handlers = EffectHandlers(use_cases, self, caller.bearer)
        self._session = Session(limits, clock(), _jitter)
        self._gateway = gateway
        self._ends = ends
        self._inbox: deque[str | bytes] | None = None
        self._outbox: deque[ServerMessage | CloseCode] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._blocked: asyncio.TimerHandle | None = None
        self._left = False
        self._started = clock()
        self._frames_in = self._frames_out = 0
        self._peer_code: int | None = None
        self._crashed: CloseCode | None = None

    def start(self) -> None:
        """Start to wait for hello."""
        entered = self._registry.enter(self)
        self._arm()
        if not entered:
            self.put_out()
        if self._registry.draining:
            self.feed(ev.DrainStarted(0))

    def feed(self, event: ev.Event) -> None:
        """Feed the machine an event, and perform its effects. A fault of ours ends this connection,
        resumably."""
        try:
            for effect in self._session.handle(event, clock()):
                self._do(effect)
            self._arm()
        except Exception:
            log.exception("connection.session_crashed", connection=self.id, cause=type(event).__name__)
            self._crashed = CloseCode.INTERNAL
            self._writer.close(CloseCode.INTERNAL)
            self._leave()

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        self.feed(ev.CloseOrdered(code, refusal(reason, message) if reason else None))

    def put_out(self) -> None:
        """Close it to make room, as it said no hello."""
        problem = "too many connections are open that have not said hello: say it at once"
        self.order_close(CloseCode.RATE_LIMITED, ErrorCode.RATE_LIMITED, problem)
        self._writer.abort(CloseCode.RATE_LIMITED)

    def bytes_in_flight(self) -> int:
        """Bytes sent and not acknowledged."""
        return self._session.in_flight()

    def standing(self, id: str) -> ReaderStanding | None:
        """See OpenSocket."""
        return self._session.standing(id)

    def facts(self) -> ConnectionFacts | None:
        """See OpenSocket."""
        principal, record = self.principal, self._handlers.record
        if principal is None:
            return None
        return ConnectionFacts(
            connection=self.id,
            session=record.session if record else "",
            gateway=self._gateway,
            key=principal.key,
            user_id=principal.user,
            client=self._handlers.client,
            protocol=self._subprotocol.value,
            since_ms=int(self._started * 1000),
            reads=self._session.reads(),
            unacked_bytes=self._session.in_flight(),
        )

    # Frames in

    def received(self, frame: str | bytes) -> None:
        """See SocketListener."""
        if self._inbox or self._held():
            # At most the rest of one read of the socket: it is not read on.
            self._inbox = self._inbox or deque()
            self._inbox.append(frame)
            self._writer.hold()
        else:
            self._take(frame)

    def _held(self) -> bool:
        """True while the session opens, or work that frames caused is not done: take no more frames."""
        return self._handlers.full or len(self._outbox or ()) >= OUTBOX_MESSAGES_MAX

    def take_more(self) -> None:
        """See SessionSocket."""
        while self._inbox and not self._held():
            self._take(self._inbox.popleft())
        if not self._inbox and not self._left:
            self._writer.release()

    def _take(self, frame: str | bytes) -> None:
        self._frames_in += 1
        try:
            message = codec.decode(frame, self._subprotocol, self._settings.control_frame_bytes_max)
        except Malformed as malformed:
            TALLY.frames_in["malformed"] += 1
            self.feed(ev.FrameRejected(malformed.refusal, malformed.re, malformed.id))
            return
        TALLY.frames_in[codec.type_of(message)] += 1
        self.feed(ev.FrameReceived(message))

    # Frames out

    def _emit(self, item: ServerMessage | CloseCode) -> None:
        if self._outbox or self._writer.full:
            self._outbox = self._outbox or deque()
            self._outbox.append(item)
            self._watch_block()
        else:
            self._write(item)

    def _write(self, item: ServerMessage | CloseCode) -> None:
        if isinstance(item, CloseCode):
            self._writer.close(item)
            self._leave()
            return
        item = amount_visibility.seen_by(self.principal, item)
        payload = codec.encode(item, self._subprotocol)
        self._frames_out += 1
        TALLY.frames_out[codec.type_of(item)] += 1
        TALLY.bytes_out += len(payload)
        self._writer.write(payload, self._text)

    def writable(self) -> None:
        """See SocketListener."""
        if self._blocked is not None:
            self._blocked.cancel()
            self._blocked = None
        while self._outbox and not self._writer.full:
            self._write(self._outbox.popleft())
        if self._outbox:
            self._watch_block()
        self.take_more()

    def _watch_block(self) -> None:
        """Cut off a peer that takes nothing of what waits for it; a closing one has less time."""
        if self._blocked is None:
            closing = self._session.close_code is not None
            seconds = CLOSING_WRITE_SECONDS if closing else self._settings.write_blocked_seconds_max
            loop = asyncio.get_running_loop()
            self._blocked = loop.call_later(seconds, self._check_block, self._writer.unsent)

    def _check_block(self, unsent: int) -> None:
        self._blocked = None
        if self._session.close_code is None and self._writer.unsent < unsent:
            self._watch_block()
            return
        self.feed(ev.CloseOrdered(CloseCode.SLOW))
        self._writer.abort(self._session.close_code or CloseCode.SLOW)
        self._leave()

    # Doing what the machine says

    def _do(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Emit():
                self._emit(effect.message)
            case fx.Close():
                self._emit(effect.code)
            case fx.Measure():
                instruments.measure(effect)
            case _:
                self._handlers.start(effect)

    def opened(self) -> None:
        """See SessionSocket."""
        if self._session.resumed is None:  # closed meanwhile
            return
        instruments.RESUMES.add(1, {"outcome": self._session.resumed})
        if self._registry.draining:
            self.feed(ev.DrainStarted(self._registry.drain_left_ms()))

    # Time and end

    def _arm(self) -> None:
        """Set a timer for the machine's deadline; an earlier timer stays and looks again."""
        due = self._session.deadline()
        if due is None or due >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - clock()), self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self.feed(ev.TimerFired())

    def lost(self, code: int | None) -> None:
        """See SocketListener."""
        if self._peer_code is None:
            self._peer_code = code
        self.feed(ev.ConnectionLost())
        self._leave()

    def _leave(self) -> None:
        """Stop both directions: nothing goes out any more, and nothing that comes in counts."""
        if self._left:
            return
        self._left = True
        for timer in (self._timer, self._blocked):
            if timer is not None:
                timer.cancel()
        self._inbox = self._outbox = None
        self._registry.work.start(self._finish())

    async def _finish(self) -> None:
        facts = self.facts()
        await self._handlers.close()
        self._report()
        if facts is not None and self.principal is not None:
            ours = self._session.close_code or self._crashed
            await self._ends.note(self.principal.tenant, facts, ours, self._peer_code)

    def _report(self) -> None:
        code = self._session.close_code
        instruments.CLOSES.add(1, {"code": code.name.lower() if code is not None else "peer"})
        principal, record = self.principal, self._handlers.record
        if principal is None:  # logged at most every few seconds: strangers may come at any rate
            seconds = round(clock() - self._started, 3)
            repeated.warning("connection.never_signed_in", address=self.address, seconds=seconds)
            return
        log.info(
            "connection.closed",
            connection=self.id,
            session=record.session if record else None,
            tenant=principal.tenant,
            key=principal.key,
            subprotocol=self._subprotocol.value,
            close=int(code) if code is not None else self._peer_code,
            seconds=round(clock() - self._started, 3),
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            turns=self._handlers.sends_started,
        )
