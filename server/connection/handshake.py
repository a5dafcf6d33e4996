"""Opens and closes connections' sessions: identifies callers, resumes sessions, opens what they read."""

import asyncio
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from billing.api import Principal
from core.clock import now_ms
from core.errors import Refused
from core.observability.telemetry import logger
from core.redis.client import RedisClient
from server.access.authentication import Authenticator
from server.access.authorization import owner_of
from server.access.key_origins import origin_refusal
from server.access.rates import CallRates
from server.connection import access_checks
from server.connection.access_checks import access_ms
from server.connection.connection_limit import ConnectionLimit
from server.connection.control_news import tell_superseded
from server.connection.registry import ConnectionRegistry, OpenSocket
from server.connection.session_store import SessionRecord, SessionStore
from server.protocol.codes import HELLO_REFUSED, CloseCode, ErrorCode, refusal, suspended
from server.protocol.messages import Hello, ResumeRequest
from server.reading.sources import RequestReaders, Source
from server.session.events import HelloRefused, NotResumed, Opened, ReadableRequest, Reauthenticated

log = logger(__name__)


@dataclass(frozen=True)
class AcceptedHello:
    """An accepted hello. `sources` are by request id."""

    event: Opened
    record: SessionRecord
    sources: dict[str, Source] = field(default_factory=dict[str, Source])


class Handshake:
    """Hellos, fresh tokens and departures of all connections of one gateway."""

    def __init__(
        self,
        redis: RedisClient,
        auth: Authenticator,
        rates: CallRates,
        registry: ConnectionRegistry,
        limit: ConnectionLimit,
        sessions: SessionStore,
        readers: RequestReaders,
    ) -> None:
        self._redis = redis
        self._auth = auth
        self._rates = rates
        self._registry = registry
        self._limit = limit
        self._sessions = sessions
        self._readers = readers

    async def open(self, socket: OpenSocket, hello: Hello, bearer: str) -> AcceptedHello | HelloRefused:
        """Check a hello and open its session. `bearer` is the token of the upgrade, or empty."""
        self._registry.unidentified.spoke(socket.id)
        principal = await self._identify(socket, hello.token or bearer)
        if isinstance(principal, HelloRefused):
            return principal
        wanted = hello.resume.requests if hello.resume else []
        self._rates.ask(principal, 1 + len(wanted))
        shown = hello.resume.token if hello.resume else None
        record = await self._take_over(principal, socket.id, shown)
        before = record.superseded[0] if record.superseded else ""
        refused = await self._limit.take(principal, socket.id, before)
        if refused is not None:
            if not record.resumed:  # nobody has its token: it would stay unused, one more with each try
                await self._sessions.end(record)
            return HelloRefused(refused, CloseCode.CONNECTION_LIMIT)
        self._registry.admit(socket, record)
        return await self._accepted(principal, record, wanted)

    async def reauthenticate(self, socket: OpenSocket, mine: Principal, token: str) -> Reauthenticated:
        """Take a fresh token of the same owner."""
        self._rates.ask(mine)
        fresh = await self._auth.of_token(token)
        if fresh is None or not _same_owner(fresh, mine):
            if fresh is None and await self._auth.is_suspended(token):
                raise Refused(suspended())
            refused = refusal(ErrorCode.UNAUTHORIZED, "this token is not good for this session")
            self._rates.failed(socket.address, "auth", refused)
            raise Refused(refused)
        if (refused := origin_refusal(fresh, socket.origins)) is not None:
            raise Refused(refused)
        socket.principal = fresh
        return Reauthenticated(access_ms(fresh))

    async def leave(self, socket: OpenSocket, record: SessionRecord | None) -> None:
        """Remove a connection; its session may be resumed for a while."""
        self._registry.leave(socket)
        try:
            await self._limit.leave(socket.id)
            if record is not None:
                await self._sessions.keep(record)
        except (RedisError, OSError) as error:
            log.warning("session.store_failed", error=type(error).__name__)

    async def _identify(self, socket: OpenSocket, token: str) -> Principal | HelloRefused:
        """The principal of a token. From then on news of its end find the socket."""
        principal = await self._auth.of_token(token)
        if principal is None and await self._auth.is_suspended(token):
            return HelloRefused(suspended(), CloseCode.SUSPENDED)
        if principal is None:
            problem = self._auth.problem_of(token)
            refused = self._rates.failed(socket.address, "hello", refusal(ErrorCode.UNAUTHORIZED, problem))
            return HelloRefused(refused, HELLO_REFUSED[ErrorCode(refused.code)])
        socket.principal = principal  # did any news come before?
        fresh = await access_checks.present_access(self._auth, principal)
        if fresh is None:
            if await self._auth.is_suspended_proof(*access_checks.proof_of(principal)):
                return HelloRefused(suspended(), CloseCode.SUSPENDED)
            ended = refusal(ErrorCode.UNAUTHORIZED, self._auth.problem_of(token))
            return HelloRefused(ended, HELLO_REFUSED[ErrorCode.UNAUTHORIZED])
        if (refused := origin_refusal(fresh, socket.origins)) is not None:
            return HelloRefused(refused, HELLO_REFUSED[ErrorCode.FORBIDDEN])
        return principal

    async def _take_over(self, principal: Principal, connection: str, shown: str | None) -> SessionRecord:
        """Open the session and close the connection that had it before: both or neither, even where this
        hello is superseded meanwhile."""

        async def take_over() -> SessionRecord:
            record = await self._sessions.open(principal, connection, shown)
            if record.superseded is not None:
                await self._supersede(record.tenant, record.superseded[0])
            return record

        return await asyncio.shield(self._registry.work.start(take_over()))

    async def _supersede(self, tenant: str, connection: str) -> None:
        here = self._registry.find(connection)
        if here is not None:
            here.order_close(CloseCode.SUPERSEDED)
        else:
            await tell_superseded(self._redis, tenant, connection)

    async def _accepted(
        self, principal: Principal, record: SessionRecord, wanted: list[ResumeRequest]
    ) -> AcceptedHello:
        requests, sources = await self._resumed(principal, record, wanted)
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
        return AcceptedHello(event, record, sources)

    async def _resumed(
        self, principal: Principal, record: SessionRecord, wanted: list[ResumeRequest]
    ) -> tuple[list[ReadableRequest | NotResumed], dict[str, Source]]:
        """Open the requests that the session goes on to read: those that the client names, and those whose
        end it never acknowledged."""
        named = {request.id for request in wanted}
        others = [ResumeRequest(id) for id in sorted(record.open_ids - named)]
        requests: list[ReadableRequest | NotResumed] = []
        sources: dict[str, Source] = {}
        for request in [*wanted, *others]:
            try:
                opening = await self._readers.open(principal, request.id, request.epoch, request.o)
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
        return requests, sources


def _same_owner(fresh: Principal, mine: Principal) -> bool:
    """True for the same user, or the same service key, however often it was rotated."""
    if fresh.tenant != mine.tenant or fresh.fixed_user != mine.fixed_user:
        return False
    return owner_of(fresh) == owner_of(mine)
