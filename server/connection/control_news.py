"""News that a gateway acts on: ended keys, sessions that went on elsewhere, changed rows.

News can be lost: everything in them is also looked up now and then.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from billing.api import (
    ACCESS_CHANGED,
    CONTROL_CHANNEL,
    KEY_REVOKED,
    LIMITS_CHANGED,
    PRICES_CHANGED,
    ROUTES_CHANGED,
    SESSION_ENDED,
    TERMS_CHANGED,
    ControlNews,
    LimitCache,
)
from core.observability.telemetry import logger
from core.redis import unreadable
from core.redis.client import RedisClient
from core.redis.gateway_questions import CONNECTIONS_ASKED, GatewayQuestion
from core.runtime.failed_rounds import logged_failures, store_errors
from engine.api import POLICIES_CHANGED
from server.access.closed_users import ClosedUsers
from server.access.users import Users
from server.connection import access_checks
from server.connection.answers import QuestionAnswers
from server.connection.registry import ConnectionRegistry
from server.models.catalogue import Catalogue
from server.models.safety_policies import SafetyPolicies
from server.pools.tenant_terms import TenantTermsSync
from server.protocol.codes import CloseCode

SUPERSEDED = "superseded"
RETRY_SECONDS = 0.2
POLL_SECONDS = 1.0

log = logger(__name__)
_news = msgspec.json.Decoder(ControlNews)
_question = msgspec.json.Decoder(GatewayQuestion)


async def tell_superseded(redis: RedisClient, tenant: str, connection: str) -> None:
    """Tell the other gateways that this connection's session went on with another one."""
    news = ControlNews(kind=SUPERSEDED, tenant=tenant, key=connection)
    await redis.publish(CONTROL_CHANNEL, msgspec.json.encode(news))


@dataclass(frozen=True)
class KnownRows:
    """One gateway's caches of rows in SQL, each valid until news of a change."""

    catalogue: Catalogue
    closed_users: ClosedUsers
    users: Users
    limits: LimitCache
    terms: TenantTermsSync
    policies: SafetyPolicies

    def access_changed(self) -> None:
        """Drop what depends on access. A tenant's price book may have changed too."""
        self.catalogue.prices_changed()
        self.closed_users.changed()
        self.users.changed()

    def changed(self, kind: str) -> None:
        """Drop what news of this kind are about; of another kind nothing."""
        about = {
            PRICES_CHANGED: self.catalogue.prices_changed,
            ROUTES_CHANGED: self.catalogue.routes_changed,
            TERMS_CHANGED: self.terms.changed,
            POLICIES_CHANGED: self.policies.changed,
        }
        if drop := about.get(kind):
            drop()


class ControlNewsListener:
    """One gateway's listener. `check_access` applies the present access to a tenant's connections."""

    def __init__(
        self,
        redis: RedisClient,
        registry: ConnectionRegistry,
        known: KnownRows,
        check_access: Callable[[str], Awaitable[None]],
        answers: QuestionAnswers,
    ) -> None:
        self._redis = redis
        self._registry = registry
        self._known = known
        self._check_access = check_access
        self._answers = answers

    async def run(self) -> None:
        """Listen and act, for ever."""
        while True:
            with logged_failures(log, "control_news.interrupted"):
                await self._listen()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        pubsub = self._redis.pubsub()
        try:
            await pubsub.subscribe(CONTROL_CHANNEL)
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=POLL_SECONDS)
                if message is not None:
                    with logged_failures(log, "control_news.obey_failed"):
                        self._obey(message["data"])
        finally:
            await pubsub.aclose()

    def _obey(self, packed: bytes) -> None:
        news = unreadable.read("news", _news.decode, packed)
        if isinstance(news, unreadable.Unreadable):
            log.error("control_news.unreadable", why=news.why)
            return
        if news.kind == CONNECTIONS_ASKED:
            self._asked(packed)
        elif news.kind == SUPERSEDED:
            self._superseded(news)
        elif news.kind in (KEY_REVOKED, SESSION_ENDED):
            access_checks.end_all(self._registry.sockets(), news)
        elif news.kind == ACCESS_CHANGED:
            self._known.access_changed()
            self._registry.work.start(self._access_changed(news.tenant))
        elif news.kind == LIMITS_CHANGED:
            self._known.limits.changed(news.tenant)
        else:
            self._known.changed(news.kind)

    def _asked(self, packed: bytes) -> None:
        question = unreadable.read("question", _question.decode, packed)
        if isinstance(question, unreadable.Unreadable):
            log.error("control_news.unreadable", why=question.why)
            return
        self._answers.start(question)

    def _superseded(self, news: ControlNews) -> None:
        socket = self._registry.find(news.key)
        if socket is not None and socket.principal is not None and socket.principal.tenant == news.tenant:
            socket.order_close(CloseCode.SUPERSEDED)

    async def _access_changed(self, tenant: str) -> None:
        """Drop caches and recheck a tenant's connections. After a failure the next periodic look does."""
        try:
            await self._check_access(tenant)
        except store_errors() as error:
            log.warning("control_news.access_check_failed", error=type(error).__name__)
