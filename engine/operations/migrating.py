"""Operations that move requests to another pool: one, or all that a pool has."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.api import PLATFORM, OperationProgress, Order
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
from engine.lifecycle.migration import MigrationRefusalReason, MigrationRefused, Migrator
from engine.operations.inspection import InspectedRequest, Inspection
from engine.operations.pool_questions import (
    AUDIT,
    NameRequest,
    PoolQuestion,
    find_request,
    owner_named,
    pool_named,
)
from engine.queue.client import PoolQueue

AT_ONCE_MAX = 16
LISTED_MAX = 10_000
PAUSE_SECONDS = 0.2
NEWCOMERS_SECONDS_MAX = 60.0
GONE = (MigrationRefusalReason.UNKNOWN, MigrationRefusalReason.ENDED, MigrationRefusalReason.ALREADY_MOVED)
MIGRATES = (
    *(*REQUESTS, *LINES, *WORKERS, *READERS, *POLICIES, "P:moving", "P:grave:"),
    *("T:rq:", "T:live", POOLS, GATEWAY_HINTS, WORKER_WAKES),
)

Destination = Annotated[str, Meta(description="The pool to move to, where the same model runs.")]


class MigrateRequest(NameRequest, frozen=True, kw_only=True):
    """Which request, and where to."""

    to: Destination


class MigratePool(PoolQuestion, frozen=True, kw_only=True):
    """Which pool's requests, and where to. `tenant`: only this one's."""

    to: Destination
    tenant: Annotated[str | None, Meta(description="Only this tenant's (name or id).")] = None


class MigrationOutcome(msgspec.Struct, frozen=True):
    """Result for one request. `reason`: why it stayed, empty where it moved; `message`: the same in words."""

    id: str
    tenant: str
    source: str
    to: str
    moved: bool
    reason: str = ""
    message: str = ""


class MigratedPool(msgspec.Struct, frozen=True):
    """Result for all of a pool's requests: how many are moved, and those that stay. `newcomers`: new ones
    still came after a minute, and it was given up."""

    pool: str
    to: str
    moved: int
    stay: list[MigrationOutcome]
    newcomers: bool = False


Watcher = Callable[[MigrationOutcome], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch_migrations(watcher: Watcher) -> None:
    """Tell `watcher`, in this task and those that it starts, of each request that a move is done with."""
    _watcher.set(watcher)


@operation(
    "requests.migrate",
    "POST /requests/{request}/migrate",
    may=OPERATORS,
    audit="request.migrate",
    reason=True,
    uses=Uses(reads="tenant", writes=AUDIT, keys=MIGRATES),
)
async def migrate_request(order: Order, ask: MigrateRequest) -> MigrationOutcome:
    """Move a request to another pool. It goes on there at the token that it had reached: readers see a
    pause, and the answer is billed once."""
    owner = await owner_named(order, ask.tenant)
    queue, found = await find_request(order, ask.pool, ask.request, owner)
    tenant, dest = found.row.tenant, pool_named(order, ask.to, "to").pool
    would = MigrationOutcome(found.row.id, tenant, queue.pool, dest, False, "dry_run", "this was a dry run")
    redis = await order.given(tenant, found.row.id, would, {"pool": queue.pool, "to": dest})
    await _announce(redis, order, dest)
    return await _migrate(_migrator(redis, order), queue.pool, tenant, found.row.id, dest)


@operation(
    "requests.migrate_all",
    "POST /requests/migrate",
    may=OPERATORS,
    audit="request.migrate_all",
    reason=True,
    long=True,
    uses=Uses(reads="tenant", writes=f"operation_run {AUDIT}", keys=MIGRATES),
)
async def migrate_pool(order: Order, ask: MigratePool) -> MigratedPool:
    """Move every request of a pool to another, until it has none, or only those that cannot move."""
    queue, owner = pool_named(order, ask.pool), await owner_named(order, ask.tenant)
    dest = pool_named(order, ask.to, "to").pool
    would = MigratedPool(queue.pool, dest, 0, [])
    redis = await order.given(owner or PLATFORM, queue.pool, would, {"pool": queue.pool, "to": dest})
    await _announce(redis, order, dest)
    return await _empty(order, PoolQueue(redis, queue.pool, order.settings), owner, dest)


@dataclass
class MigrationTally:
    """Counts of a move of many requests, while it runs."""

    progress: OperationProgress
    moved: int = 0
    left: int = 0
    tried: int = 0
    stayed: dict[tuple[str, str], MigrationOutcome] = field(
        default_factory=dict[tuple[str, str], MigrationOutcome]
    )

    def count(self, outcome: MigrationOutcome) -> None:
        """Count one more finished request."""
        self.left -= 1
        self.tried += 1
        self.moved += outcome.moved
        if not outcome.moved and outcome.reason not in GONE:
            self.stayed[outcome.tenant, outcome.id] = outcome
        if (watcher := _watcher.get()) is not None:
            watcher(outcome)
        how = "moved" if outcome.moved else f"stays: {outcome.message}"
        self.progress.tell(self.tried, self.tried + self.left, f"{outcome.id} {how}")


async def _announce(redis: RedisClient, order: Order, dest: str) -> None:
    """Register a destination whose workers have no supervisor to do it."""
    if any(worker.alive for worker in await PoolQueue(redis, dest, order.settings).workers()):
        await announce_pool(redis, order.settings, dest)


def _migrator(redis: RedisClient, order: Order) -> Migrator:
    return Migrator(redis, order.settings, order.settings.shared_keyring)


async def _migrate(migrator: Migrator, source: str, tenant: str, id: str, dest: str) -> MigrationOutcome:
    try:
        await migrator.migrate(source, tenant, id, dest)
    except MigrationRefused as refused:
        return MigrationOutcome(id, tenant, source, dest, False, refused.reason.value, str(refused))
    return MigrationOutcome(id, tenant, source, dest, True)


async def _empty(order: Order, queue: PoolQueue, tenant: str | None, dest: str) -> MigratedPool:
    """Move requests until a look at the pool finds nothing more to move, or it is asked to stop."""
    migrator, inspection = _migrator(queue.redis, order), Inspection(queue)
    tally = MigrationTally(order.progress)
    began, give_up_at = await queue.now_ms(), time.monotonic() + NEWCOMERS_SECONDS_MAX
    newcomers = False
    while not newcomers and (rows := await _rest(inspection, tenant, tally)):
        if order.progress.stopping:
            break
        newcomers = time.monotonic() > give_up_at and all(row.accepted_ms > began for row in rows)
        if not newcomers:
            await _migrate_each(migrator, queue.pool, rows, dest, tally)
            await asyncio.sleep(PAUSE_SECONDS)
    return MigratedPool(queue.pool, dest, tally.moved, list(tally.stayed.values()), newcomers)


async def _rest(inspection: Inspection, tenant: str | None, tally: MigrationTally) -> list[InspectedRequest]:
    rows = await inspection.requests(tenant, None, LISTED_MAX)
    return [row for row in rows if (row.tenant, row.id) not in tally.stayed]


async def _migrate_each(
    migrator: Migrator, source: str, rows: list[InspectedRequest], dest: str, tally: MigrationTally
) -> None:
    tally.left = len(rows)
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(row: InspectedRequest) -> None:
        async with slots:
            if tally.progress.stopping:
                return
            tally.count(await _migrate(migrator, source, row.tenant, row.id, dest))

    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row))


OPERATIONS = (migrate_request, migrate_pool)
