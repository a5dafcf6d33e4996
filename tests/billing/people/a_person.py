"""People of a tenant and of the platform, for tests of the room."""

from dataclasses import dataclass

import pytest

from billing.people.persons import Member, create_member
from billing.tables.tenants import PLATFORM, Tenant
from billing.tenants.tenancy import create_tenant
from core.sql.database import Database


@dataclass
class Peopled:
    """An owner and an operator of the platform, and an admin and a viewer of a tenant."""

    db: Database
    tenant: Tenant
    owner: Member
    operator: Member
    admin: Member
    viewer: Member


@pytest.fixture
async def peopled(database: Database) -> Peopled:
    """On SQLite and on Postgres."""
    tenant = await create_tenant(database, "acme")
    return Peopled(
        database,
        tenant,
        await create_member(database, PLATFORM, "Olga", "owner", "olga@example.com"),
        await create_member(database, PLATFORM, "Otto", "operator", "otto@example.com"),
        await create_member(database, tenant.tenant_id, "Ada", "admin", "ada@example.com"),
        await create_member(database, tenant.tenant_id, "Vic", "viewer", "vic@example.com"),
    )
