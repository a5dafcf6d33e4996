"""The awaiting half of one connection: starts each effect of its session at the use case that does it, in
Redis and SQL, and feeds the result back as an event.

A use case raises Refused where it refuses; that becomes the refusing event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.api import Principal
from core.errors import Refusal, Refused
from core.observability.telemetry import RepeatedWarning, logger
from core.tasks import TaskSet, cancel_tasks
from engine.api import Entry
from server import instruments
from server.access.rates import CallRates
from server.connection.handshake import Handshake
from server.connection.registry import OpenSocket
from server.connection.session_store import SessionRecord, SessionStore
from server.protocol.codes import HELLO_REFUSED, CloseCode, ErrorCode, refusal
from server.protocol.messages import Hello, Send
from server.reading.sources import OpenedRequest, RequestReaders, Source, StoredSource
from server.requests.cancel import CancelHandler
from server.requests.submit import SendHandler
from server.session import effects as fx
from server.session import events as ev

TASKS_MAX = 64
READ_AGAIN_SECONDS = 0.05
READ_AGAIN_SECONDS_MAX = 1.0

log = logger(__name__)
repeated = RepeatedWarning(log)


@dataclass(frozen=True)
class Caller:
    """The opener of a socket, as the upgrade shows it: address, token or an empty text, and its page's origin
    (see `page_origins`)."""

    address: str
    bearer: str
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class UseCases:
    """Use cases of sessions, for all connections of one gateway. `work` outlives the connection that asks."""

    handshake: Handshake
    sends: SendHandler
    cancels: CancelHandler
    readers: RequestReaders
    sessions: SessionStore
    rates: CallRates
    work: TaskSet


class SessionSocket(OpenSocket, Protocol):
    """A connection, as its handlers see it."""

    def opened(self) -> None:
        """Note that its session was told of its opening."""
        ...

    def take_more(self) -> None:
        """Take frames that wait, as some work is done."""
        ...


class EffectHandlers:
    """Handlers of one connection: its sources, and those just opened for the session to take. Nothing is
    awaited between opening, telling the session and closing what it did not take."""

    def __init__(self, use_cases: UseCases, socket: SessionSocket, bearer: str) -> None:
        self.record: SessionRecord | None = None
        self.client = ""
        self.sends_started = 0
        self._cases = use_cases
        self._socket = socket
        self._bearer = bearer
        self._opening = False
        self._tasks = TaskSet()
        self._sources: dict[str, Source] = {}
        self._staged: dict[str, Source] = {}

    @property
    def full(self) -> bool:
        """True where no more frames are to be taken: the session is opening, or has too many tasks."""
        return self._opening or len(self._tasks) >= TASKS_MAX

    def start(self, effect: fx.AskingEffect) -> None:  # noqa: C901  (one arm an effect)
        """Start an effect; work that takes time is answered later, with an event."""
        match effect:
            case fx.ReadLog(id):
                self._spawn(self._read(effect), lambda refused: ev.AttachRefused(id, refused, asked=False))
            case fx.Reopen(id):
                self._spawn(self._reopen(effect), lambda refused: ev.AttachRefused(id, refused, asked=False))
            case fx.Follow(id):
                self._follow(id)
            case fx.Unfollow():
                self._unfollow(effect)
            case fx.ReportReader(id, stuck):
                if id in self._sources:
                    self._sources[id].report(stuck)
            case fx.OpenSession(hello):
                self._opening = True
                self._spawn(self._open(hello), _hello_refused)
            case fx.StartSend(message):
                self.sends_started += 1
                # Outlives this connection: half a send would help nobody.
                self._cases.work.start(self._send(message))
            case fx.StartAttach(id):
                self._spawn(self._attach(effect), lambda refused: ev.AttachRefused(id, refused))
            case fx.StartCancel(id, answer):
                refuse = (lambda refused: ev.CancelRefused(id, refused)) if answer else _nothing
                self._spawn(self._cancel(effect), refuse)
            case fx.Reauthenticate(token):
                self._spawn(self._reauthenticate(token), ev.AuthRefused)
            case fx.ConfirmResumeToken():
                self._outlive(self._confirm())
            case fx.EndSession():
                self._outlive(self._end())
            case _:
                assert_never(effect)

    async def close(self) -> None:
        """Close everything, as the socket is gone."""
        await cancel_tasks(self._tasks.running)
        self._drop_staged()
        while self._sources:
            self._sources.popitem()[1].close()
        await self._cases.handshake.leave(self._socket, self.record)

    # Running

    def _spawn(
        self, work: Coroutine[Any, Any, ev.Event | None], refuse: Callable[[Refusal], ev.Event | None]
    ) -> None:
        """Start work that ends with the connection."""
        task = self._tasks.start(self._run(work, refuse))
        task.add_done_callback(lambda _: self._socket.take_more())

    def _outlive(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that outlives the connection, and that the client did not ask for."""
        self._cases.work.start(self._run(work, _nothing))

    async def _run(
        self, work: Awaitable[ev.Event | None], refuse: Callable[[Refusal], ev.Event | None]
    ) -> None:
        """Await a use case and feed its event; a fault of ours is an `internal` the client may retry."""
        try:
            event = await work
        except Refused as refused:
            event = refuse(refused.refusal)
        except (RedisError, SQLAlchemyError, OSError) as error:
            log.error("connection.operation_failed", connection=self._socket.id, error=type(error).__name__)
            event = refuse(_internal())
        except Exception:
            log.exception("connection.operation_crashed", connection=self._socket.id)
            event = refuse(_internal())
        self._opening = self._opening and not isinstance(event, ev.Opened | ev.HelloRefused)
        if event is not None:
            self._socket.feed(event)
        if isinstance(event, ev.Opened):
            self._socket.opened()
        self._drop_staged()

    # The session

    async def _open(self, hello: Hello) -> ev.Opened | ev.HelloRefused:
        """Let the caller in, and resume the session of an earlier connection."""
        if hello.agent is not None:
            self.client = f"{hello.agent.name} {hello.agent.version}".strip()
        accepted = await self._cases.handshake.open(self._socket, hello, self._bearer)
        if isinstance(accepted, ev.HelloRefused):
            return accepted
        self.record = accepted.record
        self._staged.update(accepted.sources)
        return accepted.event

    async def _reauthenticate(self, token: str) -> ev.Reauthenticated:
        return await self._cases.handshake.reauthenticate(self._socket, self._principal(), token)

    async def _confirm(self) -> None:
        """Note that the client has the newest resume token."""
        if self.record is not None:
            await self._cases.sessions.confirm(self.record)

    async def _end(self) -> None:
        """End the session for good, as the client said bye."""
        if self.record is not None:
            record, self.record = self.record, None
            await self._cases.sessions.end(record)

    # Requests

    async def _send(self, message: Send) -> None:
        """Make a send durable, and remember in the session that it reads the request."""
        id = message.id
        await self._run(self._take(message), lambda refused: ev.SendRefused(id, refused))
        if id in self._sources:
            await self._run(self._note(id), _nothing)

    async def _take(self, message: Send) -> ev.SendAccepted:
        accepted, source = await self._cases.sends.take(self._principal(), message)
        self._staged[accepted.reading.id] = source
        return accepted

    async def _note(self, id: str) -> None:
        if self.record is not None:
            await self._cases.sessions.note(self.record, id)

    async def _attach(self, effect: fx.StartAttach) -> ev.AttachAllowed:
        """Open a request for reading."""
        principal = self._principal()
        self._cases.rates.ask(principal)
        opening = await self._cases.readers.open(principal, effect.id, effect.epoch, effect.o)
        return self._allowed(opening, asked=True)

    async def _cancel(self, effect: fx.StartCancel) -> ev.CancelAnswered | None:
        principal = self._principal()
        if effect.answer:  # else it belongs to a send
            self._cases.rates.ask(principal)
        state = await self._cases.cancels.cancel(principal, effect.id)
        return ev.CancelAnswered(effect.id, state) if effect.answer else None

    # Reading

    async def _read(self, effect: fx.ReadLog) -> ev.LogRead | ev.AttachAllowed | None:
        """Read the next part of a log, and try until Redis answers: a reader has nothing else to wait for."""
        source, wait = self._sources.get(effect.id), READ_AGAIN_SECONDS
        while source is not None and self._sources.get(effect.id) is source:
            instruments.LOG_READS.add(1)
            try:
                return await self._read_once(source, effect)
            except (RedisError, SQLAlchemyError, OSError) as error:
                log.warning("connection.log_read_failed", error=type(error).__name__)
            await asyncio.sleep(wait)
            wait = min(2 * wait, READ_AGAIN_SECONDS_MAX)
        return None

    async def _read_once(self, source: Source, effect: fx.ReadLog) -> ev.LogRead | ev.AttachAllowed:
        """Read once. Where the log is gone meanwhile, its stored answer takes its place."""
        entries = await source.read(effect.after, effect.entries_max, effect.bytes_max)
        whole = bool(entries) and entries[0].o == effect.after + 1
        if whole or isinstance(source, StoredSource):
            return ev.LogRead(effect.id, effect.after, entries, effect.epoch)
        opening = await self._cases.readers.reopen(self._principal(), effect.id, effect.epoch, effect.after)
        if isinstance(opening.source, StoredSource) or opening.reading.snap is not None:
            return self._allowed(opening, asked=False)
        opening.source.close()
        if entries:
            raise Refused(refusal(ErrorCode.LOG_LOST, "the platform lost a part of this answer"))
        return ev.LogRead(effect.id, effect.after, entries, effect.epoch)

    async def _reopen(self, effect: fx.Reopen) -> ev.AttachAllowed:
        """Open a request again whose log was lost or replaced."""
        opening = await self._cases.readers.reopen(self._principal(), effect.id, effect.epoch, effect.o)
        return self._allowed(opening, asked=False)

    def _allowed(self, opening: OpenedRequest, asked: bool) -> ev.AttachAllowed:
        self._staged[opening.reading.id] = opening.source
        return ev.AttachAllowed(opening.reading, asked)

    def _drop_staged(self) -> None:
        """Close sources that were opened and not taken: a repeated send's, or a closed session's."""
        while self._staged:
            self._staged.popitem()[1].close()

    def _follow(self, id: str) -> None:
        """Read this request from the source that was just opened."""
        before = self._sources.pop(id, None)
        source = self._sources[id] = self._staged.pop(id)
        source.listen(_RequestReader(self._socket, id))
        if before is not None:
            before.close()

    def _unfollow(self, effect: fx.Unfollow) -> None:
        source = self._sources.pop(effect.id, None)
        if source is not None:
            source.close()
        if effect.damaged:
            about = {"connection": self._socket.id, "id": effect.id}
            repeated.warning("connection.log_damaged", **about, error=effect.damaged)
        if effect.done:
            self._outlive(self._forget(effect.id))

    async def _forget(self, id: str) -> None:
        """Forget a request whose end the client has applied."""
        if self.record is not None:
            await self._cases.sessions.forget(self.record, id)

    def _principal(self) -> Principal:
        """The caller's present principal: its key may have lost rights since the hello."""
        principal = self._socket.principal
        assert principal is not None, "the machine lets nothing through before hello"
        return principal


class _RequestReader:
    """One request as this connection reads it: turns news of its log into the session's events."""

    def __init__(self, socket: OpenSocket, id: str) -> None:
        self._socket = socket
        self._id = id

    def news(self, entries: list[Entry], head: int) -> None:
        """See LogListener."""
        self._socket.feed(ev.LogGrew(self._id, entries, head))

    def broken(self) -> None:
        """See LogListener."""
        self._socket.feed(ev.LogBroken(self._id))


def _hello_refused(refused: Refusal) -> ev.HelloRefused:
    return ev.HelloRefused(refused, HELLO_REFUSED.get(ErrorCode(refused.code), CloseCode.INTERNAL))


def _nothing(_refused: Refusal) -> None:
    """No event: the client did not ask."""


def _internal() -> Refusal:
    return refusal(ErrorCode.INTERNAL, "our fault: it is logged with this connection's id", after_ms=1000)
