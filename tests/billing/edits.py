"""A tenant whose settings several edit at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from sqlmodel import SQLModel

from billing.audit.log import list_rows
from billing.tables.tenants import Tenant
from billing.tenants import tenancy
from core.errors import Refused
from core.redis.client import RedisClient
from core.sql.database import Database
from tests.billing.ledger.ledger_reading import read

AT_ONCE = 8


@dataclass
class Edited:
    """A tenant, and who edits it."""

    db: Database
    redis: RedisClient
    tenant: Tenant
    project: str

    @property
    def of(self) -> tuple[Database, RedisClient, str]:
        """What most edits begin with."""
        return self.db, self.redis, self.tenant.tenant_id

    async def at_once(self, edit: Callable[[int], Awaitable[Any]]) -> list[Any]:
        """What eight edits answered, those that were refused left out. Nothing else goes wrong."""
        done = await asyncio.gather(*(edit(n) for n in range(AT_ONCE)), return_exceptions=True)
        assert [
            each for each in done if isinstance(each, BaseException) and not isinstance(each, Refused)
        ] == []
        return [each for each in done if not isinstance(each, BaseException)]

    async def rows(self, of: type[SQLModel], owner: str | None = None) -> Sequence[Any]:
        """A table's rows of the tenant, or of PLATFORM."""
        return await read(self.db, of, self.tenant.tenant_id if owner is None else owner)

    async def open(self, of: type[SQLModel], owner: str | None = None) -> list[Any]:
        """Those that have not ended."""
        return [row for row in await self.rows(of, owner) if row.ended_ms is None]

    async def audited(self, action: str, owner: str | None = None) -> list[Any]:
        """What the audit log says of an action, oldest first."""
        chain = self.tenant.tenant_id if owner is None else owner
        return [row for row in reversed(await list_rows(self.db, chain)) if row.action == action]


@pytest.fixture
async def settings(database: Database, redis: RedisClient) -> Edited:
    """On SQLite and on Postgres."""
    tenant = await tenancy.create_tenant(database, "acme")
    (project,) = await tenancy.list_projects(database, tenant.tenant_id)
    return Edited(database, redis, tenant, project.id)
