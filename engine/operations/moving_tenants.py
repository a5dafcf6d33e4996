"""The operation that moves a tenant to another pool: its routing first, then its live answers.

What is routed stands in SQL with the order's audit row: whatever happens behind it, new requests go to the
new pool, and the same again brings the others after them.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.api import PLATFORM, Order, Tenant
from billing.pools import (
    ROUTES_KEPT_SECONDS,
    PoolRow,
    RouteMove,
    read_route_move,
    tenants_let_in,
    write_route_move,
)
from core.access.processes import ADMITS
from core.clock import monotonic
from core.operations import OPERATORS, Uses, operation
from core.redis.client import RedisClient
from core.tasks import cancel_tasks
from engine.operations.emptying import PoolEmptying
from engine.operations.migrating import MIGRATES, Destination, announce_if_alive, migrator_of
from engine.operations.migration_facts import read_destination, read_source
from engine.operations.migration_preview import MigrationOutcome, MigrationPreview, previewed
from engine.operations.moved_streams import MovedStream, MovedStreams, MovedStreamState
from engine.operations.pool_questions import AUDIT, pool_named
from engine.queue.client import PoolQueue

NEWCOMERS_SECONDS = ROUTES_KEPT_SECONDS + 0.5  # a request is routed a moment before it is in its pool
ARRIVED = (MovedStreamState.WAITS, MovedStreamState.MOVED)
TO_MOVE = (*ARRIVED, MovedStreamState.NEXT, MovedStreamState.MOVING)


class MoveTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Who moves, from where, and where to."""

    pool: Annotated[str, Meta(description="The pool to move from.")]
    tenant: Annotated[str, Meta(description="The tenant's name or id.")]
    to: Destination


class MovedTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a move, or how far it is: requests that are moved, and those that stay. `leaves`: pools that
    let the tenant in no more; `enters`: the new one lets it in from now on. `streams`: some of the answers
    that ran; `streams_moved` of `streams_to_move`. `newcomers`: new requests still came after a minute, and
    it was given up. `preview`: of a dry run."""

    pool: str
    to: str
    tenant: str
    leaves: list[str]
    enters: bool
    moved: int
    stay: list[MigrationOutcome]
    newcomers: bool = False
    streams: list[MovedStream] = []
    streams_moved: int = 0
    streams_to_move: int = 0
    lost: int = 0
    doubled: int = 0
    longest_pause_ms: int | None = None
    preview: MigrationPreview | None = None


@operation(
    "pools.move",
    "POST /pools/{pool}/move",
    may=OPERATORS,
    audit="pool.move",
    reason=True,
    edits=True,
    long=True,
    uses=Uses(reads="tenant", writes=f"pool pool_admission operation_run {AUDIT}", keys=(*MIGRATES, *ADMITS)),
)
async def move_tenant(order: Order, ask: MoveTenant) -> MovedTenant:
    """Move a tenant to another pool of the same model: its new requests go there at once, and its open ones
    after them, at the token that they had reached. Repeating it moves what is left."""
    tenant = await order.tenant(ask.tenant)
    source, dest = pool_named(order, ask.pool), pool_named(order, ask.to, "to")
    async with order.db.session() as session:
        route = await read_route_move(session, tenant.tenant_id, source.pool, dest.pool)
        await order.check_version(session, PoolRow, PLATFORM, source.pool)
    would = await _would(order, tenant, route, source, dest)

    async def writing(session: AsyncSession) -> Mapping[str, Any]:
        written = await write_route_move(session, tenant.tenant_id, source.pool, dest.pool)
        await order.check_version(session, PoolRow, PLATFORM, source.pool)
        return {"leaves": list(written.leaves), "enters": written.enters}

    facts = {"tenant": tenant.tenant_id, "to": dest.pool}
    order.progress.so_far = lambda: would  # its run says from the first moment on what moves where
    redis = await order.given(PLATFORM, source.pool, would, facts, writing=writing)
    await announce_if_alive(redis, order, dest.pool)
    if route.enters:  # its supervisor reads it within a second: what moves need not wait for that
        there = PoolQueue(redis, dest.pool, order.settings)
        await there.admit(await tenants_let_in(order.db, dest.pool))
    return await _moved(order, redis, tenant, would)


async def _would(
    order: Order, tenant: Tenant, route: RouteMove, source: PoolQueue, dest: PoolQueue
) -> MovedTenant:
    """The answer of a dry run; else its beginning."""
    would = MovedTenant(
        pool=source.pool,
        to=dest.pool,
        tenant=tenant.name,
        leaves=list(route.leaves),
        enters=route.enters,
        moved=0,
        stay=[],
    )
    if not order.terms.dry_run:
        return would
    there = await read_destination(dest, order.db)
    if there.admitted is not None:  # it will be
        there = replace(there, admitted=there.admitted | {tenant.tenant_id})
    preview = previewed(await read_source(source, tenant.tenant_id), there, price_of(tenant, route))
    number = preview.streams + preview.waiting
    return msgspec.structs.replace(would, moved=number, stay=preview.stay, preview=preview)


def price_of(tenant: Tenant, route: RouteMove) -> str:
    """What a move does to the tenant's price: nothing. Pure."""
    if route.owner == tenant.tenant_id:
        return (
            f"as before: {tenant.name} pays for the GPUs there already, and by its own price book for tokens"
        )
    return f"as before: by token, of {tenant.name}'s own price book"


async def _moved(order: Order, redis: RedisClient, tenant: Tenant, would: MovedTenant) -> MovedTenant:
    """Move what is open and what comes meanwhile, and answer what became of it."""
    source, dest = (PoolQueue(redis, pool, order.settings) for pool in (would.pool, would.to))
    streams = MovedStreams(source, dest, order.progress.changed)
    emptying = PoolEmptying(
        migrator_of(redis, order),
        source,
        dest.pool,
        tenant.tenant_id,
        order.progress,
        follower=streams,
        looks_until=monotonic() + NEWCOMERS_SECONDS,
    )

    def so_far() -> MovedTenant:
        return _answer(would, emptying, streams)

    order.progress.so_far = so_far
    watching = asyncio.create_task(streams.watch())
    try:
        await emptying.run()
    finally:
        await cancel_tasks([watching])
    await streams.settle()
    return so_far()


def _answer(would: MovedTenant, emptying: PoolEmptying, streams: MovedStreams) -> MovedTenant:
    return msgspec.structs.replace(
        would,
        moved=emptying.moved,
        stay=list(emptying.stayed.values()),
        newcomers=emptying.newcomers,
        streams=streams.shown,
        streams_moved=streams.count(*ARRIVED),
        streams_to_move=streams.count(*TO_MOVE),
        lost=len(streams.lost),
        doubled=len(streams.doubled),
        longest_pause_ms=streams.longest_pause_ms,
    )


OPERATIONS = (move_tenant,)
