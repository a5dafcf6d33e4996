"""Changes of what a pool should be, with its history of owners in the same transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.dedicated_pools.hours import PoolOwnership
from billing.dedicated_pools.owners import write_owner
from billing.tables.pools import ACTIVE, DRAINING, SHARED, PoolAdmission, PoolRow
from billing.tables.tenants import PLATFORM
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import Refused, bad_request, see, unknown
from core.names import NAME_RULE, name_of
from core.sql.database import Database

WORKERS_MAX = 1_024
LABELS_MAX = 32
LET_IN_MAX = 1_000
RESERVE_TOKENS_MAX = 1 << 40


async def create_pool(db: Database, row: PoolRow, let_in: Collection[str] = ()) -> PoolRow:
    """Add a pool, and let these tenants (their ids) into it. Raises Refused where there is one of this name
    or for the same model and tenant, or it is out of bounds."""
    check_pool(row, let_in)
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        if await session.get(PoolRow, row.pool) is not None:
            raise bad_request(f"there is a pool {row.pool!r} already: edit it", field="pool")
        await _check_alone(session, row)
        session.add(row)
        await session.flush()
        await _let_in(session, row.pool, let_in)
        await write_owner(session, row.pool, _ownership(row))
        await record(session, PLATFORM, "pool.create", row.pool, None, _facts(row, let_in))
    return row


async def edit_pool(
    db: Database, pool: str, changes: Mapping[str, Any], let_in: Collection[str] | None = None
) -> PoolRow:
    """Change columns of a pool, and whom it lets in (None: as before). A change makes a new generation.
    Raises Refused as `create_pool`, and where there is no such pool."""
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        row = await _pool(session, pool)
        before_in = (await let_in_by_pool(session, [pool]))[pool]
        before = _facts(row, before_in)
        for name, value in changes.items():
            setattr(row, name, value)
        guests = before_in if let_in is None else let_in
        check_pool(row, guests)
        await _check_alone(session, row)
        if _facts(row, guests) == before:
            return row
        row.generation += 1
        await session.flush()
        await _let_in(session, pool, guests)
        await write_owner(session, pool, _ownership(row))
        await record(session, PLATFORM, "pool.edit", pool, before, _facts(row, guests))
    return row


async def drain_pool(db: Database, pool: str) -> PoolRow:
    """Let a pool take nothing new. Raises Refused where there is none."""
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        row = await _pool(session, pool)
        if row.state != DRAINING:
            before = row.model_dump()
            row.state, row.generation = DRAINING, row.generation + 1
            await session.flush()
            await record(session, PLATFORM, "pool.drain", pool, before, row)
    return row


async def delete_pool(db: Database, pool: str) -> PoolRow:
    """Remove a drained pool; its history stays. Raises Refused where there is none, or it is active. Whether
    it is empty is for the caller to know."""
    async with db.transaction() as session:
        await lock_settings(session, PLATFORM)
        row = await _pool(session, pool)
        if row.state != DRAINING:
            known = see("pools.drain", pool=pool)
            raise bad_request(f"the pool {pool!r} is active: drain it first", field="pool", see=known)
        before = _facts(row, (await let_in_by_pool(session, [pool]))[pool])
        await _let_in(session, pool, ())
        await session.delete(row)
        await session.flush()
        await write_owner(session, pool, PoolOwnership(now_ms(), SHARED))
        await record(session, PLATFORM, "pool.delete", pool, before, None)
    return row


def check_pool(row: PoolRow, let_in: Collection[str] = ()) -> None:
    """Raise Refused, with the field, where a pool is out of bounds. Pure."""
    reserves = ("reserve_interactive_tokens", "reserve_standard_tokens")
    bounds = (("workers", WORKERS_MAX), *((name, RESERVE_TOKENS_MAX) for name in reserves))
    for name, most in bounds:
        if not 0 <= getattr(row, name) <= most:
            raise bad_request(f"{name} is from 0 to {most:,}", field=name)
    if len(row.labels) > LABELS_MAX or any(
        name_of(each) != each for pair in row.labels.items() for each in pair
    ):
        raise bad_request(f"at most {LABELS_MAX} labels NAME=VALUE, each {NAME_RULE}", field="labels")
    if row.project_id and not row.tenant_id:
        raise bad_request("a project pays for a tenant's pool: name the tenant", field="project")
    if let_in and not row.tenant_id:
        raise bad_request("a shared pool lets all in", field="let_in")
    if len(let_in) > LET_IN_MAX:
        raise bad_request(f"at most {LET_IN_MAX} tenants are let in", field="let_in")
    if row.tenant_id in let_in:
        raise bad_request("the tenant whose pool it is is in it already", field="let_in")


async def let_in_by_pool(session: AsyncSession, pools: Sequence[str]) -> dict[str, list[str]]:
    """Ids of the tenants that are let into each of these pools, which are others', in order."""
    found: dict[str, list[str]] = {pool: [] for pool in pools}
    order = (col(PoolAdmission.pool), col(PoolAdmission.tenant_id))
    statement = select(PoolAdmission).where(col(PoolAdmission.pool).in_(pools)).order_by(*order)
    for each in await session.exec(statement):
        found[each.pool].append(each.tenant_id)
    return found


async def _pool(session: AsyncSession, pool: str) -> PoolRow:
    row = await session.get(PoolRow, pool, populate_existing=True)
    if row is None:
        raise no_pool(pool)
    return row


def no_pool(pool: str) -> Refused:
    """The refusal of a name that no pool has."""
    return unknown(f"there is no pool {pool!r}", field="pool", see=see("pools.list"))


async def _check_alone(session: AsyncSession, row: PoolRow) -> None:
    """Raise Refused where another active pool is for the same model and tenant: routing asks which one."""
    same = select(PoolRow).where(
        col(PoolRow.model) == row.model,
        col(PoolRow.tenant_id) == row.tenant_id,
        col(PoolRow.state) == ACTIVE,
        col(PoolRow.pool) != row.pool,
    )
    with session.no_autoflush:
        other = (await session.exec(same)).first()
    if other is None or row.state != ACTIVE:
        return
    whose, field = ("the tenant", "tenant") if row.tenant_id else ("a shared pool", "model")
    told = f"has the pool {other.pool!r}" if row.tenant_id else f"is there: {other.pool!r}"
    raise bad_request(f"{whose} for {row.model} {told}", field=field, see=see("pools.list"))


async def _let_in(session: AsyncSession, pool: str, tenants: Collection[str]) -> None:
    rows = await session.exec(select(PoolAdmission).where(col(PoolAdmission.pool) == pool))
    known = {each.tenant_id: each for each in rows}
    for tenant in sorted(known.keys() - set(tenants)):
        await session.delete(known[tenant])
    for tenant in sorted(set(tenants) - known.keys()):
        session.add(PoolAdmission(pool=pool, tenant_id=tenant, created_ms=now_ms()))
    await session.flush()


def _ownership(row: PoolRow) -> PoolOwnership:
    return PoolOwnership(now_ms(), row.tenant_id, row.project_id)


def _facts(row: PoolRow, let_in: Collection[str]) -> dict[str, Any]:
    return row.model_dump() | {"let_in": sorted(let_in)}
