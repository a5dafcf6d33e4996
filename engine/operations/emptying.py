"""Emptying of a pool: its requests, or a tenant's, go to another, those that come meanwhile too.

It ends when a look finds nothing more to move, when it is asked to stop, or when a store does not answer:
what is moved stays moved, and the same again goes on.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from billing.api import OperationProgress
from core.clock import monotonic
from core.errors import Refusal, Refused
from core.redis import redis_errors
from engine.lifecycle.migration import MigrationRefusalReason, MigrationRefused, Migrator
from engine.operations.inspection import InspectedRequest, Inspection
from engine.operations.migration_facts import LISTED_MAX
from engine.operations.migration_preview import MigrationOutcome
from engine.queue.client import PoolQueue

AT_ONCE_MAX = 16
PAUSE_SECONDS = 0.2
NEWCOMERS_SECONDS_MAX = 60.0
GONE = (MigrationRefusalReason.UNKNOWN, MigrationRefusalReason.ENDED, MigrationRefusalReason.ALREADY_MOVED)

Watcher = Callable[[MigrationOutcome], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch_migrations(watcher: Watcher) -> None:
    """Tell `watcher`, in this task and those that it starts, of each request that a move is done with."""
    _watcher.set(watcher)


class MigrationFollower:
    """The base of who follows a move, request by request. Does nothing."""

    def listed(self, rows: list[InspectedRequest]) -> None:
        """These are to move, in this order."""

    def begins(self, row: InspectedRequest) -> None:
        """It is on its way."""

    def ends(self, row: InspectedRequest, outcome: MigrationOutcome) -> None:
        """It is moved, or stays."""


async def migrate_one(migrator: Migrator, source: str, tenant: str, id: str, dest: str) -> MigrationOutcome:
    """Move one request, where it can go."""
    try:
        await migrator.migrate(source, tenant, id, dest)
    except MigrationRefused as refused:
        return MigrationOutcome(id, tenant, source, dest, False, refused.reason.value, str(refused))
    return MigrationOutcome(id, tenant, source, dest, True)


@dataclass
class PoolEmptying:
    """One move of many requests: how far it is. `tenant`: only this one's; `looks_until`: on the clock of
    `monotonic`, it looks for newcomers at least so long; `newcomers`: they still came after a minute, and it
    was given up."""

    migrator: Migrator
    queue: PoolQueue
    dest: str
    tenant: str | None
    progress: OperationProgress
    follower: MigrationFollower = field(default_factory=MigrationFollower)
    looks_until: float = 0.0
    newcomers: bool = False
    moved: int = 0
    left: int = 0
    tried: int = 0
    stayed: dict[tuple[str, str], MigrationOutcome] = field(
        default_factory=dict[tuple[str, str], MigrationOutcome]
    )

    async def run(self) -> None:
        """Move them. Raises Refused where a store does not answer in between."""
        inspection, give_up_at = Inspection(self.queue), monotonic() + NEWCOMERS_SECONDS_MAX
        try:
            began = await self.queue.now_ms()
            while not self.progress.stopping:
                rows = await self._rest(inspection)
                if not rows and monotonic() >= self.looks_until:
                    return
                if monotonic() > give_up_at and all(row.accepted_ms > began for row in rows):
                    self.newcomers = bool(rows)
                    return
                await self._migrate_each(rows)
                await asyncio.sleep(PAUSE_SECONDS)
        except (redis_errors.RedisError, OSError) as error:
            left = f"{self.left} are still in pool {self.queue.pool}" if self.left else "others may be left"
            told = f"{self.moved} are moved, {left}: a store does not answer. Do it again, and it goes on"
            raise Refused(Refusal("overloaded", told, retry=True, after_ms=2000)) from error

    async def _rest(self, inspection: Inspection) -> list[InspectedRequest]:
        rows = await inspection.requests(self.tenant, None, LISTED_MAX)
        return [row for row in rows if (row.tenant, row.id) not in self.stayed]

    async def _migrate_each(self, rows: list[InspectedRequest]) -> None:
        self.left = len(rows)
        self.follower.listed(rows)
        slots, failed = asyncio.Semaphore(AT_ONCE_MAX), list[Exception]()

        async def one(row: InspectedRequest) -> None:
            async with slots:
                if failed or self.progress.stopping:
                    return
                self.follower.begins(row)
                try:
                    outcome = await migrate_one(self.migrator, self.queue.pool, row.tenant, row.id, self.dest)
                except (redis_errors.RedisError, OSError) as error:
                    failed.append(error)
                else:
                    self._count(row, outcome)

        async with asyncio.TaskGroup() as group:
            for row in rows:
                group.create_task(one(row))
        if failed:
            raise failed[0]

    def _count(self, row: InspectedRequest, outcome: MigrationOutcome) -> None:
        self.left -= 1
        self.tried += 1
        self.moved += outcome.moved
        if not outcome.moved and outcome.reason not in GONE:
            self.stayed[outcome.tenant, outcome.id] = outcome
        self.follower.ends(row, outcome)
        if (watcher := _watcher.get()) is not None:
            watcher(outcome)
        how = "moved" if outcome.moved else f"stays: {outcome.message}"
        self.progress.tell(self.tried, self.tried + self.left, f"{outcome.id} {how}")
