"""A gateway's HTTP routes without a socket, over real SQL and Valkey, called in this process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from billing.api import create_key, create_project, create_tenant, make_link_code
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from server.context import GatewayContext, make_context
from server.http.app import SecurityHeaders, routes
from server.http.call_limit import LimitedCalls
from server.http.cross_origin import CrossOriginReplies
from server.http.guard import guarded
from server.http.health import Health
from server.http.person import PersonHeader
from server.reading.sources import RequestReaders
from server.reading.subscriptions import Subscriptions
from tests.support.redis import Redis

UNLIMITED: dict[str, Any] = {
    "calls_per_address_per_second": 0,
    "calls_per_caller_per_second": 0,
    "signins_per_address_per_minute": 0,
    "failed_signins_per_address_per_minute": 0,
    "signins_per_caller_per_minute": 0,
}
ORIGIN = "http://gateway.test"


@dataclass
class HttpSite:
    """A gateway's HTTP side with one tenant and key."""

    edge: GatewayContext
    client: httpx.AsyncClient
    tenant: str
    project: str
    key_id: str
    key: str

    @property
    def bearer(self) -> dict[str, str]:
        """The header of the tenant's key."""
        return bearer(self.key)

    async def another_key(self, **facts: Any) -> str:
        """A further key of the tenant."""
        return (await create_key(self.edge.db, self.tenant, self.project, **facts))[1]

    def code(self, user: str, key_id: str | None = None) -> str:
        """The code of a link that signs a user in."""
        keyring = self.edge.settings.keyring
        return make_link_code(keyring, self.tenant, key_id or self.key_id, user, now_ms())

    async def ticket(self, key: str | None = None, **fields: Any) -> str:
        """A ticket made with a key."""
        reply = await self.client.post("/v1/tickets", headers=bearer(key or self.key), json=fields)
        assert reply.status_code == 200, reply.text
        return reply.json()["ticket"]


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def http_site(
    database: Database, redis: Redis, settings: Settings, **changed: Any
) -> AsyncGenerator[HttpSite]:
    """The routes, and a tenant with a service key. Calls are not limited, unless `changed` settings do it."""
    edge = make_context(settings.model_copy(update=UNLIMITED | changed), "gw-test", database, redis)
    app = PersonHeader(guarded(routes(edge, Health(edge))))
    tenant = await create_tenant(database, "acme")
    project = await create_project(database, tenant.tenant_id, "web")
    row, secret = await create_key(database, tenant.tenant_id, project.id)
    app = CrossOriginReplies(LimitedCalls(app, edge.rates), edge.settings)
    app = SecurityHeaders(app, settings.tls)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield HttpSite(edge, client, tenant.tenant_id, project.id, row.id, secret)


def subscriptions_of(edge: GatewayContext) -> Subscriptions:
    """A gateway's, with nobody reading."""
    return Subscriptions(edge.redis, edge.settings, edge.pools, edge.catalogue)


def readers_of(edge: GatewayContext, subscriptions: Subscriptions) -> RequestReaders:
    """What opens requests for them."""
    return RequestReaders(edge.quota, edge.pools, edge.conversations, subscriptions)
