"""Assembles what serves one gateway's connections, and keeps their sessions, leases and access up to date."""

import asyncio
from collections.abc import Awaitable, Callable

from core.clock import now_ms
from core.ids import uuid7
from core.observability.telemetry import logger
from core.runtime.failed_rounds import logged_failures
from core.tasks import EndingTaskGroup
from core.web import http
from server.connection.access_checks import recheck_access
from server.connection.answers import QuestionAnswers
from server.connection.connection import Connection
from server.connection.connection_limit import ConnectionLimit
from server.connection.control_news import ControlNewsListener, KnownRows
from server.connection.drain import drain
from server.connection.effect_handlers import Caller, UseCases
from server.connection.end_log import EndLog
from server.connection.handshake import Handshake
from server.connection.registry import ConnectionRegistry
from server.connection.session_store import SessionStore
from server.connection.websocket import SocketWriter
from server.context import GatewayContext
from server.protocol.codec import Subprotocol
from server.protocol.codes import CloseCode
from server.reading.sources import RequestReaders
from server.reading.subscriptions import Subscriptions
from server.requests.admit import SendAdmitter
from server.requests.cancel import CancelHandler
from server.requests.enqueue import SendEnqueuer
from server.requests.prepare import SendPreparer
from server.requests.reused_ids import ReusedIds
from server.requests.submit import SendHandler
from server.session.limits import SessionLimits

KEEP_SECONDS = 60.0

log = logger(__name__)


class GatewayConnections:
    """The connections of one gateway. Only this class of the room sees the whole context: each part gets what
    it names."""

    def __init__(self, context: GatewayContext) -> None:
        settings, redis, auth = context.settings, context.redis, context.auth
        self.settings = settings
        self.subscriptions = Subscriptions(redis, settings, context.pools, context.catalogue)
        self.registry = ConnectionRegistry(http.unidentified_sockets(settings))
        self._gateway, self._ends = context.pools.gateway, EndLog(redis)
        self._auth = auth
        self._closed_users = context.closed_users
        self._limits = SessionLimits.of(settings)
        self._limit = ConnectionLimit(redis, settings)
        self._sessions = SessionStore(redis, settings, context.pools.gateway)
        readers = RequestReaders(context.quota, context.pools, context.conversations, self.subscriptions)
        cancels = CancelHandler(context.quota, context.pools, context.conversations)
        self._use_cases = UseCases(
            Handshake(redis, auth, context.rates, self.registry, self._limit, self._sessions, readers),
            _send_handler(context, self.subscriptions, readers, cancels),
            cancels,
            readers,
            self._sessions,
            context.rates,
            self.registry.work,
        )
        known = KnownRows(
            context.catalogue,
            context.closed_users,
            context.users,
            context.limits,
            context.terms,
            context.policies,
        )
        answers = QuestionAnswers(redis, self.registry, self._gateway)
        self._news = ControlNewsListener(redis, self.registry, known, self._check_access, answers)

    def accept(self, writer: SocketWriter, subprotocol: Subprotocol, caller: Caller) -> Connection:
        """A connection on a socket that was just opened. It waits for hello once it is started."""
        parts = (self.settings, self._limits, self.registry, self._use_cases)
        id = uuid7(now_ms())
        return Connection(*parts, writer, subprotocol, caller, id, self._gateway, self._ends)

    async def run(self) -> None:
        """Keep the records and leases of open sessions, and obey the platform's news, for ever."""
        settings = self.settings
        async with EndingTaskGroup() as group:
            group.create_task(self._every(KEEP_SECONDS, self._keep_sessions))
            group.create_task(self._every(settings.connection_lease_seconds / 3, self._limit.keep))
            group.create_task(self._every(settings.key_check_seconds, self._check_access))
            group.create_task(self._news.run())

    async def drain(self, seconds: float) -> None:
        """See drain.drain."""
        await drain(self.registry, seconds)

    async def _every(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            with logged_failures(log, "connection.upkeep_failed"):
                await step()

    async def _keep_sessions(self) -> None:
        """Keep session records, and close sockets of lost sessions, as news of that can be lost."""
        for socket, record in self.registry.sessions():
            if not await self._sessions.keep(record) and self.registry.find(socket.id) is not None:
                socket.order_close(CloseCode.SUPERSEDED)

    async def _check_access(self, of_tenant: str | None = None) -> None:
        await recheck_access(self._auth, self._closed_users, self.registry.sockets(), of_tenant)


def _send_handler(
    context: GatewayContext, subscriptions: Subscriptions, readers: RequestReaders, cancels: CancelHandler
) -> SendHandler:
    """The steps of a send, each with what it needs."""
    settings, quota, conversations = context.settings, context.quota, context.conversations
    preparer = SendPreparer(
        settings,
        context.db,
        context.catalogue,
        context.limits,
        context.users,
        context.closed_users,
        context.shapes,
        context.policies,
        context.vetting,
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
