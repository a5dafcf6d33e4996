"""Who performs operations in tests, and on which stores."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from billing.operations import tenants
from billing.operations.tenants import CreateTenant
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.operations import Role
from core.sql.database import Database
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)


@pytest.fixture
async def stores(settings: Settings, database: Database, redis: Redis) -> Stores:
    """SQLite and Postgres, and a real Valkey, with the tenants acme and other."""
    made = Stores(settings, database, lambda: redis)
    for name in ("acme", "other"):
        await answer_of(tenants.create_tenant, made, OWNER, CreateTenant(name=name))
    return made


def member_of(tenant: str, role: Role) -> OperationActor:
    """A member of a tenant (its id), at this command line."""
    return OperationActor(Author("Mia", "command"), role, tenant=tenant)


async def refusal_of(
    run: Callable[[Any, Any], Awaitable[Any]], stores: Stores, who: OperationActor, ask: msgspec.Struct
) -> Refusal:
    """Why an operation is refused."""
    with pytest.raises(Refused) as refused:
        await answer_of(run, stores, who, ask)
    return refused.value.refusal
