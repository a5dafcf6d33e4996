"""Operations that move requests to another pool: one, or all that a pool has."""

from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import PLATFORM, Order
from billing.pools import tenants_let_in
from core.access.processes import (
    GATEWAY_HINTS,
    LINES,
    POLICIES,
    POOLS,
    READERS,
    REQUESTS,
    WORKER_WAKES,
    WORKERS,
)
from core.operations import OPERATORS, Uses, operation
from core.redis.client import RedisClient
from core.redis.pools import announce_pool
from engine.lifecycle.migration import Migrator
from engine.operations.emptying import PoolEmptying, migrate_one
from engine.operations.migration_facts import read_destination, read_source
from engine.operations.migration_preview import MigrationOutcome, MigrationPreview, previewed
from engine.operations.pool_questions import (
    AUDIT,
    NameRequest,
    PoolQuestion,
    find_request,
    known_pool,
    owner_named,
)
from engine.queue.client import PoolQueue

MIGRATES = (
    *(*REQUESTS, *LINES, *WORKERS, *READERS, *POLICIES, "P:moving", "P:grave:"),
    *("T:rq:", "T:live", POOLS, GATEWAY_HINTS, WORKER_WAKES),
)
ADMITTED = "pool pool_admission"

Destination = Annotated[str, Meta(description="The pool to move to, where the same model runs.")]


class MigrateRequest(NameRequest, frozen=True, kw_only=True):
    """Which request, and where to."""

    to: Destination


class MigratePool(PoolQuestion, frozen=True, kw_only=True):
    """Which pool's requests, and where to. `tenant`: only this one's."""

    to: Destination
    tenant: Annotated[str | None, Meta(description="Only this tenant's (name or id).")] = None


class MigratedPool(msgspec.Struct, frozen=True):
    """Result for all of a pool's requests: how many are moved, and those that stay. `newcomers`: new ones
    still came after a minute, and it was given up. `preview`: of a dry run, in which `moved` and `stay` are
    what would be."""

    pool: str
    to: str
    moved: int
    stay: list[MigrationOutcome]
    newcomers: bool = False
    preview: MigrationPreview | None = None


@operation(
    "requests.migrate",
    "POST /requests/{request}/migrate",
    may=OPERATORS,
    audit="request.migrate",
    reason=True,
    uses=Uses(reads=f"tenant {ADMITTED}", writes=AUDIT, keys=MIGRATES),
)
async def migrate_request(order: Order, ask: MigrateRequest) -> MigrationOutcome:
    """Move a request to another pool. It goes on there at the token that it had reached: readers see a
    pause, and the answer is billed once."""
    owner = await owner_named(order, ask.tenant)
    queue, found = await find_request(order, ask.pool, ask.request, owner)
    tenant, dest = found.row.tenant, (await known_pool(order, ask.to, "to")).pool
    would = MigrationOutcome(found.row.id, tenant, queue.pool, dest, False, "dry_run", "this was a dry run")
    redis = await order.given(tenant, found.row.id, would, {"pool": queue.pool, "to": dest})
    await announce_if_alive(redis, order, dest)
    return await migrate_one(migrator_of(redis, order), queue.pool, tenant, found.row.id, dest)


@operation(
    "requests.migrate_all",
    "POST /requests/migrate",
    may=OPERATORS,
    audit="request.migrate_all",
    reason=True,
    long=True,
    uses=Uses(reads=f"tenant {ADMITTED}", writes=f"operation_run {AUDIT}", keys=MIGRATES),
)
async def migrate_pool(order: Order, ask: MigratePool) -> MigratedPool:
    """Move every request of a pool to another, until it has none, or only those that cannot move."""
    queue, owner = await known_pool(order, ask.pool), await owner_named(order, ask.tenant)
    there = await known_pool(order, ask.to, "to")
    dest, would = there.pool, MigratedPool(queue.pool, there.pool, 0, [])
    if order.terms.dry_run:
        told = previewed(await read_source(queue, owner), await read_destination(there, order.db))
        would = MigratedPool(queue.pool, dest, told.streams + told.waiting, told.stay, preview=told)
    redis = await order.given(owner or PLATFORM, queue.pool, would, {"pool": queue.pool, "to": dest})
    await announce_if_alive(redis, order, dest)
    source = PoolQueue(redis, queue.pool, order.settings)
    done = PoolEmptying(migrator_of(redis, order), source, dest, owner, order.progress)
    await done.run()
    return MigratedPool(queue.pool, dest, done.moved, list(done.stayed.values()), done.newcomers)


async def announce_if_alive(redis: RedisClient, order: Order, dest: str) -> None:
    """Register a destination whose workers have no supervisor to do it."""
    if any(worker.alive for worker in await PoolQueue(redis, dest, order.settings).workers()):
        await announce_pool(redis, order.settings, dest)


def migrator_of(redis: RedisClient, order: Order) -> Migrator:
    """Who migrates, with this process' seal, and where tenants are let in."""

    async def let_in(pool: str) -> list[str]:
        return await tenants_let_in(order.db, pool)

    return Migrator(redis, order.settings, order.settings.shared_keyring, let_in=let_in)


OPERATIONS = (migrate_request, migrate_pool)
