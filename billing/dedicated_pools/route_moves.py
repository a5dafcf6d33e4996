"""Routing of a tenant whose requests go to another pool of the same model: which pools let it in.

What it pays for stays its own: a move only changes which of others' pools let it in.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.dedicated_pools.pools import check_pool, let_in_by_pool, no_pool
from billing.tables.pools import ACTIVE, SHARED, PoolAdmission, PoolRow
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import bad_request, see, see_help, unknown


@dataclass(frozen=True)
class RouteMove:
    """What changes. `leaves`: others' pools that let the tenant in no more; `enters`: the destination is
    another's and lets it in from now on; `owner`: who pays there, SHARED where it is nobody's."""

    leaves: tuple[str, ...] = ()
    enters: bool = False
    owner: str = SHARED


def route_move(
    tenant_id: str, source: str, dest: str, pools: Sequence[PoolRow], let_in: Mapping[str, Collection[str]]
) -> RouteMove:
    """What has to change so that the tenant's requests for the source's model go to `dest`. Raises Refused,
    with the field, where they cannot. Pure."""
    rows = {row.pool: row for row in pools}
    here, there = rows.get(source), rows.get(dest)
    if here is None:
        raise no_pool(source)
    if there is None:
        raise unknown(f"there is no pool {dest!r}", field="to", see=see("pools.list"))
    _check_alike(here, there)
    if here.tenant_id == tenant_id:
        told = (
            f"the tenant pays for the pool {source!r}: drain it, or edit who pays; then migrate what it has"
        )
        raise bad_request(told, field="tenant", see=see_help("requests.migrate_all"))
    same = [row for row in pools if row.model == here.model and row.pool != dest and row.state == ACTIVE]
    own = next((row.pool for row in same if row.tenant_id == tenant_id), None)
    if own is not None:
        told = (
            f"the tenant's requests for {here.model} go to its own pool {own!r}: move it there, or edit that"
        )
        raise bad_request(told, field="to", see=see_help("pools.edit"))
    leaves = {row.pool for row in (*same, here) if tenant_id in let_in.get(row.pool, ())}
    enters = there.tenant_id not in (SHARED, tenant_id) and tenant_id not in let_in.get(dest, ())
    if enters:
        check_pool(there, [*let_in.get(dest, ()), tenant_id])
    return RouteMove(tuple(sorted(leaves)), enters, there.tenant_id)


def _check_alike(here: PoolRow, there: PoolRow) -> None:
    if here.pool == there.pool:
        raise bad_request("it is there: name another pool", field="to")
    if there.state != ACTIVE:
        raise bad_request(f"the pool {there.pool!r} takes nothing new: it drains", field="to")
    if (here.model, here.version) != (there.model, there.version):
        told = f"{there.pool!r} runs {there.model} {there.version}, not {here.model} {here.version}"
        raise bad_request(f"{told}: an answer goes on only where it began", field="to", see=see("pools.list"))


async def read_route_move(session: AsyncSession, tenant_id: str, source: str, dest: str) -> RouteMove:
    """The same, of the pools as they are."""
    pools = (await session.exec(select(PoolRow).order_by(col(PoolRow.pool)))).all()
    let_in = await let_in_by_pool(session, [row.pool for row in pools])
    return route_move(tenant_id, source, dest, pools, let_in)


async def write_route_move(session: AsyncSession, tenant_id: str, source: str, dest: str) -> RouteMove:
    """Change it, in a transaction whose audit row (the platform's) the caller adds. Each pool that lets
    others in than before has a new generation. Raises Refused as `route_move`."""
    await lock_settings(session, PLATFORM)
    move = await read_route_move(session, tenant_id, source, dest)
    for pool in move.leaves:
        await session.delete(await session.get_one(PoolAdmission, (pool, tenant_id)))
    if move.enters:
        session.add(PoolAdmission(pool=dest, tenant_id=tenant_id, created_ms=now_ms()))
    for pool in (*move.leaves, *([dest] if move.enters else [])):
        (await session.get_one(PoolRow, pool)).generation += 1
    await session.flush()
    return move
