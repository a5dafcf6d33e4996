"""One WebSocket and its session machine: frames in, effects out. Decides nothing.

Everything that happens becomes an event of the machine, whose effects are done in order: messages go to one
writer, everything that waits becomes a task that ends in another event.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any, assert_never

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from billing.api import Principal
from core.clock import now_ms
from core.errors import Refused
from core.telemetry import logger
from engine.api import Entry
from server import instruments
from server.door import Door
from server.follow import Source
from server.protocol import codec
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import ServerMessage
from server.session import effects as fx
from server.session import events as ev
from server.session.limits import Limits
from server.session.machine import Session
from server.sessions import SessionRecord

OUTBOX_MAX = 512
TASKS_MAX = 64
CLOSE_SECONDS_MAX = 5.0

log = logger(__name__)


class Connection:
    """An accepted socket, until it closes. `id` names it in logs and to other gateways."""

    def __init__(self, door: Door, socket: WebSocket, subprotocol: codec.Subprotocol, id: str) -> None:
        self.id = id
        self.principal: Principal | None = None
        self._door = door
        self._settings = door.edge.settings
        self._socket = socket
        self._subprotocol = subprotocol
        self._machine = Session(Limits.of(self._settings), time.monotonic(), random.Random())
        self._record: SessionRecord | None = None
        self._sources: dict[str, Source] = {}
        self._offered: dict[str, tuple[Source, int]] = {}
        self._outbox: deque[ServerMessage] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._closing: CloseCode | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = time.monotonic()
        self._frames_in = self._frames_out = self._bytes_out = 0

    async def run(self) -> None:
        """Serve the socket to its end."""
        instruments.CONNECTIONS.add(1)
        self._arm()
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.handle(ev.ConnectionLost())
            await self._end([reading, writing])

    def handle(self, event: ev.Event) -> None:
        """Let the machine take an event and do what it wants."""
        for effect in self._machine.handle(event, time.monotonic()):
            self._do(effect)
        for source, _ in self._offered.values():  # nobody follows them: a refused or repeated request
            source.close()
        self._offered.clear()
        self._arm()

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        self.handle(ev.CloseOrdered(code, refusal(reason, message) if reason else None))

    def _do(self, effect: fx.Effect) -> None:  # noqa: C901  (one arm an effect)
        match effect:
            case fx.Emit():
                self._outbox.append(effect.message)
                self._wake.set()
            case fx.Close():
                self._closing = effect.code
                self._wake.set()
            case fx.OpenSession():
                self._start(self._open(effect))
            case fx.ConfirmResumeToken():
                self._start(self._door.sessions.confirm(self._session()))
            case fx.EndSession():
                self._start(self._door.sessions.end(self._session()))
            case fx.StartTurn():
                self._start(self._turn(effect))
            case fx.StartAttach():
                self._start(self._attach(effect))
            case fx.StartCancel():
                self._start(self._cancel(effect))
            case fx.Follow():
                self._follow(effect.id)
            case fx.Unfollow():
                self._unfollow(effect)
            case fx.ReadLog():
                self._start(self._read_log(effect))
            case fx.Reauthenticate():
                self._start(self._reauthenticate(effect.token))
            case _:
                assert_never(effect)

    def _follow(self, id: str) -> None:
        offered = self._offered.pop(id, None)
        if offered is None:
            return
        source, head = offered
        before = self._sources.get(id)
        self._sources[id] = source
        if before is not None:
            before.close()
        source.listen(lambda entries, head: self._grew(id, source, entries, head), head)
        if self._record is not None:
            self._start(self._door.sessions.note(self._record, id))

    def _grew(self, id: str, source: Source, entries: list[Entry], head: int) -> None:
        if self._sources.get(id) is source:
            self.handle(ev.LogGrew(id, entries, head))

    def _unfollow(self, effect: fx.Unfollow) -> None:
        source = self._sources.pop(effect.id, None)
        if source is not None:
            source.close()
        if effect.done and self._record is not None:
            self._start(self._door.sessions.forget(self._record, effect.id))

    # What waits

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """A fault ends the connection, resumable; the request itself is safe in its log."""
        try:
            await work
        except (RedisError, SQLAlchemyError, OSError, TimeoutError) as error:
            log.warning("connection fault", connection=self.id, error=type(error).__name__)
            self.order_close(
                CloseCode.INTERNAL, ErrorCode.INTERNAL, "something the gateway needs does not answer"
            )
        except Exception:  # the service's loop stays alive; the client may resume
            log.exception("connection fault", connection=self.id)
            self.order_close(CloseCode.INTERNAL, ErrorCode.INTERNAL, "the gateway failed; it is logged")

    async def _open(self, effect: fx.OpenSession) -> None:
        opened = await self._door.open(self, effect.hello, self._socket.headers)
        if isinstance(opened, ev.HelloRefused):
            self.handle(opened)
            return
        self.principal, self._record = opened.principal, opened.record
        self._offered.update(opened.sources)
        self.handle(opened.event)

    async def _turn(self, effect: fx.StartTurn) -> None:
        id = effect.message.id
        try:
            accepted, source = await self._door.intake.take(self._who(), effect.message)
        except Refused as refused:
            self.handle(ev.TurnRefused(id, refused.refusal))
            return
        self._offered[id] = (source, accepted.reading.head)
        self.handle(accepted)

    async def _attach(self, effect: fx.StartAttach) -> None:
        try:
            opening = await self._door.readers.open(self._who(), effect.id, effect.epoch, effect.o)
        except Refused as refused:
            self.handle(ev.AttachRefused(effect.id, refused.refusal))
            return
        self._offered[effect.id] = (opening.source, opening.reading.head)
        self.handle(ev.AttachAllowed(opening.reading))

    async def _cancel(self, effect: fx.StartCancel) -> None:
        try:
            state = await self._door.intake.cancel(self._who(), effect.id)
        except Refused as refused:
            if effect.answer:
                self.handle(ev.CancelRefused(effect.id, refused.refusal))
            return
        if effect.answer:
            self.handle(ev.CancelAnswered(effect.id, state))

    async def _read_log(self, effect: fx.ReadLog) -> None:
        source = self._sources.get(effect.id)
        if source is None:
            return
        instruments.LOG_READS.add(1)
        entries = await source.read(effect.after, effect.entries_max, effect.bytes_max)
        if self._sources.get(effect.id) is source:
            self.handle(ev.LogRead(effect.id, effect.after, entries))

    async def _reauthenticate(self, token: str) -> None:
        fresh = await self._door.edge.auth.principal(token)
        mine = self._who()
        if fresh is None or (fresh.tenant, fresh.project, fresh.user) != (
            mine.tenant,
            mine.project,
            mine.user,
        ):
            self.handle(
                ev.AuthRefused(refusal(ErrorCode.UNAUTHORIZED, "this token is not good for this session"))
            )
            return
        self.principal = fresh
        expires = fresh.key_expires_ms
        self.handle(ev.Reauthenticated(None if expires is None else max(0, expires - now_ms())))

    def _who(self) -> Principal:
        assert self.principal is not None, "the machine asks for nothing before the session is open"
        return self.principal

    def _session(self) -> SessionRecord:
        assert self._record is not None, "the machine asks for nothing before the session is open"
        return self._record

    # The socket

    async def _read(self) -> None:
        try:
            while True:
                while len(self._tasks) > TASKS_MAX or len(self._outbox) > OUTBOX_MAX:
                    self._room.clear()
                    await self._room.wait()
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                self._frames_in += 1
                frame = message.get("text")
                self._take(message["bytes"] if frame is None else frame)
        except (WebSocketDisconnect, RuntimeError):
            return

    def _take(self, frame: str | bytes) -> None:
        limit = self._settings.frame_bytes_max
        if len(frame) > limit or (isinstance(frame, str) and len(frame.encode(errors="replace")) > limit):
            problem = f"a frame is longer than {limit} bytes"
            self.order_close(CloseCode.TOO_BIG, ErrorCode.TOO_LARGE, problem)
            return
        try:
            decoded = codec.decode(frame, self._subprotocol, self._settings.control_frame_bytes_max)
        except codec.Malformed as bad:
            self.handle(ev.FrameRejected(bad.refusal, bad.re, bad.id))
            return
        self.handle(ev.FrameReceived(decoded))

    async def _write(self) -> None:
        """Send what is in the outbox; a write that blocks too long ends the connection, resumable."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._outbox:
                    await self._send(self._outbox.popleft())
                self._room.set()
                if self._closing is not None:
                    return
        except TimeoutError:
            self._outbox.clear()
            self._closing = CloseCode.SLOW
        except (WebSocketDisconnect, RuntimeError):
            self._outbox.clear()

    async def _send(self, message: ServerMessage) -> None:
        frame = codec.encode(message, self._subprotocol)
        async with asyncio.timeout(self._settings.write_blocked_seconds_max):
            if isinstance(frame, str):
                await self._socket.send_text(frame)
            else:
                await self._socket.send_bytes(frame)
        self._frames_out += 1
        self._bytes_out += len(frame)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._machine.deadline()
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - time.monotonic()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.handle(ev.TimerFired())

    async def _end(self, loops: list[asyncio.Task[None]]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in (*loops, *self._tasks):
            task.cancel()
        await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        code = self._closing or self._machine.close_code
        if code is not None and self._socket.application_state is WebSocketState.CONNECTED:
            try:
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._socket.close(int(code))
            except (TimeoutError, RuntimeError, WebSocketDisconnect):
                pass
        await self._door.left(self, self._record)
        self._report(code)

    def _report(self, code: CloseCode | None) -> None:
        """The connection's one line."""
        instruments.CONNECTIONS.add(-1)
        instruments.CLOSES.add(1, {"code": int(code) if code else 0})
        instruments.BYTES_OUT.add(self._bytes_out)
        log.info(
            "connection",
            connection=self.id,
            session=self._record.session if self._record else None,
            tenant=self.principal.tenant if self.principal else None,
            close=int(code) if code else None,
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            bytes_out=self._bytes_out,
            seconds=round(time.monotonic() - self._began, 3),
        )
