"""The controller's rows in SQL: its lease, and what it saw of each pool and of its machine."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlmodel import col, delete, or_, select, update

from billing.pools import FleetNode, PoolState
from core.sql.database import Database, insert_ignore, upsert
from engine.fleet.next_steps import NextStep, StepKind, version_workers
from engine.fleet.observed import FleetNow, PoolNow, PoolTarget
from engine.fleet.tables import FleetLease

LEASE = "fleet"
LEASE_MS = 6_000  # of a clock that others' may differ from: two that act for a moment do no harm
WHY_MAX = 500
VERSIONS_MAX = 20


async def hold_lease(
    db: Database, holder: str, now_ms: int, is_dead: Callable[[str], bool] = lambda _: False
) -> bool:
    """Take the lease, or renew it. False: another's is not over. `is_dead`: of a holder, if it was killed."""
    async with db.transaction() as session:
        await insert_ignore(session, [FleetLease(name=LEASE, holder="", until_ms=0)])
        last = (await session.exec(select(FleetLease.holder).where(col(FleetLease.name) == LEASE))).one()
        mine = [holder, last] if is_dead(last) else [holder]
        free = or_(col(FleetLease.holder).in_(mine), col(FleetLease.until_ms) < now_ms)
        taken = await session.exec(
            update(FleetLease)
            .where(col(FleetLease.name) == LEASE, free)
            .values(holder=holder, until_ms=now_ms + LEASE_MS)
        )
        return taken.rowcount == 1


async def end_lease(db: Database, holder: str) -> None:
    """End the lease of this controller, so that another acts at once."""
    async with db.transaction() as session:
        await session.exec(
            update(FleetLease)
            .where(col(FleetLease.name) == LEASE, col(FleetLease.holder) == holder)
            .values(until_ms=0)
        )


async def write_states(db: Database, rows: Sequence[Mapping[str, Any]], node: Mapping[str, Any]) -> None:
    """Write what was seen of all pools and of the machine; rows of others go."""
    async with db.transaction() as session:
        before = {row.pool: row.model_dump() for row in await session.exec(select(PoolState))}
        told = [dict(row) | times(row, before.get(row["pool"])) for row in rows]
        await upsert(session, told, PoolState)
        await session.exec(delete(PoolState).where(col(PoolState.pool).not_in([row["pool"] for row in rows])))
        await upsert(session, [node], FleetNode)
        await session.exec(delete(FleetNode).where(col(FleetNode.node) != node["node"]))


def times(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, int]:
    """Since when a pool is, or is not, as this generation of it should be, and when it served first. Pure."""
    same = before is not None and all(row[name] == before[name] for name in ("generation", "as_desired"))
    served_ms = before["served_ms"] if before else 0
    return {
        "since_ms": before["since_ms"] if before and same else row["observed_ms"],
        "served_ms": served_ms or (row["observed_ms"] if row["ready"] else 0),
    }


async def read_states(db: Database) -> list[PoolState]:
    """What the controller saw last of each pool, by name. None yet: no controller ran."""
    async with db.session() as session:
        return list(await session.exec(select(PoolState).order_by(col(PoolState.pool))))


def state_rows(
    wanted: Sequence[PoolTarget], steps: Sequence[NextStep], now: FleetNow, holder: str, now_ms: int
) -> list[dict[str, object]]:
    """Rows of pools, by name. Pure."""
    of = {step.pool: step for step in steps}
    rows = list[dict[str, object]]()
    for target in sorted(wanted, key=lambda each: each.pool):
        pool, step = now.pools.get(target.pool, PoolNow()), of[target.pool]
        here = [each for each in pool.supervisors if each.node == now.node]
        others = [each for each in pool.supervisors if each.node != now.node]
        rows.append(
            {
                "pool": target.pool,
                "generation": target.generation,
                "workers": target.workers,
                "running": sum(each.indexes for each in here),
                "elsewhere": sum(each.ordered for each in others),
                "ready": sum(each.ready for each in pool.supervisors),
                "as_desired": step.kind is StepKind.KEEP and not step.why,
                "step": step.kind.value,
                "why": step.why[:WHY_MAX],
                "node": now.node,
                "controller": holder,
                "observed_ms": now_ms,
                "versions": _versions(target, pool),
            }
        )
    return rows


def _versions(target: PoolTarget, pool: PoolNow) -> list[dict[str, object]]:
    """Each version that is about, that in use first, then by name."""
    workers, ready = Counter[str](), Counter[str]()
    for supervisor in pool.supervisors:
        for version, of in version_workers(target, supervisor).items():
            workers[version] += max(of.told, of.indexes)
            ready[version] += of.ready
    pinned = {each: pins for each, pins in pool.pinned.items() if pins.requests}
    names = {target.version, *(each for each, count in workers.items() if count), *pinned}
    return [
        {
            "version": each[:WHY_MAX],
            "workers": workers[each],
            "ready": ready[each],
            "requests": pinned[each].requests if each in pinned else 0,
            "until_ms": pinned[each].until_ms if each in pinned else 0,
        }
        for each in sorted(names, key=lambda each: (each != target.version, each))[:VERSIONS_MAX]
    ]


def node_row(now: FleetNow, holder: str, now_ms: int) -> dict[str, object]:
    """The machine's row. Pure."""
    facts: dict[str, object] = {"node": now.node, "room": now.room, "labels": dict(now.labels)}
    return facts | {"controller": holder, "observed_ms": now_ms}
