"""The awaiting half of one connection: what each effect of the machine asks of Redis and SQL, as an event.

A method raises Refused where the answer is no; the connection turns that into the refusing event.
"""

import asyncio
from dataclasses import dataclass

from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.api import Principal
from core.errors import Refused
from core.telemetry import logger
from server import instruments
from server.access.authorization import owner_of
from server.connection.registry import ConnectionRegistry, OpenSocket, access_ms
from server.connection.session_store import SessionRecord
from server.protocol.codes import ErrorCode, refusal, suspended
from server.protocol.messages import Hello, Send
from server.reading.sources import OpenedRequest, Source, StoredSource
from server.session import effects as fx
from server.session import events as ev

READ_AGAIN_SECONDS = 0.05
READ_AGAIN_SECONDS_MAX = 1.0

log = logger(__name__)


@dataclass(frozen=True)
class Caller:
    """What the upgrade says of who opened the socket: his address, and his token or an empty text."""

    address: str
    bearer: str


class EffectHandlers:
    """One connection's. `sources`: what it reads; `staged`: opened, and not yet taken by the machine."""

    def __init__(self, door: ConnectionRegistry, bearer: str) -> None:
        self.record: SessionRecord | None = None
        self.sources: dict[str, Source] = {}
        self.staged: dict[str, Source] = {}
        self._door = door
        self._rates = door.edge.rates
        self._bearer = bearer
        self._occupant: OpenSocket | None = None

    async def open(self, who: OpenSocket, hello: Hello) -> ev.Opened | ev.HelloRefused:
        """Who says hello, and what goes on from an earlier connection."""
        let = await self._door.open(who, hello, self._bearer)
        if isinstance(let, ev.HelloRefused):
            return let
        self._occupant, self.record = who, let.record
        self.staged.update(let.sources)
        return let.event

    async def turn(self, message: Send) -> ev.SendAccepted:
        """Make a send durable."""
        accepted, source = await self._door.sends.take(self._who(), message)
        self._stage(accepted.reading.id, source)
        return accepted

    async def attach(self, effect: fx.StartAttach) -> ev.AttachAllowed:
        """Open a request for reading."""
        who = self._who()
        self._rates.ask(who)
        opening = await self._door.readers.open(who, effect.id, effect.epoch, effect.o)
        return self._allowed(opening, asked=True)

    async def cancel(self, effect: fx.StartCancel) -> ev.CancelAnswered | None:
        """Cancel a request."""
        who = self._who()
        if effect.answer:  # else it is a part of a send
            self._rates.ask(who)
        state = await self._door.cancels.cancel(who, effect.id)
        return ev.CancelAnswered(effect.id, state) if effect.answer else None

    async def read(self, effect: fx.ReadLog) -> ev.LogRead | ev.AttachAllowed | None:
        """The next part of a log. It is tried until Redis answers: a reader has nothing else to wait for."""
        source, wait = self.sources.get(effect.id), READ_AGAIN_SECONDS
        while source is not None and self.sources.get(effect.id) is source:
            instruments.LOG_READS.add(1)
            try:
                return await self._read(source, effect)
            except (RedisError, SQLAlchemyError, OSError) as error:
                log.warning("log not read", error=type(error).__name__)
            await asyncio.sleep(wait)
            wait = min(2 * wait, READ_AGAIN_SECONDS_MAX)
        return None

    async def _read(self, source: Source, effect: fx.ReadLog) -> ev.LogRead | ev.AttachAllowed:
        """Where the log has gone meanwhile, its stored answer takes its place."""
        entries = await source.read(effect.after, effect.entries_max, effect.bytes_max)
        whole = bool(entries) and entries[0].o == effect.after + 1
        if whole or isinstance(source, StoredSource):
            return ev.LogRead(effect.id, effect.after, entries, effect.epoch)
        opening = await self._door.readers.reopen(self._who(), effect.id, effect.epoch, effect.after)
        if isinstance(opening.source, StoredSource) or opening.reading.snap is not None:
            return self._allowed(opening, asked=False)
        opening.source.close()
        if entries:
            raise Refused(refusal(ErrorCode.LOG_LOST, "the platform lost a part of this answer"))
        return ev.LogRead(effect.id, effect.after, entries, effect.epoch)

    async def reopen(self, effect: fx.Reopen) -> ev.AttachAllowed:
        """Go on with a request whose log is not the one that was read."""
        opening = await self._door.readers.reopen(self._who(), effect.id, effect.epoch, effect.o)
        return self._allowed(opening, asked=False)

    async def reauthenticate(self, who: OpenSocket, token: str) -> ev.Reauthenticated:
        """Take a fresh token of the same owner."""
        mine = self._who()
        self._rates.ask(mine)
        fresh = await self._door.edge.auth.of_token(token)
        if fresh is None or not _same_owner(fresh, mine):
            if fresh is None and await self._door.edge.auth.is_suspended(token):
                raise Refused(suspended())
            refused = refusal(ErrorCode.UNAUTHORIZED, "this token is not good for this session")
            self._rates.failed(who.address, "auth", refused)
            raise Refused(refused)
        who.principal = fresh
        return ev.Reauthenticated(access_ms(fresh))

    def report(self, effect: fx.ReportReader) -> None:
        """How this connection's reader of a request stands."""
        source = self.sources.get(effect.id)
        if source is not None:
            source.report(effect.stuck)

    async def note(self, id: str) -> None:
        """Remember that the session reads this request."""
        if self.record is not None:
            await self._door.sessions.note(self.record, id)

    async def forget(self, id: str) -> None:
        """The client has applied the request's end."""
        if self.record is not None:
            await self._door.sessions.forget(self.record, id)

    async def confirm(self) -> None:
        """The client has the newest resume token."""
        if self.record is not None:
            await self._door.sessions.confirm(self.record)

    async def end(self) -> None:
        """The client said bye: the session is over, nobody keeps it."""
        if self.record is not None:
            record, self.record = self.record, None
            await self._door.sessions.end(record)

    def drop_staged(self) -> None:
        """Close what was opened and then not wanted: a repeated send, or a session that closed meanwhile."""
        while self.staged:
            self.staged.popitem()[1].close()

    def close(self) -> None:
        """Nobody reads here any more."""
        self.drop_staged()
        while self.sources:
            self.sources.popitem()[1].close()

    def _allowed(self, opening: OpenedRequest, asked: bool) -> ev.AttachAllowed:
        self._stage(opening.reading.id, opening.source)
        return ev.AttachAllowed(opening.reading, asked)

    def _stage(self, id: str, source: Source) -> None:
        before = self.staged.pop(id, None)
        if before is not None:
            before.close()
        self.staged[id] = source

    def _who(self) -> Principal:
        """As the caller stands now: its key may have lost rights since the hello."""
        principal = self._occupant.principal if self._occupant is not None else None
        assert principal is not None, "the machine lets nothing through before hello"
        return principal


def _same_owner(fresh: Principal, mine: Principal) -> bool:
    """The same user, or the same service key, however often it was rotated."""
    if fresh.tenant != mine.tenant or fresh.fixed_user != mine.fixed_user:
        return False
    return owner_of(fresh) == owner_of(mine)
