"""One WebSocket and one session machine: reads frames, does what the machine says, writes with one task.

Decides nothing about the protocol. What a client can make us hold is bounded: its frames are read one at a
time and not while answers pile up unread, and logged messages are bounded by the windows.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_never

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from billing.api import Principal
from core.errors import Refusal, Refused
from core.telemetry import logger
from engine.api import Entry
from server import instruments
from server.door import Door
from server.operations import Operations
from server.protocol import codec
from server.protocol.codec import Malformed, Subprotocol
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import Send
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import Limits
from server.session.machine import Session
from server.wire import ABORT

OUTBOX_MESSAGES_MAX = 512
TASKS_MAX = 64
LAST_WORDS_SECONDS = 1.0

log = logger(__name__)

_EPOCH = time.time() - time.monotonic()


def clock() -> float:
    """Monotonic seconds that start at Unix time, so that timestamps on the wire mean something."""
    return _EPOCH + time.monotonic()


class Connection:
    """One socket, from its accept to its close."""

    def __init__(self, door: Door, socket: WebSocket, subprotocol: Subprotocol, id: str) -> None:
        self.id = id
        self.principal: Principal | None = None
        self._door = door
        self._settings = door.edge.settings
        self._socket = socket
        self._subprotocol = subprotocol
        self._operations = Operations(door, socket.headers)
        self._session = Session(Limits.of(self._settings), clock(), random.Random())
        self._outbox: deque[fx.Emit | fx.Close] = deque()
        self._to_write = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._opening = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._started = clock()
        self._frames_in = self._frames_out = self._turns = 0
        self._peer_code: int | None = None

    async def run(self) -> None:
        """Serve the socket to its end."""
        instruments.CONNECTIONS.add(1)
        self._arm()
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if self._session.close_code is not None and not writer.done():
                await asyncio.wait({writer}, timeout=LAST_WORDS_SECONDS)
        finally:
            self.feed(ev.ConnectionLost())
            await self._stop(reader, writer)
            await self._door.left(self, self._operations.record)
            instruments.CONNECTIONS.add(-1)
            self._report()

    def feed(self, event: ev.Event) -> None:
        """Give the machine an event and do what follows."""
        for effect in self._session.handle(event, clock()):
            self._do(effect)
        self._arm()

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        self.feed(ev.CloseOrdered(code, refusal(reason, message) if reason else None))

    # Frames in

    async def _read(self) -> None:
        while True:
            await self._may_read.wait()
            try:
                message = await self._socket.receive()
            except (WebSocketDisconnect, WebSocketDisconnected):
                return
            if message["type"] == "websocket.disconnect":
                self._peer_code = message.get("code")
                return
            text = message.get("text")
            self._take(text if text is not None else message["bytes"])
            self._pace_reading()

    def _take(self, frame: str | bytes) -> None:
        self._frames_in += 1
        try:
            message = codec.decode(frame, self._subprotocol, self._settings.control_frame_bytes_max)
        except Malformed as malformed:
            instruments.FRAMES_IN.add(1, {"type": "malformed"})
            self.feed(ev.FrameRejected(malformed.refusal, malformed.re, malformed.id))
            return
        instruments.FRAMES_IN.add(1, {"type": codec.type_of(message)})
        self.feed(ev.FrameReceived(message))

    def _pace_reading(self) -> None:
        """Take no more frames while the session opens, or while what earlier ones caused is not done."""
        full = len(self._outbox) >= OUTBOX_MESSAGES_MAX or len(self._tasks) >= TASKS_MAX
        if full or self._opening:
            self._may_read.clear()
        else:
            self._may_read.set()

    # Frames out

    async def _write(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            while self._outbox:
                item = self._outbox.popleft()
                try:
                    async with asyncio.timeout(self._settings.write_blocked_seconds_max):
                        await self._write_one(item)
                except TimeoutError:
                    self._abort()
                    return
                except (WebSocketDisconnect, WebSocketDisconnected, OSError):
                    return
                if isinstance(item, fx.Close):
                    return
            self._pace_reading()

    async def _write_one(self, item: fx.Emit | fx.Close) -> None:
        if isinstance(item, fx.Close):
            await self._socket.close(item.code)
            return
        frame = codec.encode(item.message, self._subprotocol)
        self._frames_out += 1
        instruments.FRAMES_OUT.add(1, {"type": codec.type_of(item.message)})
        instruments.BYTES_OUT.add(len(frame))
        if isinstance(frame, str):
            await self._socket.send_text(frame)
        else:
            await self._socket.send_bytes(frame)

    def _abort(self) -> None:
        """The peer has taken nothing for too long; it may resume."""
        self.feed(ev.CloseOrdered(CloseCode.SLOW))
        abort: Callable[[int], None] | None = self._socket.scope["extensions"].get(ABORT)
        if abort is not None:
            abort(CloseCode.SLOW)

    # Doing what the machine says

    def _do(self, effect: fx.Effect) -> None:  # noqa: C901  (one arm an effect)
        operations = self._operations
        match effect:
            case fx.Emit() | fx.Close():
                self._outbox.append(effect)
                self._to_write.set()
            case fx.Follow():
                self._follow(effect.id)
            case fx.Unfollow():
                self._unfollow(effect)
            case fx.OpenSession(hello):
                self._opening = True
                self._spawn(operations.open(self, hello), _hello_refused)
            case fx.StartTurn(message):
                self._turns += 1
                # It outlives this connection: half a turn helps nobody.
                self._door.spawn(self._turn(message))
            case fx.StartAttach(id):
                self._spawn(operations.attach(effect), lambda refused: ev.AttachRefused(id, refused))
            case fx.StartCancel(id, answer):
                refuse = (lambda refused: ev.CancelRefused(id, refused)) if answer else _nothing
                self._spawn(operations.cancel(effect), refuse)
            case fx.ReadLog(id):
                self._spawn(
                    operations.read(effect), lambda refused: ev.AttachRefused(id, refused, asked=False)
                )
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
        task = asyncio.create_task(self._run(work, refuse))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pace_reading()

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
        self._operations.drop_staged()

    async def _turn(self, message: Send) -> None:
        id = message.id
        await self._run(self._operations.turn(message), lambda refused: ev.TurnRefused(id, refused))
        if id in self._operations.sources:
            await self._run(self._operations.note(id), _nothing)

    def _follow(self, id: str) -> None:
        """The machine reads this request from the source that was just opened."""
        before = self._operations.sources.pop(id, None)
        source = self._operations.staged.pop(id)
        self._operations.sources[id] = source

        def news(entries: list[Entry], head: int) -> None:
            self.feed(ev.LogGrew(id, entries, head))

        source.listen(news)
        if before is not None:
            before.close()

    def _unfollow(self, effect: fx.Unfollow) -> None:
        source = self._operations.sources.pop(effect.id, None)
        if source is not None:
            source.close()
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

    async def _stop(self, *tasks: asyncio.Task[None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        running = [*tasks, *self._tasks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._operations.close()

    def _report(self) -> None:
        code = self._session.close_code
        instruments.CLOSES.add(1, {"code": code.name.lower() if code is not None else "peer"})
        principal, record = self.principal, self._operations.record
        log.info(
            "connection",
            connection=self.id,
            session=record.session if record else None,
            tenant=principal.tenant if principal else None,
            key=principal.key if principal else None,
            subprotocol=self._subprotocol.value,
            close=int(code) if code is not None else self._peer_code,
            seconds=round(clock() - self._started, 3),
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            turns=self._turns,
        )


def _hello_refused(refused: Refusal) -> ev.HelloRefused:
    codes = {ErrorCode.UNAUTHORIZED: CloseCode.AUTH_INVALID, ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN}
    return ev.HelloRefused(refused, codes.get(ErrorCode(refused.code), CloseCode.INTERNAL))


def _nothing(_refused: Refusal) -> None:
    """The client did not ask, so it gets no answer."""


def _internal() -> Refusal:
    return refusal(ErrorCode.INTERNAL, "our fault: it is logged with this connection's id", after_ms=1000)
