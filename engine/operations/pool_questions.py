"""What operations on pools share: whose requests are meant, in which pool, and finding one in any pool."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select

from billing.api import Look, Order, tenant_names
from billing.pools import PoolRow
from core.access.processes import POOLS
from core.access.processes import REQUESTS as REQUEST_KEYS
from core.access.tables import AUDIT as AUDIT
from core.errors import StartupError, bad_request, see, unknown
from core.operations import DEVELOPERS, OPERATORS, Role
from core.redis.client import RedisClient
from core.redis.pools import announced_pools, is_pool_name
from core.terminal.safe_text import printable_line
from engine.operations.inspection import Inspection, RequestDetail
from engine.queue import redis_keys
from engine.queue.client import PoolQueue

HANDLERS = OPERATORS | {Role.SUPPORT} | DEVELOPERS  # they see requests, and cancel them
READERS = HANDLERS | {Role.VIEWER}
POOL_READS = (*REQUEST_KEYS, "P:age:", "P:moving", "P:deadlines", "P:parked", "P:ended", "P:sys", POOLS)
WORKER_READS = (
    "P:workers",
    "P:worker:",
    "P:supervisors",
    "P:supervisor:",
    "P:orders:",
    "P:claims:",
    "P:sys",
    POOLS,
)

RequestId = Annotated[str, Meta(description="The request's id.")]
Whose = Annotated[str | None, Meta(description="The tenant's name or id. Without it, whoever's it is.")]
PoolName = Annotated[str | None, Meta(description="By default PARLEY_POOL.")]


class PoolQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what is asked about a pool."""

    pool: PoolName = None


class NameRequest(PoolQuestion, frozen=True, kw_only=True):
    """Which request. A member's is always of its own tenant."""

    request: RequestId
    tenant: Whose = None


def reads_of(unit: Look | Order) -> RedisClient:
    """Redis, to be read."""
    return unit.redis if isinstance(unit, Look) else unit.reads


def pool_named(unit: Look | Order, named: str | None, field: str = "pool") -> PoolQueue:
    """The pool that is meant. Raises Refused (of the field) for what is no pool's name."""
    if named is not None and not is_pool_name(named):
        raise bad_request(f"{printable_line(named)!r} is no name of a pool", field=field)
    return PoolQueue(reads_of(unit), named or unit.settings.pool, unit.settings)


async def known_pool(unit: Look | Order, named: str | None, field: str = "pool") -> PoolQueue:
    """The pool that is meant, where there is one of this name: it was announced, ran once, or has a row.
    Raises Refused (of the field) else. Members are not told which names there are."""
    queue = pool_named(unit, named, field)
    if unit.who.tenant is not None or queue.pool == unit.settings.pool:
        return queue
    if queue.pool in await announced_pools(queue.redis, unit.settings):
        return queue
    if await queue.redis.exists(redis_keys.system(queue.pool)) or await _has_row(unit, queue.pool):
        return queue
    raise unknown(f"there is no pool {queue.pool!r}", field=field, see=see("pools.list"))


async def _has_row(unit: Look | Order, pool: str) -> bool:
    """True where somebody created the pool; also while the database is away, as requests are in Redis."""
    try:
        async with unit.db.session() as session:
            named = select(PoolRow.pool).where(col(PoolRow.pool) == pool)
            return (await session.exec(named)).first() is not None
    except (StartupError, SQLAlchemyError, OSError):
        return True


def another(queue: PoolQueue, name: str) -> PoolQueue:
    """Another pool of the same installation."""
    return PoolQueue(queue.redis, name, queue.settings)


async def owner_named(unit: Look | Order, named: str | None) -> str | None:
    """The id of the tenant that is meant: a member's own, or None for anybody's. Raises Refused where there
    is none. While the database is away, what staff names is taken for an id: requests are in Redis."""
    if named is None:
        return unit.who.tenant
    try:
        return (await unit.tenant(named)).tenant_id
    except (StartupError, SQLAlchemyError, OSError):
        if unit.who.tenant is not None:
            raise
        return named


async def names_of_tenants(unit: Look, ids: Iterable[str]) -> dict[str, str]:
    """Names of these tenants by id, of a member its own; none while the database does not answer."""
    try:
        names = await tenant_names(unit.db, ids)
    except (StartupError, SQLAlchemyError, OSError):
        return {}
    return {id: name for id, name in names.items() if unit.who.tenant in (None, id)}


async def find_request(
    unit: Look | Order, pool: str | None, id: str, tenant: str | None
) -> tuple[PoolQueue, RequestDetail]:
    """A request and its pool: this one, or another of the installation that knows it. Raises Refused where
    none does."""
    first = pool_named(unit, pool)
    others = sorted(await announced_pools(first.redis, unit.settings) - {first.pool})
    for queue in [first, *(another(first, name) for name in others)]:
        inspection = Inspection(queue)
        member = await inspection.find(id, tenant)
        detail = await inspection.request(*member) if member else None
        if detail is not None:
            return queue, detail
    whose = f" of tenant {tenant}" if tenant else ""
    nor = ", nor does any other pool" if others else ""
    raise unknown(f"pool {first.pool} knows no request {id!r}{whose}{nor}", field="request")
