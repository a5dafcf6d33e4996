"""People of a tenant and of the platform, for tests of the room."""

from dataclasses import dataclass

import pytest

from billing.people.actors import actor_of_cookie
from billing.people.person_sessions import open_person_session
from billing.people.persons import Member, create_member
from billing.tables.people import Membership
from billing.tables.tenants import PLATFORM, Tenant
from billing.tenants.tenancy import create_tenant
from billing.unit_of_work.actors import OperationActor
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

    async def acting(self, member: Member, loopback: bool = True) -> OperationActor:
        """A member as they act in a session that they have just opened."""
        of = member.membership
        async with self.db.transaction() as session:
            row = await session.get(Membership, (of.tenant_id, of.person_id))
            assert row is not None
            new = await open_person_session(session, member.person, row, "192.0.2.1", "Browser")
        who = await actor_of_cookie(self.db, new.token, loopback)
        assert who is not None
        return who


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
