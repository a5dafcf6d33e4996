"""`parley requests migrate`: move requests to another pool, or all that a pool has."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import click
import msgspec

from billing.api import PLATFORM
from core.errors import StartupError
from core.redis.pools import announce_pool
from core.terminal.terminal import print_json, print_line
from engine.cli.connection import (
    PoolConnection,
    find_request,
    in_pool,
    json_option,
    on_record,
    tenant_id_of,
    tenant_option,
)
from engine.lifecycle.migration import MigrationRefusalReason, MigrationRefused, Migrator
from engine.operations.inspection import InspectedRequest

AT_ONCE_MAX = 16
LISTED_MAX = 10_000
PROGRESS_SECONDS = 1.0
PAUSE_SECONDS = 0.2
NEWCOMERS_SECONDS_MAX = 60.0
GONE = (MigrationRefusalReason.UNKNOWN, MigrationRefusalReason.ENDED, MigrationRefusalReason.ALREADY_MOVED)


class MigrationOutcome(msgspec.Struct, frozen=True):
    """Result for one request. `reason`: why it stayed, empty where it moved; `message`: the same in words."""

    id: str
    tenant: str
    source: str
    to: str
    moved: bool
    reason: str = ""
    message: str = ""


@dataclass
class MigrationTally:
    """Counts of a move of many requests, while it runs."""

    as_json: bool
    moved: int = 0
    left: int = 0
    stayed: dict[tuple[str, str], MigrationOutcome] = field(
        default_factory=dict[tuple[str, str], MigrationOutcome]
    )
    shown_at: float = 0.0

    def count(self, outcome: MigrationOutcome) -> None:
        """Count one more finished request."""
        self.left -= 1
        self.moved += outcome.moved
        if not outcome.moved and outcome.reason not in GONE:
            self.stayed[outcome.tenant, outcome.id] = outcome
        if self.as_json:
            print_json(outcome)
        if time.monotonic() - self.shown_at > PROGRESS_SECONDS:
            self.shown_at = time.monotonic()
            print_line(f"{self.moved} moved, {self.left} to go", err=True)


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--to", "dest", required=True, help="The pool to move to, where the same model runs.")
@click.option("--from-pool", "pool", help="The pool to move from. By default PARLEY_POOL.")
@click.option("--all", "everything", is_flag=True, help="Every request of the pool, until it has none.")
@tenant_option
@json_option
def migrate(
    ids: tuple[str, ...], dest: str, pool: str | None, everything: bool, tenant: str | None, as_json: bool
) -> None:
    """Move the requests IDS, or with --all every one, to another pool.

    They go on there at the token they had reached: readers see a pause, and the answer is billed once. To
    empty a pool, send new requests elsewhere first (`parley models route MODEL --to POOL`), then move what is
    left with --all. Repeating it changes nothing.
    """
    if bool(ids) == everything:
        raise click.UsageError("name requests, or say --all")
    if everything:
        in_pool(pool, lambda found: _empty(found, dest, tenant, as_json))
        return
    outcomes = in_pool(pool, lambda found: _some(found, ids, dest, tenant))
    for outcome in outcomes:
        where = (
            f"moved from pool {outcome.source} to {dest}" if outcome.moved else f"stays: {outcome.message}"
        )
        if as_json:
            print_json(outcome)
        else:
            print_line(f"{outcome.id} {where}")
    if not all(outcome.moved for outcome in outcomes):
        raise SystemExit(1)


async def _announce(pool: PoolConnection, dest: str) -> None:
    """Register a destination whose workers have no supervisor to do it."""
    if any(worker.alive for worker in await pool.another(dest).queue.workers()):
        await announce_pool(pool.queue.redis, pool.settings, dest)


async def _some(
    pool: PoolConnection, ids: Iterable[str], dest: str, tenant: str | None
) -> list[MigrationOutcome]:
    migrator, outcomes = _migrator(pool), list[MigrationOutcome]()
    whose = await tenant_id_of(pool, tenant)
    await _announce(pool, dest)
    for id in ids:
        found, detail = await find_request(pool, id, whose)
        await on_record(found, detail.row.tenant, "request.migrate", id, to=dest)
        outcomes.append(await _move(migrator, found.name, detail.row.tenant, id, dest))
    return outcomes


def _migrator(pool: PoolConnection) -> Migrator:
    return Migrator(pool.queue.redis, pool.settings, pool.settings.shared_keyring)


async def _move(migrator: Migrator, source: str, tenant: str, id: str, dest: str) -> MigrationOutcome:
    try:
        await migrator.migrate(source, tenant, id, dest)
    except MigrationRefused as refused:
        return MigrationOutcome(id, tenant, source, dest, False, refused.reason.value, str(refused))
    return MigrationOutcome(id, tenant, source, dest, True)


async def _empty(pool: PoolConnection, dest: str, tenant: str | None, as_json: bool) -> None:
    """Move requests until a look at the pool finds nothing more to move."""
    tenant = await tenant_id_of(pool, tenant)
    await on_record(pool, tenant or PLATFORM, "request.migrate_all", pool.name, to=dest)
    migrator, tally = _migrator(pool), MigrationTally(as_json)
    await _announce(pool, dest)
    began, give_up_at = await pool.queue.now_ms(), time.monotonic() + NEWCOMERS_SECONDS_MAX
    while rows := await _rest(pool, tenant, tally):
        if time.monotonic() > give_up_at and all(row.accepted_ms > began for row in rows):
            raise StartupError(
                f"{tally.moved} are moved, but new ones still come to pool {pool.name}: route its models to "
                f"{dest} first (`parley models route MODEL --to {dest}`)"
            )
        await _move_all(migrator, pool.name, rows, dest, tally)
        await asyncio.sleep(PAUSE_SECONDS)
    if tally.stayed:
        first = next(iter(tally.stayed.values()))
        stay = f"{len(tally.stayed)} stay in pool {pool.name}"
        raise StartupError(f"{tally.moved} are moved, {stay}: {first.id}: {first.message}")
    if not as_json:
        whose = f" of tenant {tenant}" if tenant else ""
        print_line(f"pool {pool.name} has no requests{whose} any more: {tally.moved} are moved to {dest}")


async def _rest(pool: PoolConnection, tenant: str | None, tally: MigrationTally) -> list[InspectedRequest]:
    rows = await pool.inspection.requests(tenant, None, LISTED_MAX)
    return [row for row in rows if (row.tenant, row.id) not in tally.stayed]


async def _move_all(
    migrator: Migrator, source: str, rows: list[InspectedRequest], dest: str, tally: MigrationTally
) -> None:
    tally.left = len(rows)
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(row: InspectedRequest) -> None:
        async with slots:
            tally.count(await _move(migrator, source, row.tenant, row.id, dest))

    async with asyncio.TaskGroup() as group:
        for row in rows:
            group.create_task(one(row))
