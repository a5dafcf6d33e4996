"""Lets connections in: who they are, which session they go on with, what they read."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from redis.exceptions import RedisError

from billing.api import CONTROL_CHANNEL, ControlNews, Principal
from core.clock import now_ms
from core.errors import Refused
from core.telemetry import logger
from server import instruments
from server.edge import Edge
from server.follow import Readers, Source
from server.hub import Hub
from server.intake import Intake
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.protocol.messages import Hello, ResumeRequest
from server.session.events import HelloRefused, Opened, Reading, Unreadable
from server.sessions import SessionRecord, Sessions

SUPERSEDED = "superseded"
KEY_REVOKED = "key_revoked"
RETRY_SECONDS = 0.2
POLL_SECONDS = 1.0
KEEP_SECONDS = 60.0

log = logger(__name__)


class Occupant(Protocol):
    """What the door asks of a connection."""

    id: str
    principal: Principal | None

    def order_close(self, code: CloseCode, reason: ErrorCode | None = None, message: str = "") -> None:
        """End this connection from outside."""
        ...


@dataclass(frozen=True)
class Let:
    """A hello that is good. `sources` are by request id."""

    event: Opened
    principal: Principal
    record: SessionRecord
    sources: dict[str, Source] = field(default_factory=dict[str, Source])


class Door:
    """The connections of one gateway."""

    def __init__(self, edge: Edge, hub: Hub) -> None:
        self.edge = edge
        self.readers = Readers(edge, hub)
        self.intake = Intake(edge, hub, self.readers)
        self.sessions = Sessions(edge)
        self._inside: dict[str, Occupant] = {}
        self._by_key: Counter[tuple[str, str]] = Counter()
        self._records: dict[str, SessionRecord] = {}
        self._work: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that outlives the connection that asked for it: half a turn helps nobody."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    @property
    def busy(self) -> bool:
        """Whether anyone is inside, or work of theirs is not done."""
        return bool(self._inside or self._work)

    @property
    def connections(self) -> list[Occupant]:
        """Those that are open."""
        return list(self._inside.values())

    async def open(self, who: Occupant, hello: Hello, headers: Mapping[str, str]) -> Let | HelloRefused:
        """Check a hello and open its session."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        token = hello.token or (bearer.strip() if scheme.lower() == "bearer" else "")
        principal = await self.edge.auth.principal(token)
        if principal is None:
            problem = "the token is wrong, used up, expired or revoked: get a new ticket, or use an API key"
            return HelloRefused(refusal(ErrorCode.UNAUTHORIZED, problem), CloseCode.AUTH_INVALID)
        key = (principal.tenant, principal.key)
        most = self.edge.settings.connections_per_key_max
        if self._by_key[key] >= most:
            problem = f"this key has {most} connections already: close one first"
            refused = refusal(ErrorCode.RATE_LIMITED, problem, scope="key", limit=most)
            return HelloRefused(refused, CloseCode.CONNECTION_LIMIT)
        self._inside[who.id] = who
        self._by_key[key] += 1
        who.principal = principal
        shown = hello.resume.token if hello.resume else None
        record = self._records[who.id] = await self.sessions.open(principal, who.id, shown)
        if record.superseded is not None:
            await self._supersede(record.tenant, record.superseded[0])
        wanted = hello.resume.requests if hello.resume else []
        return await self._let(principal, record, wanted)

    async def left(self, who: Occupant, record: SessionRecord | None) -> None:
        """A connection is gone; its session may be resumed for a while."""
        self._records.pop(who.id, None)
        if self._inside.pop(who.id, None) is None or who.principal is None:
            return
        key = (who.principal.tenant, who.principal.key)
        self._by_key[key] -= 1
        if not self._by_key[key]:
            del self._by_key[key]
        if record is not None:
            await self._keep(record)

    async def run(self) -> None:
        """Keep the records of open sessions, and obey the platform's news, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_all())
            group.create_task(self._obey_news())

    async def _keep_all(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            for record in list(self._records.values()):
                await self._keep(record)

    async def _keep(self, record: SessionRecord) -> None:
        try:
            await self.sessions.keep(record)
        except (RedisError, OSError) as error:
            log.warning("session not kept", error=type(error).__name__)

    async def _obey_news(self) -> None:
        """Revoked keys, and sessions that went on elsewhere."""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                log.warning("news interrupted", error=type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        redis: Any = self.edge.redis
        pubsub = redis.pubsub()
        try:
            await pubsub.subscribe(CONTROL_CHANNEL)
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=POLL_SECONDS)
                if message is not None:
                    self._obey(message["data"])
        finally:
            await pubsub.aclose()

    def _obey(self, packed: bytes) -> None:
        try:
            news = msgspec.json.decode(packed, type=ControlNews)
        except msgspec.MsgspecError:
            log.error("news cannot be read")
            return
        if news.kind == SUPERSEDED:
            found = self._inside.get(news.key)
            if found is not None and found.principal is not None and found.principal.tenant == news.tenant:
                found.order_close(CloseCode.SUPERSEDED)
        elif news.kind == KEY_REVOKED:
            for connection in self.connections:
                who = connection.principal
                if who is not None and (who.tenant, who.key) == (news.tenant, news.key):
                    connection.order_close(
                        CloseCode.AUTH_INVALID, ErrorCode.UNAUTHORIZED, "the key was revoked"
                    )

    async def _supersede(self, tenant: str, connection: str) -> None:
        found = self._inside.get(connection)
        if found is not None:
            found.order_close(CloseCode.SUPERSEDED)
            return
        news = ControlNews(kind=SUPERSEDED, tenant=tenant, key=connection)
        redis: Any = self.edge.redis
        await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(news))

    async def _let(self, principal: Principal, record: SessionRecord, wanted: list[ResumeRequest]) -> Let:
        named = {request.id for request in wanted}
        others = [ResumeRequest(id) for id in sorted(record.open_ids - named)]
        requests: list[Reading | Unreadable] = []
        sources: dict[str, Source] = {}
        for request in [*wanted, *others]:
            try:
                opening = await self.readers.open(principal, request.id, request.epoch, request.o)
            except Refused as refused:
                # Never accepted, as far as the client knows: not listed, so it sends it again.
                if request.epoch is not None:
                    forbidden = refused.refusal.code == ErrorCode.FORBIDDEN
                    requests.append(Unreadable(request.id, "forbidden" if forbidden else "not_resumable"))
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
        )
        instruments.RESUMES.add(1, {"outcome": "resumed" if record.resumed else "none"})
        return Let(event, principal, record, sources)
