"""A console with two tenants, and keys that read what they used."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from admin.console import Console
from billing.api import (
    create_key,
    create_project,
    create_tenant,
    user_id,
)
from billing.periods import HOUR_MS
from billing.posting.biller import post
from billing.tables.ledger import LedgerEntry
from billing.tables.tenants import ApiKey
from billing.usage import UsageOwner, encode
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.support.redis import Redis

HOST = "http://localhost"
UNLIMITED: dict[str, Any] = {"usage_reads_per_tenant_per_minute": 0}
BEGIN = 1_790_812_800_000  # 2026-10-01T00:00Z
OCTOBER = {"month": "2026-10"}
USAGE, TENANT = ["usage:read"], ["usage:read:tenant"]
NAMES = ("ann", "=cmd()", "bob")


def bearer(secret: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"authorization": f"Bearer {secret}"}


@dataclass
class Office:
    """A console with two tenants who used the same in October, and what lets them read it."""

    db: Database
    redis: Redis
    client: httpx.AsyncClient
    tenants: dict[str, str] = field(default_factory=dict[str, str])
    projects: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    users: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    keys: dict[str, ApiKey] = field(default_factory=dict[str, ApiKey])
    secrets: dict[str, str] = field(default_factory=dict[str, str])

    async def get(self, secret: str, path: str = "/v1/usage", **asked: Any) -> httpx.Response:
        """An answer."""
        return await self.client.get(path, params=asked, headers=bearer(secret))

    async def data(self, secret: str, path: str = "/v1/usage", **asked: Any) -> list[dict[str, Any]]:
        """All pages of it."""
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            reply = await self.get(secret, path, **asked, **({"cursor": cursor} if cursor else {}))
            assert reply.status_code == 200, reply.text
            rows += reply.json()["data"]
            cursor = reply.json()["cursor"]
            if cursor is None:
                return rows

    async def key(self, name: str, tenant: str, project: str, **facts: Any) -> str:
        """Another key and its secret."""
        of = self.tenants[tenant]
        self.keys[name], self.secrets[name] = await create_key(
            self.db, of, self.projects[tenant, project], name=name, **facts
        )
        return self.secrets[name]

    async def used(self, tenant: str, count: int, seed: int = 1, prefix: str = "r") -> None:
        """Requests of both projects and of some users."""
        chosen = random.Random(seed)
        events = [
            an_event(
                f"{prefix}{number}",
                self.tenants[tenant],
                model=chosen.choice(("small", "large")),
                owner=UsageOwner(
                    self.projects[tenant, chosen.choice(("web", "ops"))],
                    self.keys[f"{tenant}-web"].id,
                    self.users[tenant, chosen.choice(NAMES)],
                ),
                reason=chosen.choice(("stop", "error")),
                ended_ms=BEGIN + chosen.randrange(20 * 24 * HOUR_MS),
                output_text=chosen.randrange(500),
            )
            for number in range(count)
        ]
        await post(self.db, "default", [encode(event) for event in events])


async def _tenant(office: Office, name: str) -> None:
    office.tenants[name] = tenant = (await create_tenant(office.db, name)).tenant_id
    for project in ("web", "ops"):
        office.projects[name, project] = (await create_project(office.db, tenant, project)).id
    for user in NAMES:
        office.users[name, user] = await user_id(office.db, tenant, user)
    for project in ("web", "ops"):
        await office.key(f"{name}-{project}", name, project, scopes=USAGE)
    await office.key(name, name, "web", scopes=TENANT)
    await office.used(name, 40)


@pytest.fixture
async def office(settings: Settings, redis: Redis, sqlite: Database) -> AsyncIterator[Office]:
    """Its calls are not limited."""
    app = Console(settings.model_copy(update=UNLIMITED), redis, sqlite).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HOST) as client:
        office = Office(sqlite, redis, client)
        for name in ("acme", "other"):
            await _tenant(office, name)
        yield office


def amounts(rows: list[dict[str, Any]]) -> int:
    """What they add up to."""
    return sum(row["amount_nano"] for row in rows)


async def booked(office: Office, tenant: str = "acme") -> int:
    """What its ledger says was earned."""
    rows = await read(office.db, LedgerEntry, office.tenants[tenant])
    return -sum(row.amount_nano for row in rows if row.account.startswith("revenue:"))
