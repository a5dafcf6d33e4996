"""What operations answer of a pool: what it should be, and what the fleet sees of it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from billing.dedicated_pools import pools
from billing.dedicated_pools.observed import PoolSight, VersionSight, read_sights
from billing.tables.pools import ACTIVE, DRAINING, PoolRow
from billing.tenants.tenancy import tenant_names
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time


class PoolStateName(StrEnum):
    """Whether a pool takes new requests."""

    ACTIVE = ACTIVE
    DRAINING = DRAINING


class VersionInPool(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet sees of a version in a pool. `workers`: that run, start or end; `ready`: of these, those
    that serve; `requests`: that began on it and need it, where it is not the one in use; `until`: when the
    last of them ends at the latest, null: none needs it."""

    version: str
    workers: int
    ready: int
    requests: int
    until: str | None


class ObservedPool(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet sees of a pool. `ready`: workers that serve, on any node; `as_desired` None: nobody
    knows, as no fleet runs; `why`: the reason where it is not as desired, or not known; `since`: since when
    it is, or is not, as its last change wants it; `seen`: when the fleet looked last; `versions`: each that
    is about, that in use first; empty: nobody knows."""

    ready: int | None
    as_desired: bool | None
    why: str
    since: str | None
    seen: str | None
    versions: list[VersionInPool]


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool should be, with names of tenants. `note`: a warning of the payer's prices, or empty;
    `observed`: what the fleet sees of it, where it is asked for.

    `version` is what new requests get; `next_version`: workers of it are being made ready, then the pool is
    switched to it; `earlier_version`: the one before, for a rollback; `old_until`: when requests that still
    run on a version of before are ended, None: they may run to their end; `accept_gap`: nobody may serve
    during the switch."""

    pool: str
    model: str
    version: str
    workers: int
    labels: dict[str, str]
    tenant: str | None
    project: str | None
    let_in: list[str]
    reserve_interactive_tokens: int
    reserve_standard_tokens: int
    generation: int
    state: PoolStateName
    made: str | None
    next_version: str | None
    earlier_version: str | None
    old_until: str | None
    accept_gap: bool
    note: str | UnsetType = UNSET
    observed: ObservedPool | UnsetType = UNSET


async def facts_of_pools(unit: Look | Change, rows: Sequence[PoolRow]) -> list[PoolFacts]:
    """What these pools should be."""
    async with unit.db.session() as session:
        let_in = await pools.let_in_by_pool(session, [row.pool for row in rows])
    ids = {id for each in let_in.values() for id in each} | {row.tenant_id for row in rows}
    names = await tenant_names(unit.db, ids)
    return [_facts_of(row, let_in[row.pool], names) for row in rows]


async def observed_facts(look: Look, rows: Sequence[PoolRow]) -> list[PoolFacts]:
    """What these pools should be, and what the fleet sees of them."""
    async with look.db.session() as session:
        sights = await read_sights(session, rows, look.now_ms())
    facts = await facts_of_pools(look, rows)
    return [msgspec.structs.replace(each, observed=_observed(sights[each.pool])) for each in facts]


def _observed(sight: PoolSight) -> ObservedPool:
    since, seen = (iso_time(at) if at else None for at in (sight.since_ms, sight.seen_ms))
    return ObservedPool(
        ready=sight.ready,
        as_desired=sight.as_desired,
        why=sight.why,
        since=since,
        seen=seen,
        versions=[_version(each) for each in sight.versions],
    )


def _version(sight: VersionSight) -> VersionInPool:
    return VersionInPool(
        version=sight.version,
        workers=sight.workers,
        ready=sight.ready,
        requests=sight.requests,
        until=iso_time(sight.until_ms) if sight.until_ms else None,
    )


def _facts_of(row: PoolRow, let_in: Sequence[str], names: Mapping[str, str]) -> PoolFacts:
    return PoolFacts(
        pool=row.pool,
        model=row.model,
        version=row.version,
        workers=row.workers,
        labels=row.labels,
        tenant=names.get(row.tenant_id, row.tenant_id) or None,
        project=row.project_id or None,
        let_in=[names.get(each, each) for each in let_in],
        reserve_interactive_tokens=row.reserve_interactive_tokens,
        reserve_standard_tokens=row.reserve_standard_tokens,
        generation=row.generation,
        state=PoolStateName(row.state),
        made=iso_time(row.made_ms),
        next_version=row.next_version or None,
        earlier_version=row.earlier_version or None,
        old_until=iso_time(row.old_until_ms) if row.old_until_ms else None,
        accept_gap=row.accept_gap,
    )
