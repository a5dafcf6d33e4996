"""One socket and one session machine: takes frames, does what the machine says, writes. No task of its own.

Decides nothing about the protocol. What a client can make us hold is bounded: its socket is not read while
answers pile up unread or its session opens, and logged messages are bounded by the windows.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_never

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.api import Principal
from core.clock import monotonic, now_ms
from core.errors import Refusal, Refused
from core.tasks import KeptTasks, cancel_tasks
from core.telemetry import RepeatedWarning, logger
from engine.api import Entry
from server import instruments
from server.access import amount_visibility
from server.connection.effect_handlers import Caller, EffectHandlers
from server.connection.registry import ConnectionRegistry
from server.connection.websocket import SocketWriter
from server.instruments import TALLY
from server.protocol import codec
from server.protocol.codec import Malformed, Subprotocol
from server.protocol.codes import HELLO_REFUSED, CloseCode, ErrorCode, refusal
from server.protocol.messages import Send, ServerMessage
from server.session import effects as fx
from server.session import events as ev
from server.session.machine import Session

OUTBOX_MESSAGES_MAX = 512
TASKS_MAX = 64
LAST_WORDS_SECONDS = 1.0

log = logger(__name__)
strangers = damaged = RepeatedWarning(log)

_EPOCH = now_ms() / 1000 - monotonic()
_jitter = random.Random()


def clock() -> float:
    """Monotonic seconds that start at Unix time, so that timestamps on the wire mean something."""
    return _EPOCH + monotonic()


class Connection:
    """One socket, from its upgrade to its close."""

    def __init__(
        self, door: ConnectionRegistry, wire: SocketWriter, subprotocol: Subprotocol, caller: Caller, id: str
    ) -> None:
        self.id = id
        self.address = caller.address
        self.principal: Principal | None = None
        self._door = door
        self._wire = wire
        self._subprotocol = subprotocol
        self._text = subprotocol is Subprotocol.JSON
        self._operations = EffectHandlers(door, caller.bearer)
        self._session = Session(door.limits, clock(), _jitter)
        self._inbox: deque[str | bytes] | None = None
        self._outbox: deque[ServerMessage | CloseCode] | None = None
        self._opening = False
        self._tasks = KeptTasks()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._blocked: asyncio.TimerHandle | None = None
        self._left = False
        self._started = clock()
        self._frames_in = self._frames_out = self._turns = 0
        self._peer_code: int | None = None

    def start(self) -> None:
        """Wait for hello."""
        entered = self._door.entered(self)
        self._arm()
        if not entered:
            self.put_out()
        if self._door.draining:
            self.feed(ev.DrainStarted(0))

    def feed(self, event: ev.Event) -> None:
        """Give the machine an event and do what follows. A fault of ours ends this connection, resumably."""
        try:
            for effect in self._session.handle(event, clock()):
                self._do(effect)
            self._arm()
        except Exception:
            log.exception("session broke", connection=self.id, cause=type(event).__name__)
            self._wire.close(CloseCode.INTERNAL)
            self._leave()

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        self.feed(ev.CloseOrdered(code, refusal(reason, message) if reason else None))

    def put_out(self) -> None:
        """Its place before hello is another's."""
        problem = "too many connections are open that have not said hello: say it at once"
        self.order_close(CloseCode.RATE_LIMITED, ErrorCode.RATE_LIMITED, problem)
        self._wire.abort(CloseCode.RATE_LIMITED)

    def bytes_in_flight(self) -> int:
        """Sent and not acknowledged."""
        return self._session.in_flight()

    # Frames in

    def received(self, frame: str | bytes) -> None:
        """See wire.Listener."""
        if self._inbox or self._held():
            # At most what one read of the socket brought: it is not read on.
            self._inbox = self._inbox or deque()
            self._inbox.append(frame)
            self._wire.hold()
        else:
            self._take(frame)

    def _held(self) -> bool:
        """Take no more frames while the session opens, or while what earlier ones caused is not done."""
        full = len(self._tasks) >= TASKS_MAX or len(self._outbox or ()) >= OUTBOX_MESSAGES_MAX
        return full or self._opening

    def _catch_up(self) -> None:
        while self._inbox and not self._held():
            self._take(self._inbox.popleft())
        if not self._inbox and not self._left:
            self._wire.release()

    def _take(self, frame: str | bytes) -> None:
        self._frames_in += 1
        try:
            message = codec.decode(frame, self._subprotocol, self._door.edge.settings.control_frame_bytes_max)
        except Malformed as malformed:
            TALLY.frames_in["malformed"] += 1
            self.feed(ev.FrameRejected(malformed.refusal, malformed.re, malformed.id))
            return
        TALLY.frames_in[codec.type_of(message)] += 1
        self.feed(ev.FrameReceived(message))

    # Frames out

    def _emit(self, item: ServerMessage | CloseCode) -> None:
        if self._outbox or self._wire.full:
            self._outbox = self._outbox or deque()
            self._outbox.append(item)
            self._watch_block()
        else:
            self._write(item)

    def _write(self, item: ServerMessage | CloseCode) -> None:
        if isinstance(item, CloseCode):
            self._wire.close(item)
            self._leave()
            return
        item = amount_visibility.seen_by(self.principal, item)
        payload = codec.encode(item, self._subprotocol)
        self._frames_out += 1
        TALLY.frames_out[codec.type_of(item)] += 1
        TALLY.bytes_out += len(payload)
        self._wire.write(payload, self._text)

    def writable(self) -> None:
        """See wire.Listener."""
        if self._blocked is not None:
            self._blocked.cancel()
            self._blocked = None
        while self._outbox and not self._wire.full:
            self._write(self._outbox.popleft())
        if self._outbox:
            self._watch_block()
        self._catch_up()

    def _watch_block(self) -> None:
        """A peer that takes nothing of what waits for it is cut off; one that closes has less time."""
        if self._blocked is None:
            closing = self._session.close_code is not None
            seconds = LAST_WORDS_SECONDS if closing else self._door.edge.settings.write_blocked_seconds_max
            loop = asyncio.get_running_loop()
            self._blocked = loop.call_later(seconds, self._check_block, self._wire.unsent)

    def _check_block(self, unsent: int) -> None:
        self._blocked = None
        if self._session.close_code is None and self._wire.unsent < unsent:
            self._watch_block()
            return
        self.feed(ev.CloseOrdered(CloseCode.SLOW))
        self._wire.abort(self._session.close_code or CloseCode.SLOW)
        self._leave()

    # Doing what the machine says

    def _do(self, effect: fx.Effect) -> None:  # noqa: C901  (one arm an effect)
        operations = self._operations
        match effect:
            case fx.Emit():
                self._emit(effect.message)
            case fx.Measure():
                instruments.measure(effect)
            case fx.ReadLog(id):
                self._spawn(
                    operations.read(effect), lambda refused: ev.AttachRefused(id, refused, asked=False)
                )
            case fx.Reopen(id):
                self._spawn(
                    operations.reopen(effect), lambda refused: ev.AttachRefused(id, refused, asked=False)
                )
            case fx.Close():
                self._emit(effect.code)
            case fx.Follow():
                self._follow(effect.id)
            case fx.Unfollow():
                self._unfollow(effect)
            case fx.ReportReader():
                operations.report(effect)
            case fx.OpenSession(hello):
                self._opening = True
                self._spawn(operations.open(self, hello), _hello_refused)
            case fx.StartSend(message):
                self._turns += 1
                # It outlives this connection: half a turn helps nobody.
                self._door.spawn(self._turn(message))
            case fx.StartAttach(id):
                self._spawn(operations.attach(effect), lambda refused: ev.AttachRefused(id, refused))
            case fx.StartCancel(id, answer):
                refuse = (lambda refused: ev.CancelRefused(id, refused)) if answer else _nothing
                self._spawn(operations.cancel(effect), refuse)
            case fx.Reauthenticate(token):
                self._spawn(operations.reauthenticate(self, token), ev.AuthRefused)
            case fx.ConfirmResumeToken():
                self._door.spawn(self._run(operations.confirm(), _nothing))
            case fx.EndSession():
                self._door.spawn(self._run(operations.end(), _nothing))
            case _:
                assert_never(effect)

    def _spawn(
        self, work: Coroutine[Any, Any, ev.Event | None], refuse: Callable[[Refusal], ev.Event | None]
    ) -> None:
        self._tasks.start(self._run(work, refuse)).add_done_callback(lambda _: self._catch_up())

    async def _run(
        self, work: Awaitable[ev.Event | None], refuse: Callable[[Refusal], ev.Event | None]
    ) -> None:
        """Await one operation and feed its answer; a fault of ours is an `internal` the client may retry."""
        try:
            event = await work
        except Refused as refused:
            event = refuse(refused.refusal)
        except (RedisError, SQLAlchemyError, OSError) as error:
            log.error("operation failed", connection=self.id, error=type(error).__name__)
            event = refuse(_internal())
        except Exception:
            log.exception("operation broke", connection=self.id)
            event = refuse(_internal())
        self._opening = self._opening and not isinstance(event, ev.Opened | ev.HelloRefused)
        if event is not None:
            self.feed(event)
        if isinstance(event, ev.Opened) and self._session.resumed is not None:
            instruments.RESUMES.add(1, {"outcome": self._session.resumed})
            if self._door.draining:
                self.feed(ev.DrainStarted(self._door.drain_left_ms()))
        self._operations.drop_staged()

    async def _turn(self, message: Send) -> None:
        id = message.id
        await self._run(self._operations.turn(message), lambda refused: ev.SendRefused(id, refused))
        if id in self._operations.sources:
            await self._run(self._operations.note(id), _nothing)

    def _follow(self, id: str) -> None:
        """The machine reads this request from the source that was just opened."""
        before = self._operations.sources.pop(id, None)
        source = self._operations.staged.pop(id)
        self._operations.sources[id] = source

        source.listen(_RequestReader(self, id))
        if before is not None:
            before.close()

    def _unfollow(self, effect: fx.Unfollow) -> None:
        source = self._operations.sources.pop(effect.id, None)
        if source is not None:
            source.close()
        if effect.damaged:
            damaged.warning("log cannot be read", connection=self.id, id=effect.id, error=effect.damaged)
        if effect.done:
            self._door.spawn(self._run(self._operations.forget(effect.id), _nothing))

    # Time and end

    def _arm(self) -> None:
        """See that the machine's deadline is met; an earlier timer stays and looks again."""
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
        """See wire.Listener."""
        if self._peer_code is None:
            self._peer_code = code
        self.feed(ev.ConnectionLost())
        self._leave()

    def _leave(self) -> None:
        """Nothing goes out any more, and nothing that comes in counts."""
        if self._left:
            return
        self._left = True
        for timer in (self._timer, self._blocked):
            if timer is not None:
                timer.cancel()
        self._inbox = self._outbox = None
        self._door.spawn(self._finish())

    async def _finish(self) -> None:
        await cancel_tasks(self._tasks.running)
        self._operations.close()
        await self._door.left(self, self._operations.record)
        self._report()

    def _report(self) -> None:
        code = self._session.close_code
        instruments.CLOSES.add(1, {"code": code.name.lower() if code is not None else "peer"})
        principal, record = self.principal, self._operations.record
        if principal is None:  # anybody may come and go as fast as addresses may
            seconds = round(clock() - self._started, 3)
            strangers.warning("connections that nobody signed in on", address=self.address, seconds=seconds)
            return
        log.info(
            "connection",
            connection=self.id,
            session=record.session if record else None,
            tenant=principal.tenant,
            key=principal.key,
            subprotocol=self._subprotocol.value,
            close=int(code) if code is not None else self._peer_code,
            seconds=round(clock() - self._started, 3),
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            turns=self._turns,
        )


class _RequestReader:
    """One request as this connection reads it: news of its log become the session's events."""

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        self._id = id

    def news(self, entries: list[Entry], head: int) -> None:
        """See hub.Listener."""
        self._connection.feed(ev.LogGrew(self._id, entries, head))

    def broken(self) -> None:
        """See hub.Listener."""
        self._connection.feed(ev.LogBroken(self._id))


def _hello_refused(refused: Refusal) -> ev.HelloRefused:
    return ev.HelloRefused(refused, HELLO_REFUSED.get(ErrorCode(refused.code), CloseCode.INTERNAL))


def _nothing(_refused: Refusal) -> None:
    """The client did not ask, so it gets no answer."""


def _internal() -> Refusal:
    return refusal(ErrorCode.INTERNAL, "our fault: it is logged with this connection's id", after_ms=1000)
