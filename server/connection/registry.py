"""Lets connections in: who they are, which session they go on with, what they read."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec
from redis.exceptions import RedisError

from billing.api import (
    ACCESS_CHANGED,
    CONTROL_CHANNEL,
    KEY_REVOKED,
    LIMITS_CHANGED,
    PRICES_CHANGED,
    SESSION_ENDED,
    TERMS_CHANGED,
    ControlNews,
    Principal,
)
from core import http, unreadable
from core.addresses import rate_limit_address
from core.clock import monotonic, now_ms
from core.errors import Refused
from core.failed_rounds import AWAY, logged_failures
from core.tasks import EndingTaskGroup, KeptTasks
from core.telemetry import logger
from server import instruments
from server.connection import access_checks
from server.connection.access_checks import OpenSocket, access_ms
from server.connection.connection_limit import ConnectionLimit
from server.connection.session_store import SessionRecord, SessionStore
from server.context import GatewayContext
from server.protocol.codes import HELLO_REFUSED, CloseCode, ErrorCode, refusal, suspended
from server.protocol.messages import Hello, ResumeRequest
from server.reading.sources import RequestReaders, Source
from server.reading.subscriptions import Subscriptions
from server.requests.admit import SendAdmitter
from server.requests.cancel import CancelHandler
from server.requests.enqueue import SendEnqueuer
from server.requests.prepare import SendPreparer
from server.requests.reused_ids import ReusedIds
from server.requests.submit import SendHandler
from server.session.events import (
    DrainStarted,
    HelloRefused,
    NotResumed,
    Opened,
    ReadableRequest,
)
from server.session.limits import SessionLimits

SUPERSEDED = "superseded"
RETRY_SECONDS = 0.2
POLL_SECONDS = 1.0
KEEP_SECONDS = 60.0
DRAIN_LOOK_SECONDS = 0.02
DRAIN_LEAD = 0.1

log = logger(__name__)
_news = msgspec.json.Decoder(ControlNews)


@dataclass(frozen=True)
class AcceptedHello:
    """A hello that is good. `sources` are by request id."""

    event: Opened
    principal: Principal
    record: SessionRecord
    sources: dict[str, Source] = field(default_factory=dict[str, Source])


class ConnectionRegistry:
    """The connections of one gateway."""

    def __init__(self, edge: GatewayContext, hub: Subscriptions) -> None:
        self.edge = edge
        self.limits = SessionLimits.of(edge.settings)
        self.readers = RequestReaders(edge.quota, edge.pools, edge.conversations, hub)
        self.cancels = CancelHandler(edge.quota, edge.pools, edge.conversations)
        self.sends = _send_handler(edge, hub, self.readers, self.cancels)
        self.sessions = SessionStore(edge)
        self.hellos = http.lobby(edge.settings)
        self._places = ConnectionLimit(edge.redis, edge.settings)
        self._sockets: dict[str, OpenSocket] = {}
        self._inside: dict[str, OpenSocket] = {}
        self._records: dict[str, SessionRecord] = {}
        self._work = KeptTasks()
        self._drained_by: float | None = None
        instruments.WATCHED.add(self)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that outlives the connection that asked for it: half a turn helps nobody."""
        self._work.start(work)

    def entered(self, who: OpenSocket) -> bool:
        """A socket is open; it has not said hello. False: there is no place for it."""
        self._sockets[who.id] = who
        return self.hellos.enter(who.id, rate_limit_address(who.address), who.put_out)

    async def open(self, who: OpenSocket, hello: Hello, bearer: str) -> AcceptedHello | HelloRefused:
        """Check a hello and open its session. `bearer` is the token of the upgrade, or empty."""
        self.hellos.spoke(who.id)
        principal = await self.edge.auth.of_token(hello.token or bearer)
        if principal is None and await self.edge.auth.is_suspended(hello.token or bearer):
            return HelloRefused(suspended(), CloseCode.SUSPENDED)
        if principal is None:
            problem = self.edge.auth.problem_of(hello.token or bearer)
            refused = self.edge.rates.failed(who.address, "hello", refusal(ErrorCode.UNAUTHORIZED, problem))
            return HelloRefused(refused, HELLO_REFUSED[ErrorCode(refused.code)])
        who.principal = principal  # from here on it is found by news of its end; were there any before?
        if await access_checks.has_ended(self.edge, principal):
            if await self.edge.auth.is_suspended_proof(*access_checks.proof_of(principal)):
                return HelloRefused(suspended(), CloseCode.SUSPENDED)
            ended = refusal(ErrorCode.UNAUTHORIZED, self.edge.auth.problem_of(hello.token or bearer))
            return HelloRefused(ended, HELLO_REFUSED[ErrorCode.UNAUTHORIZED])
        wanted = hello.resume.requests if hello.resume else []
        self.edge.rates.ask(principal, 1 + len(wanted))
        shown = hello.resume.token if hello.resume else None
        record = await self._take_over(principal, who.id, shown)
        before = record.superseded[0] if record.superseded else ""
        refused = await self._places.take(principal, who.id, before)
        if refused is not None:
            if not record.resumed:  # nobody has its token: it would stay for nothing, one with each try
                await self.sessions.end(record)
            return HelloRefused(refused, CloseCode.CONNECTION_LIMIT)
        self.hellos.left(who.id)
        self._inside[who.id] = who
        self._records[who.id] = record
        return await self._let(principal, record, wanted)

    async def _take_over(self, principal: Principal, connection: str, shown: str | None) -> SessionRecord:
        """Open the session and close who had it before: both or neither, even where this hello is superseded
        meanwhile."""

        async def take_over() -> SessionRecord:
            record = await self.sessions.open(principal, connection, shown)
            if record.superseded is not None:
                await self._supersede(record.tenant, record.superseded[0])
            return record

        return await asyncio.shield(self._work.start(take_over()))

    async def left(self, who: OpenSocket, record: SessionRecord | None) -> None:
        """A connection is gone; its session may be resumed for a while."""
        self._sockets.pop(who.id, None)
        self.hellos.left(who.id)
        self._inside.pop(who.id, None)
        self._records.pop(who.id, None)
        try:
            await self._places.leave(who.id)
            if record is not None:
                await self.sessions.keep(record)
        except (RedisError, OSError) as error:
            log.warning("session not kept", error=type(error).__name__)

    # Draining

    @property
    def work(self) -> set[asyncio.Task[Any]]:
        """What goes on that no connection holds."""
        return self._work.running

    @property
    def busy(self) -> bool:
        """Whether anyone is here, or work of theirs is not done."""
        return bool(self._sockets or self._work)

    @property
    def draining(self) -> bool:
        """Whether this gateway stops."""
        return self._drained_by is not None

    def drain_left_ms(self) -> int:
        """How long connections may still stay."""
        return 0 if self._drained_by is None else max(0, int((self._drained_by - monotonic()) * 1000))

    async def drain(self, seconds: float) -> None:
        """Ask every client to go on elsewhere, spread over the first half of `seconds`.

        It begins a moment later, when balancers know. Returns when all have gone, or been closed because the
        time is up."""
        began = monotonic()
        self._drained_by = began + seconds
        leaving = list(self._sockets.values())
        random.shuffle(leaving)
        first = began + seconds * DRAIN_LEAD
        gap = seconds * (0.5 - DRAIN_LEAD) / max(1, len(leaving))
        for at, connection in enumerate(leaving):
            await asyncio.sleep(max(0.0, first + at * gap - monotonic()))
            if connection.id in self._sockets:
                connection.feed(DrainStarted(self.drain_left_ms()))
            if not self._sockets:
                break
        while self.busy and self.drain_left_ms():  # noqa: ASYNC110  (many things make it idle; this runs once)
            await asyncio.sleep(DRAIN_LOOK_SECONDS)

    # What metrics look at

    def connections_open(self) -> int:
        """See instruments.Watched."""
        return len(self._sockets)

    def sessions_open(self) -> int:
        """See instruments.Watched."""
        return len(self._inside)

    def bytes_in_flight(self) -> int:
        """See instruments.Watched."""
        return sum(connection.bytes_in_flight() for connection in list(self._inside.values()))

    def drain_remaining(self) -> int:
        """See instruments.Watched."""
        return len(self._sockets) if self.draining else 0

    # What goes on beside the connections

    async def run(self) -> None:
        """Keep the records and places of open sessions, and obey the platform's news, for ever."""
        settings = self.edge.settings
        async with EndingTaskGroup() as group:
            group.create_task(self._every(KEEP_SECONDS, self._keep_sessions))
            group.create_task(self._every(settings.connection_lease_seconds / 3, self._places.keep))
            group.create_task(self._every(settings.key_check_seconds, self._check_access))
            group.create_task(self._obey_news())

    async def _every(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            with logged_failures(log, "upkeep failed"):
                await step()

    async def _keep_sessions(self) -> None:
        """The news that a session went on elsewhere can be lost, too."""
        for id, record in list(self._records.items()):
            if not await self.sessions.keep(record) and id in self._inside:
                self._inside[id].order_close(CloseCode.SUPERSEDED)

    async def _obey_news(self) -> None:
        """Revoked keys, and sessions that went on elsewhere."""
        while True:
            with logged_failures(log, "news interrupted"):
                await self._listen()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        redis: Any = self.edge.redis
        pubsub = redis.pubsub()
        try:
            await pubsub.subscribe(CONTROL_CHANNEL)
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=POLL_SECONDS)
                if message is not None:
                    with logged_failures(log, "news not obeyed"):
                        self._obey(message["data"])
        finally:
            await pubsub.aclose()

    def _obey(self, packed: bytes) -> None:
        news = unreadable.read("news", _news.decode, packed)
        if isinstance(news, unreadable.Unreadable):
            log.error("news cannot be read", why=news.why)
            return
        if news.kind == SUPERSEDED:
            found = self._sockets.get(news.key)
            if found is not None and found.principal is not None and found.principal.tenant == news.tenant:
                found.order_close(CloseCode.SUPERSEDED)
        elif news.kind in (KEY_REVOKED, SESSION_ENDED):
            access_checks.end_all(list(self._sockets.values()), news)
        elif news.kind == PRICES_CHANGED:
            self.edge.catalogue.prices_changed()
        elif news.kind == ACCESS_CHANGED:
            self.edge.catalogue.prices_changed()  # it may have another book
            self.edge.closed_users.changed()
            self.edge.users.changed()
            self.spawn(self._access_changed(news.tenant))
        elif news.kind == LIMITS_CHANGED:
            self.edge.limits.changed(news.tenant)
        elif news.kind == TERMS_CHANGED:
            self.edge.terms.changed()

    async def _check_access(self, of_tenant: str | None = None) -> None:
        await access_checks.recheck_access(self.edge, list(self._sockets.values()), of_tenant)

    async def _access_changed(self, tenant: str) -> None:
        """Somebody of this tenant was closed, or a key ends sooner. What fails is looked at again anyway."""
        try:
            await self._check_access(tenant)
        except AWAY as error:
            log.warning("access not checked", error=type(error).__name__)

    async def _supersede(self, tenant: str, connection: str) -> None:
        found = self._sockets.get(connection)  # its hello may still be under way
        if found is not None:
            found.order_close(CloseCode.SUPERSEDED)
            return
        news = ControlNews(kind=SUPERSEDED, tenant=tenant, key=connection)
        redis: Any = self.edge.redis
        await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(news))

    async def _let(
        self, principal: Principal, record: SessionRecord, wanted: list[ResumeRequest]
    ) -> AcceptedHello:
        named = {request.id for request in wanted}
        others = [ResumeRequest(id) for id in sorted(record.open_ids - named)]
        requests: list[ReadableRequest | NotResumed] = []
        sources: dict[str, Source] = {}
        for request in [*wanted, *others]:
            try:
                opening = await self.readers.open(principal, request.id, request.epoch, request.o)
            except Refused as refused:
                # Never accepted, as far as the client knows: not listed, so it sends it again.
                if request.epoch is not None:
                    forbidden = refused.refusal.code == ErrorCode.FORBIDDEN
                    requests.append(NotResumed(request.id, "forbidden" if forbidden else "not_resumable"))
                continue
            if request.id in sources:
                opening.source.close()
                continue
            sources[request.id] = opening.source
            requests.append(opening.reading)
        event = Opened(
            session=record.session,
            connection=record.connection,
            resume_token=record.token,
            resume_expires_at=record.token_expires_ms,
            resumed=record.resumed,
            requests=tuple(requests),
            now_ms=now_ms(),
            access_ms=access_ms(principal),
        )
        return AcceptedHello(event, principal, record, sources)


def _send_handler(
    context: GatewayContext, subscriptions: Subscriptions, readers: RequestReaders, cancels: CancelHandler
) -> SendHandler:
    """The steps of a send, each with what it needs."""
    settings, quota, conversations = context.settings, context.quota, context.conversations
    preparer = SendPreparer(
        settings,
        context.db,
        context.catalogue,
        context.users,
        context.closed_users,
        context.shapes,
        context.prompts,
        conversations,
        context.pools,
    )
    keyring, pools = settings.keyring, context.pools
    return SendHandler(
        settings,
        context.rates,
        context.refusals,
        context.used_sessions,
        readers,
        ReusedIds(settings.id_ahead_seconds_max, context.db, quota, conversations, readers),
        preparer,
        SendAdmitter(settings, context.redis, quota, context.limits, context.catalogue),
        SendEnqueuer(keyring, quota, pools, conversations, subscriptions, cancels),
    )
