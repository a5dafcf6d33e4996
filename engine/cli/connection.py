"""A connection of this package's commands to a pool, with their message where Redis does not answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.api import find_tenant, record_separately, tenant_names
from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import connect
from core.redis.pools import announced_pools
from core.sql.database import Database, require_schema
from core.sql.store_errors import database_failure, redis_failure
from engine.operations.inspection import Inspection, RequestDetail
from engine.queue.client import PoolQueue

T = TypeVar("T")

tenant_option = click.option("--tenant", help="The tenant's name or id. Without it, whoever's it is.")
pool_option = click.option("--pool", help="By default PARLEY_POOL.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


class PoolConnection:
    """One pool, for looking at and for giving orders."""

    def __init__(self, settings: Settings, queue: PoolQueue) -> None:
        self.settings = settings
        self.queue = queue
        self.name = queue.pool
        self.inspection = Inspection(queue)
        self.nodes = self.inspection.nodes

    def another(self, name: str) -> "PoolConnection":
        """Another pool of the same installation."""
        return PoolConnection(self.settings, PoolQueue(self.queue.redis, name, self.settings))


async def tenant_id_of(pool: PoolConnection, named: str | None) -> str | None:
    """The id of a tenant by name or id; None stays None. Raises StartupError where there is none. While the
    database does not answer, what is given is taken for an id: a pool's requests are in Redis."""
    if named is None:
        return None
    db = Database(pool.settings.database_endpoint)
    try:
        await require_schema(db)
        tenant = await find_tenant(db, named)
    except (StartupError, SQLAlchemyError, OSError):
        return named
    finally:
        await db.close()
    if tenant is None:
        raise StartupError(f"there is no tenant {named!r}: see `parley tenants list`")
    return tenant.tenant_id


async def names_of_tenants(pool: PoolConnection) -> dict[str, str]:
    """Tenants' names by id; none while the database does not answer."""
    db = Database(pool.settings.database_endpoint)
    try:
        await require_schema(db)
        return await tenant_names(db)
    except (StartupError, SQLAlchemyError, OSError):
        return {}
    finally:
        await db.close()


async def on_record(pool: "PoolConnection", tenant: str, action: str, target: str, **facts: object) -> None:
    """Write an order into the audit log before it is given, so that no order lacks its row.

    `tenant`: the one it concerns; PLATFORM where it concerns none. Raises StartupError where it cannot be
    written.
    """
    db = Database(pool.settings.database_endpoint)
    try:
        await require_schema(db)
        await record_separately(db, tenant, action, target, {"pool": pool.name, **facts})
    except StartupError as error:
        raise StartupError(f"nothing is done, since it cannot be recorded: {error}") from error
    except (SQLAlchemyError, OSError) as error:
        why = database_failure(error)
        raise StartupError(f"nothing is done, since it cannot be recorded: {why}") from error
    finally:
        await db.close()


def in_pool(name: str | None, action: Callable[[PoolConnection], Awaitable[T]]) -> T:
    """Run `action` on the pool. A failure is one line on stderr and exit code 1 (StartupError)."""
    settings = Settings()

    async def connected() -> T:
        redis = connect(settings)
        try:
            return await action(PoolConnection(settings, PoolQueue(redis, name or settings.pool, settings)))
        finally:
            await redis.aclose()

    try:
        return asyncio.run(connected())
    except (RedisError, OSError) as error:
        raise redis_failure(error, settings) from error


async def find_request(
    pool: PoolConnection, id: str, tenant: str | None
) -> tuple[PoolConnection, RequestDetail]:
    """A request and its pool: this one, or another of the installation that knows it."""
    others = sorted(await announced_pools(pool.queue.redis, pool.settings) - {pool.name})
    for each in [pool, *map(pool.another, others)]:
        member = await each.inspection.find(id, tenant)
        detail = await each.inspection.request(*member) if member else None
        if detail is not None:
            return each, detail
    whose = f" of tenant {tenant}" if tenant else ""
    raise StartupError(
        f"pool {pool.name} knows no request {id!r}{whose}" + (", nor does any other pool" if others else "")
    )
